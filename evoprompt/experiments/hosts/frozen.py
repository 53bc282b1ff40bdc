"""Host ``frozen``: the model of a trial is not trained; its instruction is optimized.

The loop of ``evoprompt.optimize`` runs in place of an engine, so of a configuration's ``engine``
only the proposer counts.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from pydantic import BaseModel, Field, JsonValue

from evoprompt.agents import Limits, Tools
from evoprompt.agents.tasks import POLICY, Need, Plan, Task, Trial, limits_of
from evoprompt.components import BuildContext, Component
from evoprompt.hosting.prompts import marked_prompt
from evoprompt.hosting.rows import text_of
from evoprompt.lm.budget import TOKENS_AROUND, SpendTracker
from evoprompt.lm.keys import key_variable
from evoprompt.lm.settings import BudgetSettings, Prices, Temperature
from evoprompt.log.evaluation import Evaluation
from evoprompt.optimizer.failures import SHOWN as NUM_FAILURES
from evoprompt.optimizer.options import OptimizeOptions
from evoprompt.optimizer.problem import TESTED, require_budget
from evoprompt.roles import ProposalRequest
from evoprompt.support.credentials import masked
from evoprompt.support.errors import BudgetError
from evoprompt.support.storage import write_whole
from evoprompt.support.text import words_of
from evoprompt.types import (
    Assignment,
    Candidate,
    CandidateStats,
    Question,
    TaskContext,
    Trajectory,
    Turn,
    Written,
    estimate_tokens,
)

ENGINE_SETTINGS = ("proposer", "population_size")
"""Settings of an engine that count here: as many of ``seeds_from`` are used as the population has
places."""

_ROLLOUTS_PER_PROPOSAL = 10  # of whole runs with a server of the tests, 200 rollouts: 11 to 15
_MAX_PROMPTS = 256  # that an estimate reads
_ANSWER_SHARE = 4  # an answer is expected to take this part of the limit of a turn


class FrozenSettings(BaseModel, frozen=True, extra="forbid"):
    """Settings of the host ``frozen``.

    Attributes:
        model: ``openai:gpt-4.1-nano``, or with ``base_url`` a name that this server knows.
        base_url: of a server of OpenAI's chat completions, such as ``http://127.0.0.1:8000/v1``.
        api_key_env: environment variable that holds the key of this server; null for
            ``OPENAI_API_KEY`` at OpenAI's address or that of ``OPENAI_BASE_URL``, and for no key at
            any other.
        temperature: of sampling; null sends none, for models that take none.
        extra_body: further fields of every request, such as ``chat_template_kwargs``.
        turn_tokens: most tokens of an action; null for the task's own limit.
        max_calls: most tool calls of an episode; null for the task's own limit.
        budget: hard limits of ``calls``, ``tokens`` and ``usd`` over all trials of a run.
        prices: in USD per million tokens; null for those of the extra ``lm``.
        seconds: time after which a trial begins no more rollouts; null for no limit.
        proposals: number of instructions requested in an iteration.
        patience: iterations without a better instruction after which a trial ends; 0 only
            measures the seeds; null for no limit of its own, and 45 iterations where every
            reward is the lowest.
        perfect: the greatest possible reward.
        max_concurrency: rollouts at a time.
    """

    model: str = ""
    base_url: str | None = None
    api_key_env: str | None = None
    temperature: Temperature | None = 0.0
    extra_body: dict[str, JsonValue] = {}
    turn_tokens: int | None = Field(default=None, ge=1)
    max_calls: int | None = Field(default=None, ge=0)
    budget: BudgetSettings = BudgetSettings()
    prices: Prices | None = None
    seconds: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    proposals: int = Field(default=1, ge=1)
    patience: int | None = Field(default=None, ge=0)
    perfect: float = Field(default=1.0, allow_inf_nan=False)
    max_concurrency: int = Field(default=8, ge=1)

    def limits(self, task: Task) -> Limits:
        """Return the limits of an episode."""
        return limits_of(task, self.max_calls, self.turn_tokens)

    def before_test(self) -> FrozenSettings:
        """Return the settings with a lower budget of the model; the difference is for the test."""
        limits = {
            name: limit and (limit * (1 - 1 / TESTED) if name == "usd" else limit - limit // TESTED)
            for name, limit in self.budget.model_dump().items()
        }
        return self.model_copy(update={"budget": BudgetSettings.model_validate(limits)})


@dataclass(frozen=True, slots=True)
class FrozenHost(Component):
    """Model behind a server, which is not trained: its instruction is optimized."""

    role = "host"
    Settings = FrozenSettings
    settings: FrozenSettings

    @classmethod
    def build(cls, settings: FrozenSettings, context: BuildContext) -> FrozenHost:
        """Return the host with these settings."""
        return cls(settings)

    def plan(self, task: Task, trial: Trial) -> Plan:
        """Return the work and the needs of ``trial``; no request is sent.

        Raises:
            InputError: a setting is wrong.
        """
        if find_spec("aiohttp") is None:
            remedy = 'pip install -e ".[endpoint]"'
            return Plan(needs=(Need("aiohttp", "not installed", remedy),), iterations=0)
        num_tested = len(tested(task, trial.budget))
        require_budget(trial.budget, len(task.questions("validation")), num_tested)
        needs = [need for need in task.needs() if need.subject != POLICY]
        # Each text is tried at least once.
        proposals = self.settings.proposals
        return Plan(
            tuple(self._figures(task, trial)),
            (*self._needs(), *needs),
            iterations=trial.budget // proposals,
            expected_iterations=max(trial.budget // (_ROLLOUTS_PER_PROPOSAL * proposals), 1),
            request=self._typical_request(task),
        )

    def prepare(self, task: Task, trial: Trial) -> FrozenModel:
        """Return the model as the agent of ``task``.

        Raises:
            InputError: model and task do not fit together, or the prices are not known.
        """
        return FrozenModel(self.settings, task)

    def _needs(self) -> Iterator[Need]:
        from evoprompt.optimizer.endpoint import address_of, prices_of

        chosen = self.settings
        _, url = address_of(chosen.model, chosen.base_url)
        yield Need("server", url)
        if chosen.budget.usd is not None and (chosen.prices or prices_of(chosen.model)) is None:
            yield Need(
                "prices",
                f"those of {chosen.model} are not known, and its budget has usd",
                "--set 'host.prices={input: 0.1, output: 0.4}', in USD per million tokens",
            )
        variable = key_variable(url, chosen.api_key_env)
        if variable is None:
            yield Need("key", f"none is sent to {masked(url)}; --api-key-env NAME names one for it")
        elif os.environ.get(variable):
            yield Need("key", f"{variable} is set")
        else:
            yield Need("key", f"no {variable} in the environment", f"export {variable}=...")

    def _figures(self, task: Task, trial: Trial) -> Iterator[tuple[str, str]]:
        """Yield upper limits of its costs; the bytes of a prompt bound its tokens."""
        from evoprompt.optimizer.endpoint import prices_of

        chosen, limits = self.settings, self.settings.limits(task)
        test, everything = len(tested(task, trial.budget)), len(task.questions("test"))
        yield (
            "rollouts",
            f"at most {trial.budget:,}, validation included; of them {test:,} to test the result "
            f"on {test:,} of {everything:,} test questions",
        )
        turns = limits.calls // 2 + 1  # expected
        expected, requests = trial.budget * turns, trial.budget * (limits.calls + 1)
        splits = ("train", "validation", "test")
        longest = max(len(q.text.encode()) for split in splits for q in task.questions(split))
        seeds = max(len(Candidate.of(seed).text.encode()) for seed in task.seeds)
        tool_bytes = len(json.dumps(Tools(task.tools).schemas).encode()) if task.tools else 0
        instruction_bytes = max(4 * OptimizeOptions().max_tokens, seeds)
        turn = limits.turn_tokens + limits.observation_tokens
        first = longest + instruction_bytes + tool_bytes + TOKENS_AROUND
        inputs = trial.budget * sum(first + turn * k for k in range(limits.calls + 1))
        outputs = requests * limits.turn_tokens
        expected_answer = -(-limits.turn_tokens // _ANSWER_SHARE)
        expected_turn = expected_answer + (limits.observation_tokens // 2 if turns > 1 else 0)
        prompt_tokens = self._prompt_tokens(task) + estimate_tokens("x" * tool_bytes)
        expected_inputs = trial.budget * sum(
            prompt_tokens + expected_turn * turn for turn in range(turns)
        )
        expected_outputs = expected * expected_answer
        about = "" if expected == requests else f"about {expected:,}, "
        yield "requests", f"{about}at most {requests:,}, {limits.calls + 1} a rollout"
        yield (
            "tokens",
            f"about {expected_inputs:,} of prompts and {expected_outputs:,} of answers; at most "
            f"{inputs:,} and {outputs:,}, unless the model thinks",
        )
        prices = chosen.prices or prices_of(chosen.model)
        if prices is None:
            yield "cost", "unknown, as the prices are; host.prices states them"
        else:
            usd = prices.usd(expected_inputs, expected_outputs)
            most_usd = prices.usd(inputs, outputs)
            yield "cost", f"about {usd:,.2g} USD, at most {most_usd:,.2f} USD, if all is used up"
        budget_limits = chosen.budget.model_dump(exclude_none=True)
        caps = [f"{value:g} {name}" for name, value in budget_limits.items()]
        yield "stopped before", ", ".join(caps) or "nothing but the rollouts; see host.budget"

    def _prompt_tokens(self, task: Task) -> int:
        """Return the mean number of tokens of a rollout's first prompt, under the first seed."""
        seed = Candidate.of(task.seeds[0])
        questions = (*task.questions("train"), *task.questions("validation"))[:_MAX_PROMPTS]
        tokens = 0
        for question in questions:
            prompt = task.render([{"role": "user", "content": question.text}], seed)
            texts = (
                [prompt]
                if isinstance(prompt, str)
                else [text_of(message.get("content")) for message in prompt]
            )
            tokens += sum(map(estimate_tokens, texts))
        return -(-tokens // len(questions))

    def _typical_request(self, task: Task) -> ProposalRequest:
        """Return a request with the seed as parent and as many failures as an iteration has."""
        seed = Candidate.of(task.seeds[0])
        limits, questions = self.settings.limits(task), task.questions("train")[:NUM_FAILURES]
        failures = [
            Trajectory(
                Assignment(question.id, question, seed, 1, question.id),
                0.0,
                turns=(Turn(" or ".join(question.answers)),),
            )
            for question in questions
        ]
        prompt = marked_prompt([{"role": "user", "content": questions[0].text}], task.render)
        schemas = Tools(task.tools).schemas if task.tools and limits.calls else []
        return ProposalRequest(
            self.settings.proposals,
            [CandidateStats(seed, 0.0)],
            failures,
            (),
            random.Random(0),
            required=tuple(task.required),
            component=next(iter(seed.components)),
            max_tokens=OptimizeOptions().max_tokens,
            setting=TaskContext(prompt, schemas, words_of(type(task).score), trained=False),
        )


class FrozenModel:
    """Model of a trial, as the agent of its task.

    Args:
        settings: of the host.
        task: of the trial.
        spending: counts the requests; one in memory by default.

    Attributes:
        agent: the program and the metric.
    """

    def __init__(
        self, settings: FrozenSettings, task: Task, spending: SpendTracker | None = None
    ) -> None:
        from evoprompt.optimizer.endpoint import Endpoint, TaskAgent  # aiohttp is of an extra

        chosen = settings
        self._settings, self._task = chosen, task
        self._endpoint = Endpoint(
            chosen.model,
            chosen.base_url,
            key=chosen.api_key_env,
            temperature=chosen.temperature,
            budget=chosen.budget,
            prices=chosen.prices,
            spending=spending,
            extra_body=chosen.extra_body,
        )
        self.agent = TaskAgent(task, self._endpoint, chosen.limits(task))

    def save(self, folder: Path) -> None:
        """Write name and address of the model, as there are no weights."""
        address = {"model": self._endpoint.model, "base_url": self._endpoint.base_url}
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "endpoint.json", json.dumps(address, indent=1) + "\n")

    def evaluate(self, instruction: Written, split: str) -> Evaluation:
        """Evaluate the model under an instruction on all questions of ``split``.

        Raises:
            BudgetError: the budget ended before the last question.
        """
        questions = self._task.questions(split)
        at_a_time = self._settings.max_concurrency
        evaluation, played = self.agent.evaluate(instruction, split, questions, at_a_time)
        if played < len(questions):
            raise BudgetError(
                f"the budget of the model ended after {played} of the {len(questions)} questions "
                f"of {split}; required: more; raise host.budget"
            )
        return evaluation

    def test(self, instruction: Written, questions: Sequence[Question]) -> tuple[Evaluation, int]:
        """Return the evaluation on test questions, and the number of questions within the budget.

        Raises:
            BudgetError: the budget ended before the first question.
        """
        return self.agent.evaluate(instruction, "test", questions, self._settings.max_concurrency)


def tested(task: Task, budget: int) -> Sequence[Question]:
    """Return the test questions for a trial of ``budget`` rollouts: the first ones."""
    return task.questions("test")[: max(budget // TESTED, 1)]

"""Programs that call a model behind a server: with a text, or as the agent of a task."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from pydantic import JsonValue

from evoprompt.agents import Agent, AnswerProtocol, Episode, Limits
from evoprompt.agents.endpoint import ChatEndpoint
from evoprompt.agents.tasks import EpisodeRunner, Task, scored
from evoprompt.hosting.prompts import marked_prompt, system_message
from evoprompt.lm.budget import Charge, Spending, SpendTracker, require_prices
from evoprompt.lm.keys import address_from_environment, require_address
from evoprompt.lm.loop import completed
from evoprompt.lm.settings import BudgetSettings, Prices, model_card
from evoprompt.log.evaluation import Evaluation, QuestionOutcome, Score, outcomes_of
from evoprompt.optimizer.data import question_of
from evoprompt.optimizer.runner import is_empty
from evoprompt.support.errors import BudgetError, EvopromptError, InputError, LmError
from evoprompt.support.failures import EMPTY, FailureCount
from evoprompt.support.text import words_of
from evoprompt.types import Candidate, Question, TaskContext, Written

OPENAI = "openai:"
"""Prefix of the name of a model that OpenAI serves."""

_OPENAI_URL = "https://api.openai.com/v1"


class EpisodeFailedError(EvopromptError, RuntimeError):
    """Error of an episode that failed for reasons other than its instruction."""


class Endpoint:
    """Model behind a server of OpenAI's chat completions; as a program it returns a text.

    Requests are repeated after rate limits, server and network errors. Usual parameters that the
    model refuses, as reasoning models do, are left out with a warning.

    Args:
        model: ``"openai:gpt-4.1-nano"``, or with ``base_url`` the name of a model of this server.
        base_url: address of the server, such as ``http://127.0.0.1:8000/v1``.
        temperature: temperature of sampling; at 0 the model mostly gives the same answer to the
            same question; None sends no temperature, for models that take none.
        max_tokens: maximum number of tokens of an answer, if the endpoint is used as a program.
        budget: hard limits of ``calls``, ``tokens`` and ``usd``, checked before each request.
        prices: prices in USD per million tokens, as ``{"input": 0.1, "output": 0.4}``; by default
            those of the libraries of the extra ``lm``; needed only for ``usd``.
        key: name of the environment variable with the API key for this server; by default
            ``OPENAI_API_KEY`` for OpenAI's address and that of ``OPENAI_BASE_URL``, and no key for
            any other server.
        timeout: longest silence of the server, in seconds.
        spending: tracker of the requests; by default a new one in memory.
        extra_body: further fields of every request, as in the openai package, such as
            ``{"chat_template_kwargs": {"enable_thinking": False}}`` for a private server.

    Attributes:
        model: name of the model on the server.
        base_url: address of the server.
        spending: cost so far, and the budget.
        chat: the policy.
        temperature: see above.

    Raises:
        InputError: there is no address, or ``usd`` is limited and the prices are unknown.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        *,
        temperature: float | None = 0.0,
        max_tokens: int = 1024,
        budget: BudgetSettings | Mapping[str, float] | None = None,
        prices: Prices | Mapping[str, float] | None = None,
        key: str | None = None,
        timeout: float = 300.0,
        spending: SpendTracker | None = None,
        extra_body: Mapping[str, JsonValue] | None = None,
    ) -> None:
        self.model, self.base_url = address_of(model, base_url)
        self.temperature = temperature
        budget_settings = BudgetSettings.model_validate(budget or {})
        known_prices = prices_of(model) if prices is None else Prices.model_validate(prices)
        require_prices(budget_settings, known_prices, model)
        tracker = SpendTracker() if spending is None else spending
        self.spending = Spending(tracker, budget_settings, known_prices)
        self.chat = ChatEndpoint(
            self.model,
            self.base_url,
            temperature=temperature,
            timeout=timeout,
            key=key,
            spending=self.spending,
            extra_body=extra_body,
        )
        limits = Limits(calls=0, turn_tokens=max_tokens, observation_tokens=0)
        self._agent = Agent(AnswerProtocol(), self.chat.tokenizer, limits)

    setting = TaskContext(
        marked_prompt([{"role": "user", "content": "(the question)"}], system_message),
        trained=False,
    )
    """Context of an instruction, for a proposer to read."""

    async def __call__(self, instruction: Written, example: object) -> str:
        """Return the model's answer to the question of ``example``; empty if there is none.

        Raises:
            InputError: the example is a row without a question; its answer would be sent with it.
            EpisodeFailedError: the model was still reasoning at its limit of tokens.
            LmError: a request failed or was not sent, for example because the budget is spent.
        """
        text = question_of(example, "asked", is_strict=True).text
        question = [{"role": "user", "content": text}]
        messages = system_message(question, Candidate.of(instruction))
        assert not isinstance(messages, str)
        prompt = self.chat.tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            None,
            add_generation_prompt=True,
            tokenize=False,
        )
        ids = self.chat.tokenizer.encode(prompt, add_special_tokens=False)
        episode = await self.chat.play(self._agent.play(ids), _no_tool, greedy=not self.temperature)
        return self.require_complete(episode).answer or ""

    def cost(self) -> Charge:
        """Return the cost of the requests since the endpoint was created."""
        return self.spending.tracker.spent

    def require_complete(self, episode: Episode) -> Episode:
        """Return the episode, if it is evidence about its instruction.

        Raises:
            EpisodeFailedError: the episode failed, or was cut off while the model was reasoning.
        """
        if episode.end == "cut in thought":
            raise EpisodeFailedError(
                f"{self.model} still thought at its limit of tokens (finish_reason length); "
                "required: a limit that leaves room for the answer; raise max_tokens, or the "
                "turn_tokens of a task's limits"
            )
        if episode.end == "failed":
            raise EpisodeFailedError(episode.error)
        return episode


class TaskAgent:
    """Task, tools included, played by a model behind a server: a program and its metric.

    Its attributes are the arguments of :func:`~evoprompt.optimize`::

        agent = TaskAgent(task, Endpoint("openai:gpt-4.1-nano"))
        optimize(
            agent.seed, agent.train, agent.metric, program=agent, valset=agent.validation, lm=lm
        )

    Args:
        task: the questions, tools, protocol and scoring.
        endpoint: the model.
        limits: limits of an episode; by default those of the task.

    Attributes:
        seed: the first instruction, and the descriptions of the tools that evolve.
        train: questions to learn from.
        validation: questions to choose by.
        required: texts that an instruction must hold.

    Raises:
        InputError: the task cannot be played in chat messages.
    """

    def __init__(self, task: Task, endpoint: Endpoint, limits: Limits | None = None) -> None:
        self._task = task
        self._endpoint = endpoint
        self._runner = EpisodeRunner(task, endpoint.chat.tokenizer, limits)
        self.seed: Mapping[str, str] = Candidate.of(task.seeds[0]).components
        self.train = task.questions("train")
        self.validation = task.questions("validation")
        self.required: Sequence[str] = tuple(task.required)
        self._tools = {split: task.caller(split) for split in ("train", "validation")}
        self._validation = {question.id for question in self.validation}

    @property
    def setting(self) -> TaskContext:
        """Return the context of an instruction, for a proposer to read."""
        prompt = marked_prompt(self._runner.prompt(self.train[0]), self._task.render)
        reward = words_of(type(self._task).score)
        return TaskContext(prompt, self._runner.schemas, reward, trained=False)

    async def __call__(self, instruction: Written, question: Question) -> Episode:
        """Play the question and return the model's episode.

        Raises:
            EpisodeFailedError: a tool broke, or the model was still reasoning at its limit of
                tokens.
            LmError: a request failed or was not sent, for example because the budget is spent.
        """
        split = "validation" if question.id in self._validation else "train"
        return await self._play_question(instruction, question, split)

    def cost(self) -> Charge:
        """Return the cost of the model's requests; see :meth:`Endpoint.cost`."""
        return self._endpoint.cost()

    def metric(self, question: Question, episode: Episode) -> Score:
        """Return the task's score of an episode."""
        score = scored(self._task, episode, question)
        assert score is not None  # an episode that failed has raised
        return score

    def evaluate(
        self, instruction: Written, split: str, questions: Sequence[Question], at_a_time: int = 8
    ) -> tuple[Evaluation, int]:
        """Evaluate the model with an instruction; a failed episode has no score.

        Episodes that the budget has stopped do not count.

        Args:
            instruction: the instruction.
            split: the split whose tools are used.
            questions: questions of this split.
            at_a_time: maximum number of simultaneous episodes.

        Returns:
            The evaluation, and the number of questions for which the budget sufficed.

        Raises:
            InputError: every episode failed.
            BudgetError: the budget does not suffice for one episode.
        """
        semaphore = asyncio.Semaphore(at_a_time)

        async def play_or_return_error(question: Question) -> Episode | Exception:
            async with semaphore:
                try:
                    return await self._play_question(instruction, question, split)
                except (EpisodeFailedError, LmError) as error:
                    return error

        async def play_all() -> list[Episode | Exception]:
            return await asyncio.gather(*map(play_or_return_error, questions))

        episodes = completed(play_all())
        failures, scores, outcomes = FailureCount(), [], list[QuestionOutcome]()
        for question, episode in zip(questions, episodes, strict=True):
            if isinstance(episode, BudgetError):
                continue
            if isinstance(episode, Exception):
                failures = failures.with_rollout(str(episode))
                outcomes.append(QuestionOutcome(question.text, "", None))
                continue
            scores.append(self.metric(question, episode))
            outcomes += outcomes_of([question.text], scores[-1:], self._task.main_metric)
            is_silent = is_empty(episode.answer or "", episode.turns)
            failures = failures.with_rollout(EMPTY if is_silent else "")
        if not failures.of:
            raise BudgetError(f"no question of {split} could be evaluated: {episodes[0]}")
        if not scores:
            raise InputError(f"no episode of {split} could be played: {failures.first}")
        mean = Evaluation.of(scores, self._task.main_metric, 1 - len(scores) / failures.of)
        return mean.model_copy(update={"failures": failures, "outcomes": outcomes}), failures.of

    async def _play_question(self, instruction: Written, question: Question, split: str) -> Episode:
        if split not in self._tools:
            self._tools[split] = self._task.caller(split)
        candidate = Candidate.of(instruction)
        prompt = self._task.render(self._runner.prompt(question), candidate)
        episode = await self._endpoint.chat.play(
            self._runner.play(prompt),
            self._tools[split].one,
            greedy=not self._endpoint.temperature,
        )
        return self._endpoint.require_complete(episode)


def address_of(model: str, base_url: str | None) -> tuple[str, str]:
    """Return the model's name on its server, and the address of the server.

    Raises:
        InputError: there is no address.
    """
    name = model.removeprefix(OPENAI)
    if base_url:
        require_address(base_url, "base_url")
        return name, base_url
    if model.startswith(OPENAI) and name:
        return name, address_from_environment("OPENAI") or _OPENAI_URL
    raise InputError(
        f"the model is {model!r} without an address; required: {OPENAI}NAME for one that OpenAI "
        "serves, or the base_url of a server, such as http://127.0.0.1:8000/v1"
    )


def prices_of(model: str) -> Prices | None:
    """Return the prices of a model of OpenAI from the libraries of the extra ``lm``, if known."""
    if not model.startswith(OPENAI):
        return None
    try:
        return model_card(f"openai/{model.removeprefix(OPENAI)}").prices
    except ModuleNotFoundError:
        return None


async def _no_tool(call: object) -> str:
    raise AssertionError(f"{call} without tools")

"""GEPA's reflective mutation as a proposer of evoprompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, Field, JsonValue

from evoprompt import BuildContext, Proposer
from evoprompt.errors import InputError
from evoprompt.lm import Call, Estimate, LanguageModel, LmError, LmSettings, verbatim
from evoprompt.roles import ProposalRequest
from evoprompt.turns import clip, render_episode
from evoprompt.types import Candidate, Proposal, Trajectory

if TYPE_CHECKING:
    from gepa.proposer.reflective_mutation.reflection_lm import ReflectionJob

_PROMPT_TOKENS = 600  # about what GEPA's own words and an instruction take
_ANSWER_TOKENS = 400

Record = dict[str, str]
"""One example in the schema that GEPA recommends: Inputs, Generated Outputs, Feedback."""


class GepaReflection(Proposer):
    """GEPA's reflective mutation: an LLM rewrites the parent from its failures.

    It asks for one rewritten component a proposal. All proposals of a request are asked for at
    once. The prompt and the reading of the answer are those of the installed GEPA; what the engine
    requires of every instruction is added to the prompt, for GEPA knows nothing of protocol tags.

    Args:
        lm: which model to ask.
        failures: failed trajectories shown for one proposal, at least 1.
        episode_tokens: length to which each of them is shortened, in tokens.
        prompt_template: instead of GEPA's own; must hold ``<curr_param>`` and ``<side_info>``.

    Raises:
        InputError: the template lacks a placeholder.
    """

    name = "gepa"
    slow = True

    class Settings(BaseModel, extra="forbid"):
        """What a configuration may set."""

        lm: LmSettings
        failures: int = Field(3, ge=1, description="failed trajectories shown for one proposal")
        episode_tokens: int = Field(800, ge=100, description="length each of them is shortened to")
        prompt_template: str | None = Field(
            None, description="instead of GEPA's own; holds <curr_param> and <side_info>"
        )

    @classmethod
    def build(cls, settings: Settings, context: BuildContext) -> GepaReflection:
        """Makes one that asks the language model of ``settings``."""
        lm = LanguageModel(settings.lm, context.directory, context.spending, context.given)
        return cls(lm, settings.failures, settings.episode_tokens, settings.prompt_template)

    def __init__(
        self,
        lm: LanguageModel,
        failures: int = 3,
        episode_tokens: int = 800,
        prompt_template: str | None = None,
    ) -> None:
        from gepa.strategies.instruction_proposal import InstructionProposalSignature

        try:
            InstructionProposalSignature.validate_prompt_template(prompt_template)
        except ValueError as error:
            raise InputError(f"prompt_template: {error}; add them to the template") from error
        self.lm = lm
        self.failures = failures
        self.episode_tokens = episode_tokens
        self.template = prompt_template or InstructionProposalSignature.default_prompt_template

    def check(self, probe: bool = False) -> None:
        """Makes sure that the language model can be asked."""
        self.lm.check(probe)

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Up to ``request.count`` rewritten parents; none without failures to reflect on.

        Raises:
            LmError: the model gave no usable answer at all.
        """
        from gepa.proposer.reflective_mutation.reflection_lm import StatelessReflectionLM

        if not request.failures:
            return []
        template = self.template
        if request.required:
            kept = "\n".join(request.required)
            template += f"\n\nThe new instructions must contain each of these literally:\n{kept}"
        jobs: list[ReflectionJob] = []
        parents: list[Candidate] = []
        for number in range(request.count):
            parent = request.parents[number % len(request.parents)].candidate
            component = request.rng.choice(list(parent.components))
            own = [one for one in request.failures if one.candidate.id == parent.id]
            latest = {one.question.id: one for one in reversed(own or request.failures)}
            pool = list(latest.values())  # one of each question
            shown = request.rng.sample(pool, min(self.failures, len(pool)))
            records = {component: [self._record(one) for one in shown]}
            jobs.append((dict(parent.components), records, [component]))
            parents.append(parent)
        answers = StatelessReflectionLM(_GepaLm(self.lm), template).reflect_many(jobs)
        return [
            Proposal(
                {**parent.components, component: answer.new_texts[component]},
                (parent.id,),
                f"GEPA reflected on {len(dataset[component])} failures",
                self.name,
            )
            for parent, (_, dataset, (component,)), (answer, _) in zip(
                parents, jobs, answers, strict=True
            )
            if answer.new_texts[component] not in ("", parent.components[component])
        ]

    def _record(self, failure: Trajectory) -> Record:
        answers = " or ".join(failure.question.answers)
        correct = f" The correct answer is {answers}." if answers else ""
        said = f" {clip(failure.feedback, 4 * self.episode_tokens)}" if failure.feedback else ""
        return {
            "Inputs": failure.question.text,
            "Generated Outputs": render_episode(replace(failure, feedback=""), self.episode_tokens),
            "Feedback": f"The reward was {failure.reward}.{correct}{said}",
        }

    def metrics(self) -> Mapping[str, float]:
        """What the language model cost so far."""
        return self.lm.metrics()

    def notices(self) -> Sequence[str]:
        """Nothing: what goes wrong is raised."""
        return ()

    def estimate(self, generations: int, count: int, parents: int) -> Estimate:
        """What ``generations`` requests for ``count`` proposals will cost: a call per proposal."""
        shown = self.failures * self.episode_tokens
        return self.lm.estimate(generations * count, _PROMPT_TOKENS + shown, _ANSWER_TOKENS)

    def state_dict(self) -> dict[str, JsonValue]:
        """What was spent."""
        return self.lm.state_dict()

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        self.lm.load_state_dict(state)


class _GepaLm:
    """A language model as GEPA calls one; an empty text where no usable answer came."""

    def __init__(self, lm: LanguageModel) -> None:
        self._lm = lm

    def __call__(self, prompt: str | list[dict[str, Any]]) -> str:
        (text,) = self._ask([prompt if isinstance(prompt, str) else _last_text(prompt)])
        return text

    def batch_complete(self, conversations: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
        """One answer a conversation, all asked for at once."""
        return self._ask([_last_text(messages) for messages in conversations])

    def _ask(self, prompts: Sequence[str]) -> list[str]:
        answers = self._lm.ask([Call(verbatim, {"prompt": prompt}) for prompt in prompts])
        errors = [answer for answer in answers if isinstance(answer, LmError)]
        if len(errors) == len(answers):
            raise errors[0]
        return [
            "" if isinstance(answer, LmError) or answer.truncated else str(answer.fields["text"])
            for answer in answers
        ]


def _last_text(messages: Sequence[Mapping[str, Any]]) -> str:
    return str(messages[-1]["content"])

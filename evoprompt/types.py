"""The frozen records that travel between the engine, its parts and the trainers.

Everything here pickles, holds plain data only and is never changed after construction. Words have
the meaning of the glossary in ``docs/reference/engine.md``; higher rewards are always better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from pydantic import JsonValue
from pydantic.dataclasses import dataclass as checked

from evoprompt.support.errors import InputError
from evoprompt.support.failures import FailureCount
from evoprompt.support.text import many

INSTRUCTION = "instruction"
"""Name of the component that a single-text candidate consists of."""

TOOL = "tool:"
"""What the names of components begin with that are descriptions of tools: ``"tool:add"``."""

Written = str | Mapping[str, str]
"""An instruction, or a text per component."""

_LARGEST = 1e100  # beyond it the variance of rewards is no longer a number
_FEEDBACK_SHOWN = 200  # characters of a feedback in the reason of a failure


@dataclass(frozen=True, slots=True)
class Question:
    """One task instance, as the trainer draws it from its dataset.

    Attributes:
        id: unique within its dataset and stable over runs.
        text: text of the question, without any instruction.
        answers: every answer counted as correct; may be empty when the reward needs none.
        row: the host's own JSON row, enough to roll the question out again for verification.
    """

    id: str
    text: str
    answers: tuple[str, ...] = ()
    row: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Candidate:
    """One prompt with its lineage.

    Attributes:
        id: unique within an engine, ``"c0"``, ``"c1"``, ... in order of creation.
        components: text per component; the usual candidate has the one component ``"instruction"``.
        parents: ids of the candidates it was proposed from; empty for a seed.
        born: engine step of its creation.
        proposer: name of the proposer that wrote it, ``"seed"`` for a given one.
        rationale: why the proposer wrote it (an analysis, a diagnosis), for people to read.
    """

    id: str
    components: Mapping[str, str]
    parents: tuple[str, ...] = ()
    born: int = 0
    proposer: str = "seed"
    rationale: str = ""

    @classmethod
    def of(cls, texts: Written) -> Candidate:
        """Return a candidate that belongs to no engine, for a comparison.

        >>> Candidate.of("Be brief.").components
        {'instruction': 'Be brief.'}
        """
        return cls("given", {INSTRUCTION: texts} if isinstance(texts, str) else dict(texts))

    @property
    def text(self) -> str:
        """Return the text of all components, joined by blank lines."""
        return "\n\n".join(self.components.values())

    @property
    def instruction(self) -> str:
        """Return the text in the prompt: all components but the descriptions of tools."""
        texts = [text for name, text in self.components.items() if not name.startswith(TOOL)]
        return "\n\n".join(texts)

    @property
    def tool_descriptions(self) -> dict[str, str]:
        """Return the descriptions of tools, by the names of the tools.

        >>> Candidate("c0", {"instruction": "Be brief.", "tool:look": "Looks."}).tool_descriptions
        {'look': 'Looks.'}
        """
        return {
            name.removeprefix(TOOL): text
            for name, text in self.components.items()
            if name.startswith(TOOL)
        }


def legible(components: Mapping[str, str]) -> str:
    r"""Return the components as a text for people: the instruction, then each tool by name.

    >>> legible({"instruction": "Be brief.", "tool:look": "Looks left."})
    'Be brief.\n\nTool look: Looks left.'
    """
    return "\n\n".join(
        f"Tool {name.removeprefix(TOOL)}: {text}" if name.startswith(TOOL) else text
        for name, text in components.items()
    )


@dataclass(frozen=True, slots=True)
class Assignment:
    """A question paired with the candidate that its prompt holds.

    Attributes:
        id: identifies the trajectories in ``tell``; unique within an engine, and for verification
            within a round.
        question: the question.
        candidate: the candidate; its instruction is in the prompt.
        rollouts: number of trajectories expected, at least 1.
        group: assignments of one ``ask`` with the same group share one GRPO baseline.
        purpose: ``"train"`` from ``ask``, ``"verify"`` inside ``evolve``.
    """

    id: str
    question: Question
    candidate: Candidate
    rollouts: int
    group: str
    purpose: Literal["train", "verify"] = "train"


@dataclass(frozen=True, slots=True)
class Turn:
    """One action and the observation that followed it.

    Attributes:
        action: text the policy emitted.
        observation: text that the environment returned, masked from the loss; empty after the
            last action.
    """

    action: str
    observation: str = ""


def is_usable(value: float) -> bool:
    """Return whether a reward or metric is a finite number of at most 1e100."""
    return abs(value) <= _LARGEST


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Record of one rollout.

    Attributes:
        assignment: the assignment that was rolled out.
        reward: finite scalar, or ``None`` when the rollout failed or was not scored: such a
            trajectory is not evidence about its instruction and is not attributed.
        rollout: index within the assignment, in ``[0, assignment.rollouts)``.
        turns: actions and observations, oldest first. Hosts may leave them out of failures beyond
            ``failures_per_request`` per candidate, and of successes that are neither on the
            question of such a failure nor the first of the candidate.
        metrics: further numbers of the host, such as ``tool_calls`` or ``response_tokens``.
        feedback: explanation of the reward by the task; may be left empty like ``turns``.
    """

    assignment: Assignment
    reward: float | None
    rollout: int = 0
    turns: tuple[Turn, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    feedback: str = ""

    @property
    def question(self) -> Question:
        """Return the question of the assignment."""
        return self.assignment.question

    @property
    def candidate(self) -> Candidate:
        """Return the candidate of the assignment."""
        return self.assignment.candidate

    @property
    def failure(self) -> str:
        """Return why the rollout has no reward; empty if it has one."""
        if self.reward is not None:
            return ""
        feedback = f": {self.feedback[:_FEEDBACK_SHOWN]}" if self.feedback else ""
        return f"{self.candidate.id} got no reward on question {self.question.id!r}{feedback}"

    @property
    def text(self) -> str:
        """Return actions and observations in order, as one text."""
        return "".join(turn.action + turn.observation for turn in self.turns)

    def require_finite(self) -> None:
        """Check that the reward and all metrics are usable numbers.

        Raises:
            InputError: the reward or a metric is NaN, infinite or larger than 1e100.
        """
        for name, value in (("reward", self.reward), *self.metrics.items()):
            if value is not None and not is_usable(value):
                raise InputError(
                    f"{name} {value} of assignment {self.assignment.id!r}; required: a finite "
                    f"number of at most {_LARGEST:g}, or None as the reward of a rollout that "
                    "failed; fix the reward function, or leave out what was not measured"
                )


@dataclass(frozen=True, slots=True)
class CandidateStats:
    """A candidate with the estimates from its trajectories.

    Attributes:
        candidate: the candidate.
        weight: importance weight ``w_j`` (paper Eq. 6), finite; higher is better.
        stderr: standard error of ``weight``, at least 0; infinite when nothing was measured.
        groups: number of scored groups behind ``weight``; 0 means unmeasured, which is not bad.
        objectives: means of the trajectories' metrics, for selectors that rank by several.
        by_question: mean reward per question id, for selectors that compare case by case.
        step: engine step at which this was known; None where it is of now.
        lead: estimated lead over the incumbent of that step; None where nothing compared them.
    """

    candidate: Candidate
    weight: float
    stderr: float = float("inf")
    groups: int = 0
    objectives: Mapping[str, float] = field(default_factory=dict)
    by_question: Mapping[str, float] = field(default_factory=dict)
    step: int | None = None
    lead: float | None = None


@checked(frozen=True, slots=True)
class Proposal:
    """Texts for a new candidate, as a proposer returns them, before any check.

    Attributes:
        components: text per component.
        parents: ids of the candidates it was made from.
        rationale: the reason, for people to read.
        proposer: name of the proposer that wrote it, if a proposer delegates; empty for the
            engine's own proposer.
    """

    components: Mapping[str, str]
    parents: tuple[str, ...] = ()
    rationale: str = ""
    proposer: str = ""

    @classmethod
    def of(cls, text: str, *parents: Candidate, rationale: str = "") -> Proposal:
        """Return a proposal with a single text, made from ``parents``.

        >>> Proposal.of("Answer first.").components
        {'instruction': 'Answer first.'}
        """
        return cls({INSTRUCTION: text}, tuple(parent.id for parent in parents), rationale)

    @property
    def text(self) -> str:
        """Return the text; several components are joined by blank lines."""
        return "\n\n".join(self.components.values())


Decision = Literal["admitted", "rejected", "on trial"]
ADMITTED: Final = "admitted"
REJECTED: Final = "rejected"
ON_TRIAL: Final = "on trial"


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """Result of a verification for one candidate.

    Attributes:
        candidate: the candidate.
        mean: mean reward over its scored verification rollouts; None when none was scored.
        stderr: standard error of ``mean``; None below two scored rollouts.
        scored: number of scored verification rollouts.
        decision: *admitted* to the population, *rejected*, or *on trial*: then the candidate is
            given
            training rollouts, and the verifier is called again.
        reason: reason of a rejection, in words; empty otherwise.
    """

    candidate: Candidate
    mean: float | None
    stderr: float | None
    scored: int
    decision: Decision = ON_TRIAL
    reason: str = ""

    @property
    def is_admitted(self) -> bool:
        """Return whether the candidate joins the population."""
        return self.decision == ADMITTED

    @property
    def is_on_trial(self) -> bool:
        """Return whether the candidate is not decided yet."""
        return self.decision == ON_TRIAL


@dataclass(frozen=True, slots=True)
class Verification:
    """Results of one verification round.

    Attributes:
        results: one per proposed candidate, best first.
        parents: one per parent that was rolled out on the same questions (may be empty).
        trajectories: all rollouts of the round, for the attributor.
        notice: message for the user, such as the reason why nothing could be admitted; the engine
            logs it as a Notice event.
    """

    results: tuple[VerificationResult, ...]
    parents: tuple[VerificationResult, ...] = ()
    trajectories: tuple[Trajectory, ...] = ()
    notice: str = ""


@dataclass(frozen=True, slots=True)
class StepReport:
    """Report of one ``tell``.

    Attributes:
        step: the step it completed, counted from 1.
        trajectories: number of trajectories.
        unscored: number of trajectories without a reward.
        reward: mean reward of the scored ones; None when there was none.
        pruned: ids of the candidates dropped.
    """

    step: int
    trajectories: int
    unscored: int
    reward: float | None
    pruned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EvolveReport:
    """Report of one call of ``evolve``.

    Attributes:
        step: the engine step it happened at.
        due: False when there was nothing to do; everything below is then empty.
        rounds: number of propose-verify rounds.
        proposed: number of proposals received, rejected ones included.
        admitted: ids of the candidates that entered the population.
        rollouts: verification rollouts spent.
        failure: why there was nothing to try; empty if the generation did not fail.
        failures: verification rollouts that have no reward.
    """

    step: int
    due: bool = False
    rounds: int = 0
    proposed: int = 0
    admitted: tuple[str, ...] = ()
    rollouts: int = 0
    failure: str = ""
    failures: FailureCount = field(default_factory=FailureCount)


def estimate_tokens(text: str) -> int:
    """Roughly the tokens of a text when no tokenizer is known: words, or a fifth of its bytes.

    >>> estimate_tokens("Answer first."), estimate_tokens("a" * 100)
    (3, 20)
    """
    return max(len(text.split()), -(-len(text.encode("utf-8", "replace")) // 5))


@dataclass(frozen=True, slots=True)
class TextLimits:
    """Limits of the policy's tokenizer and context; an adapter sets them when it attaches.

    Attributes:
        count_tokens: tokens of a text.
        max_tokens: most tokens an instruction may have.
        max_prompt_tokens: most tokens of instruction and question together, chat template
            included; None when the host has no such limit.
        control_tokens: special tokens that no instruction may hold.
    """

    count_tokens: Callable[[str], int] = estimate_tokens
    max_tokens: int = 1024
    max_prompt_tokens: int | None = None
    control_tokens: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class TaskContext:
    """Context of an instruction, for proposers to read; an adapter sets it.

    Attributes:
        prompt: a prompt as the policy reads it, with :data:`PLACE` where the instruction stands.
        tools: schemas of the tools that the policy may call.
        reward: description of the reward, in the words of the task.
        components: description of each component, such as the signature of its predictor.
        trained: whether the policy is being trained, or is frozen.
        call: an example of a tool call in the format of the policy's chat template, if known.
    """

    prompt: str = ""
    tools: Sequence[Mapping[str, JsonValue]] = ()
    reward: str = ""
    components: Mapping[str, str] = field(default_factory=dict)
    trained: bool = True
    call: str = ""


PLACE = "[here stands the instruction]"
"""Where the instruction stands in :attr:`TaskContext.prompt`."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Expected calls, tokens and cost; ``usd`` is None when the price is unknown.

    >>> str(Estimate(11, 60_000, 0.2))
    'about 11 calls, 60,000 tokens, 0.2 USD'
    """

    calls: int
    tokens: int
    usd: float | None

    def __add__(self, other: Estimate) -> Estimate:
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        return Estimate(self.calls + other.calls, self.tokens + other.tokens, usd)

    def __mul__(self, factor: int) -> Estimate:
        """Return the cost of ``factor`` times the same."""
        usd = None if self.usd is None else self.usd * factor
        return Estimate(self.calls * factor, self.tokens * factor, usd)

    def __str__(self) -> str:
        cost = "price unknown" if self.usd is None else f"{self.usd:.2g} USD"
        return f"about {many(self.calls, 'call')}, {self.tokens:,} tokens, {cost}"

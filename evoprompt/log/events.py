"""What happened in a run, one frozen record an event; ``eventlog.py`` writes them down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar

from evoprompt.log.evaluation import MainMetric
from evoprompt.support.sentence_values import SentenceValue
from evoprompt.types import Turn, VerificationResult


@dataclass(frozen=True, slots=True)
class Event:
    """Base of all events. ``step`` is the engine step it happened at.

    Its ``kind`` in files is the name of its class, in lower case; a class below an event's own is
    of the same kind.
    """

    kind: ClassVar[str]
    step: int

    def __init_subclass__(cls) -> None:
        if Event in cls.__bases__:
            cls.kind = cls.__name__.lower()

    def to_json(self) -> dict[str, Any]:
        """The event as JSON values, its kind first."""
        return {"event": self.kind, **_plain(self)}


@dataclass(frozen=True, slots=True)
class Seeded(Event):
    """A candidate was there from the start.

    Attributes:
        candidate: id it got.
        components: its texts.
        origin: run, trial and candidate it was taken over from; empty for the task's own.
    """

    candidate: str
    components: Mapping[str, str]
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Asked(Event):
    """Questions were paired with candidates.

    Attributes:
        draws: questions given to each candidate.
        rollouts: of each of those questions under each candidate.
        probabilities: selection probability of each active candidate (Eq. 4), if the sampler
            knows it.
    """

    draws: Mapping[str, int]
    rollouts: int
    probabilities: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Told(Event):
    """Trajectories were attributed.

    Attributes:
        rollouts: rollouts spent so far, verification included.
        trajectories: told in this step.
        unscored: of them, without a reward.
        reward: mean reward of the scored ones, ``None`` when there was none.
        weights: importance weight of each active candidate after attribution (Eq. 6).
        metrics: means of the trajectories' metrics.
        instruction_length: mean length in words of the instructions used.
        stderrs: standard errors of ``weights``, where the attributor knows them.
        failure: why the first rollout without a reward has none; empty if all have one.
        groups: the groups with at least two scored rollouts.
        groups_without_signal: those of them in which all rewards are equal, so that a trainer that
            compares the rollouts of a group learns nothing from them.
    """

    rollouts: int
    trajectories: int
    unscored: int
    reward: float | None
    weights: Mapping[str, float]
    metrics: Mapping[str, float] = field(default_factory=dict)
    instruction_length: float = 0.0
    stderrs: Mapping[str, float] = field(default_factory=dict)
    failure: str = ""
    groups: int = 0
    groups_without_signal: int = 0


@dataclass(frozen=True, slots=True)
class Excerpt:
    """What a rollout said and was shown, shortened.

    Attributes:
        candidate: id of whom it was made under.
        question: what was asked.
        answer: every answer counted as correct, joined by "or"; empty where there is none.
        reward: of the trajectory.
        turns: actions of the policy, each with the observation that followed it and that the loss
            does not see.
        feedback: what the task's scoring said of it.
        left_out: characters of all these that the trajectory had and this has not.
    """

    candidate: str
    question: str
    answer: str
    reward: float
    turns: tuple[Turn, ...]
    feedback: str = ""
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Shown(Event):
    """Rollouts for a person to read: a bad and a good one of some candidates.

    Of training at some steps; of verification after each round, before the candidates are admitted.
    """

    excerpts: tuple[Excerpt, ...]


@dataclass(frozen=True, slots=True)
class Differed(Event):
    """Questions that candidates came out differently on under one policy, the widest gaps first.

    Attributes:
        questions: by the question's text, shortened, the mean reward of each candidate.
    """

    questions: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Pruned(Event):
    """The candidates ``dropped`` left the population, and ``kept`` stayed."""

    dropped: tuple[str, ...]
    kept: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proposed(Event):
    """A proposer wrote an instruction and screening judged it.

    Attributes:
        candidate: id it got, empty when rejected.
        rule: name of screening rule that rejected it, empty when none did.
        reason: the rule's finding in words.
    """

    candidate: str
    components: Mapping[str, str]
    parents: tuple[str, ...]
    proposer: str
    rationale: str = ""
    rule: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Verified(Event):
    """A candidate was rolled out on replayed questions with the current policy.

    Attributes:
        candidate: its id.
        round: of the generation, counted from 1.
        mean: mean reward; None when no rollout was scored.
        stderr: standard error of ``mean``; None below two scored rollouts.
        scored: number of scored rollouts.
        admitted: whether it enters the population.
        reason: why not, in words.
        parent: whether it is a parent, measured on the same questions for comparison.
    """

    candidate: str
    round: int
    mean: float | None
    stderr: float | None
    scored: int
    admitted: bool
    reason: str = ""
    parent: bool = False

    @classmethod
    def of(cls, result: VerificationResult, step: int, number: int, parent: bool) -> Verified:
        """The event of ``result``: at ``step``, in round ``number``, of a ``parent`` or a child."""
        return cls(
            step,
            result.candidate.id,
            number,
            result.mean,
            result.stderr,
            result.scored,
            result.is_admitted,
            result.reason,
            parent,
        )


@dataclass(frozen=True, slots=True)
class Evolved(Event):
    """A generation ended.

    Attributes:
        rounds: propose-verify rounds made.
        admitted: ids of the candidates that entered the population.
        population: ids of those alive now.
        rollouts: verification rollouts spent.
        failure: why there was nothing to try; empty if the generation did not fail. None
            admitted and no failure: verification refused all.
    """

    rounds: int
    admitted: tuple[str, ...]
    population: tuple[str, ...]
    rollouts: int
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Evaluated(Event):
    """The current policy was evaluated under the best instruction.

    Attributes:
        split: whose questions were asked.
        candidate: id of the instruction.
        rollouts: rollouts spent so far, verification included.
        metrics: means over the questions by name, the main metric among them.
        by_kind: the main metric by kind of question.
        main_metric: which of ``metrics`` the task compares by; None where a trainer evaluated
            without a task.
    """

    split: str
    candidate: str
    rollouts: int
    metrics: Mapping[str, float]
    by_kind: Mapping[str, float] = field(default_factory=dict)
    main_metric: MainMetric | None = None


@dataclass(frozen=True, slots=True)
class Intervened(Event):
    """What a person asked was taken up, or a timeout answered in their place.

    Attributes:
        request: id of the request, the name of its file.
        action: ``"add"``, ``"retire"``, ``"pin"``, ``"unpin"``, ``"approve"`` or ``"refuse"``.
        candidate: id of the candidate; empty when one to add was refused.
        by: who asked; ``"timeout"`` where nobody did.
        done: whether it was done.
        reason: why not; or screening's objection that was overridden.
    """

    request: str
    action: str
    candidate: str
    by: str
    done: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Best(Event):
    """Another candidate is the engine's best, its incumbent.

    Attributes:
        candidate: its id.
        is_shown: whether it is shown to be better than the first instruction.
    """

    candidate: str
    is_shown: bool = False


@dataclass(frozen=True, slots=True)
class Sentences(Event):
    """What sentences are worth by all steps so far, the clearest first."""

    found: tuple[SentenceValue, ...]


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """Something a person should know, such as a proposer that failed or is late."""

    message: str


KINDS = (
    Seeded,
    Asked,
    Told,
    Shown,
    Differed,
    Pruned,
    Proposed,
    Verified,
    Evolved,
    Evaluated,
    Intervened,
    Best,
    Sentences,
    Notice,
)
"""Everything that can happen."""


def _plain(value: Any) -> Any:
    """``value`` without dataclasses, as ``dataclasses.asdict`` has it, but nothing is copied."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value

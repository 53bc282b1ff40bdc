"""Events of a run, each a frozen record; ``eventlog.py`` writes them to the log."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, ClassVar

from evoprompt.log.evaluation import MainMetric
from evoprompt.support.leads import SentenceValue
from evoprompt.types import Turn, VerificationResult


@dataclass(frozen=True, slots=True)
class Event:
    """Base class of all events. ``step`` is the engine step of the event.

    Its ``kind`` in files is the name of its class, in lower case with underscores; a subclass of an
    event's class is of the same kind.
    """

    kind: ClassVar[str]
    step: int

    def __init_subclass__(cls) -> None:
        if Event in cls.__bases__:
            cls.kind = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()

    def to_json(self) -> dict[str, Any]:
        """Return the event as JSON values, its kind first."""
        return {"event": self.kind, **_plain(self)}


@dataclass(frozen=True, slots=True)
class Seeded(Event):
    """A candidate was added at the start.

    Attributes:
        candidate: its id.
        components: its texts.
        origin: run, trial and candidate that it comes from; empty for a seed of the task.
    """

    candidate: str
    components: Mapping[str, str]
    origin: str = ""


@dataclass(frozen=True, slots=True)
class QuestionsAssigned(Event):
    """Questions were paired with candidates.

    Attributes:
        draws: number of questions of each candidate.
        rollouts: rollouts of each of those questions under each candidate.
        probabilities: selection probability of each active candidate (Eq. 4), if the sampler
            has fixed probabilities.
    """

    draws: Mapping[str, int]
    rollouts: int
    probabilities: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StepCompleted(Event):
    """Trajectories were attributed.

    Attributes:
        rollouts: rollouts spent so far, verification included.
        trajectories: number of trajectories of this step.
        unscored: number of them without a reward.
        reward: mean reward of the scored ones, ``None`` if none was scored.
        weights: importance weight of each active candidate after attribution (Eq. 6).
        metrics: means of the trajectories' metrics.
        instruction_length: mean length in words of the instructions used.
        stderrs: standard errors of ``weights``, if the attributor computes them.
        failure: reason why the first unscored rollout has no reward; empty if all have rewards.
        groups: number of groups with at least two scored rollouts.
        groups_without_signal: number of them in which all rewards are equal, so that a trainer that
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
    """Shortened record of a rollout: its question, turns and feedback.

    Attributes:
        candidate: id of the rollout's candidate.
        question: text of the question.
        answer: all answers that count as correct, joined by "or"; empty if there is none.
        reward: reward of the trajectory.
        turns: actions of the policy, each with the observation that followed it and that the loss
            does not see.
        feedback: feedback of the task's scoring.
        left_out: number of characters of the trajectory that the excerpt leaves out.
    """

    candidate: str
    question: str
    answer: str
    reward: float
    turns: tuple[Turn, ...]
    feedback: str = ""
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class RolloutSamples(Event):
    """Rollouts for a user to read: a bad and a good one of some candidates.

    They come from training at some steps, and from verification after each round, before the
    candidates are admitted.
    """

    excerpts: tuple[Excerpt, ...]


@dataclass(frozen=True, slots=True)
class CandidatesDisagreed(Event):
    """Questions with different rewards of candidates under one policy, the widest gaps first.

    Attributes:
        questions: mean reward of each candidate, by the shortened text of the question.
    """

    questions: Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Pruned(Event):
    """Candidates were removed from the population.

    Attributes:
        candidates: ids of the removed candidates.
        members: ids of the members after that.
    """

    candidates: tuple[str, ...]
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Proposed(Event):
    """A proposer wrote an instruction, and screening accepted or rejected it.

    Attributes:
        candidate: its id; empty if it was rejected.
        rule: name of the screening rule that rejected it; empty if it was accepted.
        reason: finding of the rule.
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
        round: round of the generation, counted from 1.
        mean: mean reward; None if no rollout was scored.
        stderr: standard error of ``mean``; None below two scored rollouts.
        scored: number of scored rollouts.
        admitted: whether it is added to the population.
        reason: reason of a rejection.
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
        """Return the event of a verification result.

        Args:
            result: the result.
            step: the engine step.
            number: number of the round in the generation, counted from 1.
            parent: whether the candidate is a parent that is measured for comparison.
        """
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
        admitted: ids of the candidates that were added to the population.
        population: ids of the members after the generation.
        rollouts: verification rollouts spent.
        failure: reason why there was nothing to try; empty if the generation did not fail. If no
            candidate was admitted and there is no failure, verification rejected all.
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
        split: split of the questions.
        candidate: id of the instruction.
        rollouts: rollouts spent so far, verification included.
        metrics: means over the questions by name, including the main metric.
        by_kind: the main metric by kind of question.
        main_metric: the metric among ``metrics`` that the task compares by; None if a trainer
            evaluated without a task.
    """

    split: str
    candidate: str
    rollouts: int
    metrics: Mapping[str, float]
    by_kind: Mapping[str, float] = field(default_factory=dict)
    main_metric: MainMetric | None = None


@dataclass(frozen=True, slots=True)
class Intervened(Event):
    """A user's request was handled, or a timeout decided in place of the user.

    Attributes:
        request: id of the request, the name of its file.
        action: ``"add"``, ``"retire"``, ``"pin"``, ``"unpin"``, ``"approve"`` or ``"refuse"``.
        candidate: id of the candidate; empty if a candidate to add was refused.
        by: name of the user; ``"timeout"`` if the request timed out.
        done: whether the action was carried out.
        reason: reason of a refusal; or the objection of screening that was overridden.
    """

    request: str
    action: str
    candidate: str
    by: str
    done: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class IncumbentChanged(Event):
    """Another candidate is the engine's best, or ``is_better`` of the same one has changed.

    Attributes:
        candidate: id of the incumbent.
        is_better: whether it is shown to be better than the first instruction.
    """

    candidate: str
    is_better: bool = False


@dataclass(frozen=True, slots=True)
class Sentences(Event):
    """Estimated values of sentences from all steps so far, the clearest first."""

    values: tuple[SentenceValue, ...]


@dataclass(frozen=True, slots=True)
class Notice(Event):
    """A message for the user, such as a proposer that failed or is late."""

    message: str


KINDS = (
    Seeded,
    QuestionsAssigned,
    StepCompleted,
    RolloutSamples,
    CandidatesDisagreed,
    Pruned,
    Proposed,
    Verified,
    Evolved,
    Evaluated,
    Intervened,
    IncumbentChanged,
    Sentences,
    Notice,
)
"""Classes of all events."""


def _plain(value: Any) -> Any:
    """Return ``value`` without dataclasses, as ``dataclasses.asdict`` does, but without copies."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value

"""What one history of a run is made of: steps, proposals, generations, lives of candidates."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

_EPISODES = 4  # of a candidate


@dataclass(frozen=True, slots=True)
class Step:
    """One training step.

    Attributes:
        step: counted from 1.
        values: what is drawn over steps: ``reward``, ``instruction_length`` in words, and the
            means of the trajectories' metrics.
    """

    step: int
    values: Mapping[str, float]


class Said(NamedTuple):
    """What the task's scoring said of a rollout."""

    step: int
    reward: float
    text: str


class Weight(NamedTuple):
    """An importance weight after a step; ``stderr`` is None where nobody knows it."""

    step: int
    value: float
    stderr: float | None


class Episode(NamedTuple):
    """An excerpt of a rollout, as the event ``shown`` holds it, and when it was."""

    step: int
    excerpt: Mapping[str, Any]


class Check(NamedTuple):
    """What verification found about a candidate in one round."""

    step: int
    round: int
    mean: float | None
    stderr: float | None
    scored: int
    admitted: bool
    reason: str


@dataclass(slots=True)
class ProposalRecord:
    """A text that a proposer wrote, whatever became of it.

    Attributes:
        step: at which it was judged.
        candidate: id it got; empty if screening refused it.
        components: its texts.
        parents: ids it was made from.
        proposer: who wrote it.
        rationale: why.
        rule: of screening that refused it, empty if none did.
        reason: the rule's finding.
        checks: its verification, a round each.
        answers: rollouts of its verification that were kept for reading, bad and good.
        admitted: whether it entered the population.
        answer: what was said where admissions wait for an answer; empty if nothing was.
        waits: whether it waits for one now.
    """

    step: int
    candidate: str
    components: Mapping[str, str]
    parents: tuple[str, ...]
    proposer: str
    rationale: str = ""
    rule: str = ""
    reason: str = ""
    checks: list[Check] = field(default_factory=list)
    answers: list[Episode] = field(default_factory=list)
    admitted: bool = False
    answer: str = ""
    waits: bool = False

    @property
    def outcome(self) -> str:
        """What became of it, in a word or two."""
        if self.admitted:
            return "admitted"
        if self.rule:
            return "refused"
        if self.waits:
            return "waits for approval"
        return "turned away" if self.checks else "not tried"

    @property
    def why_not(self) -> str:
        """Why it did not enter, if it did not."""
        if self.rule:
            return f"{self.rule}: {self.reason}" if self.reason else self.rule
        if self.answer and not self.admitted:
            return self.answer
        return "" if self.admitted or not self.checks else self.checks[-1].reason


class Cycle(NamedTuple):
    """One generation: what was proposed, and what became of it."""

    step: int
    rounds: int
    proposed: int
    refused: int
    admitted: int
    rollouts: int
    population: int
    failure: str


class Draw(NamedTuple):
    """How likely each candidate was at a step, and how often it was drawn."""

    step: int
    chances: Mapping[str, float]
    draws: Mapping[str, int]


@dataclass(slots=True)
class Life:
    """A candidate that entered the population.

    Attributes:
        candidate: its id.
        text: the instruction.
        parents: ids it descends from directly; empty for a seed.
        born: step at which it entered.
        died: step at which it left; None if it never did.
        proposer: who wrote it.
        rationale: why; of a seed, the run it was taken over from, if any.
        verified: mean verification reward at birth, if it was verified.
        weights: importance weights while it lived.
        remark: what the task last said of a rollout under it; None if it never said anything.
        components: its texts by name.
        draws: questions it was asked in training.
        checks: its verification, a round each.
        answers: rollouts of its verification that were kept for reading, bad and good.
        episodes: the last rollouts of training under it that were kept, bad and good.
        pinned: whether a person keeps it alive.
    """

    candidate: str
    text: str
    parents: tuple[str, ...] = ()
    born: int = 0
    died: int | None = None
    proposer: str = "seed"
    rationale: str = ""
    verified: float | None = None
    weights: list[Weight] = field(default_factory=list)
    remark: Said | None = None
    components: Mapping[str, str] = field(default_factory=dict)
    draws: int = 0
    checks: list[Check] = field(default_factory=list)
    answers: list[Episode] = field(default_factory=list)
    episodes: deque[Episode] = field(default_factory=lambda: deque(maxlen=_EPISODES))
    pinned: bool = False

    @property
    def weight(self) -> float | None:
        """The last importance weight; the verification reward before it was ever drawn."""
        return self.weights[-1].value if self.weights else self.verified

"""Verification inside training: children are tried beside their parent in ordinary steps.

A question that parent and child answer tells the same of them whether it is rolled out for a
verification or for training; in training the policy learns from it as well. So children that passed
screening are drawn at once, and after each step one takes the place of its parent, some are
dropped, or it goes on (:meth:`evoprompt.comparison.Lead.verdict`). No rollout is made for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, JsonValue, NonNegativeInt

from evoprompt.comparison import USEFUL, Best, Lead, Verdict
from evoprompt.config import EngineConfig
from evoprompt.types import Candidate, Trajectory, VerificationResult

_SHARE = 3 / 5  # of the rollouts of a question: with 4 of 5 training was worse by 1 to 2 points
_ALONE = 2 / 5  # where one is left
_MANY = 64  # questions of a step from which more are tried at once
_AT_ONCE = (6, 12)  # tried at once, below that and from there on: 22.4 and 23.5 points at 512
_STEPS = (10, 4)  # until all are decided, on average, simulated
_LARGE = 512  # questions of a step at which a step is the smallest look, and a large one
_SHORT = 10  # steps so large below which children verified by extra rollouts ended higher
_DEAR = 500  # rollouts for each child from which it pays to wait for small leads
_HIGH = 0.5  # share of the range of rewards from which the leads that are waited for shrink
_ENOUGH = 4.0  # over delta squared: rollouts after which who is undecided leaves; .9 are by 1.4
_LEVEL = 0.1  # weight of a step in the mean reward


@dataclass(slots=True)
class _Child:
    """Somebody who is tried, and what it has earned so far."""

    candidate: Candidate
    scored: int = 0
    total: float = 0.0
    squares: float = 0.0

    def result(self, reason: str) -> VerificationResult:
        """What was found; it is admitted where there is nothing against it."""
        mean = self.total / self.scored if self.scored else None
        stderr = None
        if mean is not None and self.scored > 1:
            spread = max(self.squares / self.scored - mean**2, 0.0)
            stderr = math.sqrt(spread / (self.scored - 1))
        return VerificationResult(self.candidate, mean, stderr, self.scored, not reason, reason)


class _State(BaseModel):
    """What a resumed run has to know.

    Attributes:
        children: who is tried.
        parent: id of the one they are compared with.
        turn: draws of children so far, by which they take turns.
        questions: of a step.
        rollouts: of a question.
        level: mean reward of late; None before the first.
        range: the least and the greatest reward, where there were some beyond ``reward_range``.
        short: whether the run is too short for it.
        admitted: children of this generation that took the place of their parent.
    """

    children: list[_Child] = []
    parent: str = ""
    turn: NonNegativeInt = 0
    questions: NonNegativeInt = 0
    rollouts: NonNegativeInt = 0
    level: float | None = None
    range: tuple[float, float] = (0.0, 0.0)
    short: bool = False
    admitted: NonNegativeInt = 0


class Challengers:
    """Those who are tried in training, none of whom lives: nobody breeds from them or prunes them.

    It is in use under ``accept="in-training"``, where no verifier is given, a question is asked
    under several candidates, and the run is not very short: see :attr:`mode`.

    Args:
        config: the engine's numbers.
        shown: what questions have said of candidates.

    Attributes:
        wanted: whether children are to be tried in training, where that can be.
        each: candidates of a question.
    """

    def __init__(self, config: EngineConfig, shown: Best) -> None:
        self.config = config
        self.shown = shown
        self.wanted = config.accept == "in-training"
        each = config.candidates_per_question
        self.each = 1 if each == "auto" else each
        self._state = _State(range=config.reward_range)

    @property
    def mode(self) -> Literal["in-training", "alone", "short", ""]:
        """Whether new children are tried in training; else why not, empty if nobody asked for it.

        ``"alone"`` where a question has one candidate, ``"short"`` where the whole run
        has fewer than ten steps of 512 questions.
        """
        if not self.wanted:
            return ""
        if self.each < 2:
            return "alone"
        return "short" if self._state.short else "in-training"

    @property
    def candidates(self) -> Sequence[Candidate]:
        """Who is tried, oldest first."""
        return [one.candidate for one in self._state.children]

    @property
    def parent(self) -> str:
        """Id of the one they are compared with; it may have died."""
        return self._state.parent

    @property
    def at_once(self) -> int:
        """How many children a generation tries."""
        number = self.config.proposals_per_round
        return number or _AT_ONCE[self._state.questions >= _MANY]

    @property
    def steps_expected(self) -> int:
        """Steps until the last of a generation is decided, on average."""
        return _STEPS[self._state.questions >= _MANY]

    def see(self, questions: int, rollouts: int, left: int | None) -> None:
        """Takes note of what a step asks: questions, rollouts of each, and those that are left."""
        state = self._state
        if not state.questions and left is not None:
            state.short = questions >= _LARGE and left < _SHORT * questions * rollouts
        state.questions, state.rollouts = questions, rollouts

    def begin(self, parent: Candidate, children: Sequence[Candidate]) -> None:
        """Tries ``children``."""
        self._state.parent, self._state.admitted = parent.id, 0
        self._state.children = [_Child(one) for one in children]

    def draw(self) -> list[Candidate]:
        """Which of them a question has: in turn, one alone at most two of five times."""
        state, count = self._state, len(self._state.children)
        places = max(int(self.each * (_SHARE if count > 1 else _ALONE)), 1)
        drawn = [state.children[(state.turn + place) % count] for place in range(places)]
        state.turn = (state.turn + places) % count
        return [one.candidate for one in drawn]

    def observe(self, trajectories: Sequence[Trajectory]) -> None:
        """Counts what was earned in a step."""
        state = self._state
        rewards = [one.reward for one in trajectories if one.reward is not None]
        if rewards:
            mean = math.fsum(rewards) / len(rewards)
            state.level = mean if state.level is None else state.level
            state.level += _LEVEL * (mean - state.level)
            state.range = min(state.range[0], *rewards), max(state.range[1], *rewards)
        earned: dict[str, list[float]] = {}
        for one in trajectories:
            if one.reward is not None:
                earned.setdefault(one.candidate.id, []).append(one.reward)
        for child in state.children:
            own = earned.get(child.candidate.id, [])
            child.scored += len(own)
            child.total = math.fsum((child.total, *own))
            child.squares = math.fsum((child.squares, *[reward**2 for reward in own]))

    # -------------------------------------------------------------------------- the decision

    def succeed(self, parent: Candidate) -> VerificationResult | None:
        """Admits one who is better than ``parent``, and has the others follow it.

        Returns:
            Of several the one with the greatest lead; None if there is none.
        """
        state = self._state
        state.parent = parent.id
        better = [
            one for one in state.children if self._verdict(one, self._lead(one, parent)) == "better"
        ]
        if not better:
            return None
        winner = max(better, key=lambda one: self._lead(one, parent).value)
        state.children.remove(winner)
        state.parent = winner.candidate.id
        state.admitted += 1
        return winner.result("")

    def drop(self, parent: Candidate) -> list[VerificationResult]:
        """Drops those who are not better than ``parent`` by what is waited for."""
        state = self._state
        dropped: list[VerificationResult] = []
        for child in list(state.children):
            lead = self._lead(child, parent)
            side = "behind" if lead.value < 0 else "ahead of"
            worth = f"{abs(lead.value):.3f} {side} {parent.id} after {child.scored} rollouts"
            if self._verdict(child, lead) == "drop":
                hoped = f"unlikely to be {self.delta:.3f} ahead"
                dropped.append(child.result(f"{worth}; {hoped}"))
            elif child.scored >= _ENOUGH / self._waited_for**2:
                dropped.append(child.result(f"{worth}, which decides nothing"))
        gone = {one.candidate.id for one in dropped}
        state.children = [one for one in state.children if one.candidate.id not in gone]
        return dropped

    @property
    def admitted(self) -> int:
        """Children of this generation that took the place of their parent so far."""
        return self._state.admitted

    @property
    def delta(self) -> float:
        """The lead that is waited for, in units of the rewards.

        Less near the ceiling of rewards, where there is hardly more to gain.
        """
        low, high = self._state.range
        level = self._state.level
        room = 1.0 if level is None else (high - level) / (high - low)
        shrunk = min(max(room, _LEVEL) / _HIGH, 1.0)
        return self._waited_for * shrunk * (high - low)

    @property
    def _waited_for(self) -> float:
        """As a share of the range of rewards, far from its ceiling.

        The dearer ideas are, the smaller are the leads that it pays to wait for: with 100 to 300
        rollouts for each a run gained most at .05, with 1,500 at .02, at 512 questions at .03.
        """
        state = self._state
        if state.questions >= _LARGE:
            return 0.03
        period = state.questions * state.rollouts * self.config.every(soon=True)
        return 0.05 if period < _DEAR * self.at_once else 0.02

    def _verdict(self, child: _Child, lead: Lead) -> Verdict:
        low, high = self._state.range
        return lead.verdict(self.delta, useful=USEFUL * (high - low))

    def _lead(self, child: _Child, parent: Candidate) -> Lead:
        evidence = self.shown.evidence
        lead = evidence.lead(child.candidate.id, parent.id)
        if math.isfinite(lead.stderr) or not evidence.compares(child.candidate.id, parent.id):
            return lead
        # Nothing but ties: taken as if one of the questions had told them apart by all there is.
        low, high = self._state.range
        return Lead(0.0, (high - low) / max(child.scored, 1))

    def state_dict(self) -> dict[str, JsonValue]:
        """Who is tried and what is known, as JSON values."""
        return self._state.model_dump(mode="json")

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        self._state = _State.model_validate(dict(state))

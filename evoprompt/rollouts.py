"""The rollouts of one evolution: kept within the budget, counted, and asked of the best as well."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt.evaluation import EMPTY, Failures
from evoprompt.roles import RolloutFn
from evoprompt.types import Assignment, Candidate, Trajectory

_SAID = 200  # characters of what a task says of a rollout that failed


class NoRoomError(Exception):
    """Says that a verification does not fit into the budget."""

    def __init__(self, needed: int, left: int) -> None:
        super().__init__(
            f"no verification: it needs {needed} more rollouts and the budget has {left}; nobody "
            "is admitted, training goes on; evolve earlier (evolve_until), ask fewer questions "
            "(verify_questions) or raise the budget"
        )


class VerificationRollouts:
    """Rolls the current policy out for a verifier.

    A champion that has died is asked what the verifier asks the others. The verifier does not see
    its answers, and decides as it would without them.

    Args:
        rollout: rolls the current policy out.
        champion: to ask, too.
        most: questions to ask it, in all; 0 where it is alive, and compared in training.
        room: rollouts that the budget has left; None for no end.

    Attributes:
        answers: what the verifier asked for.
        champions: answers of the champion, that it did not ask for.
        errors: of the trainer or the budget, not of the verifier.
        seconds: that verifications took.
    """

    def __init__(
        self, rollout: RolloutFn, champion: Candidate, most: int, room: int | None = None
    ) -> None:
        self.answers: list[Trajectory] = []
        self.champions: list[Trajectory] = []
        self.errors: list[Exception] = []
        self.seconds = 0.0
        self._rollout = rollout
        self._champion = champion
        self._most = most
        self._room = None if room is None else max(room - most, 0)
        self._asked: set[str] = set()

    def __call__(self, assignments: Sequence[Assignment], /) -> Sequence[Trajectory]:
        """What the assignments brought, without the champion's.

        Raises:
            NoRoomError: they are more than there is room for.
            InputError: a reward is NaN or infinite.
        """
        needed = sum(assignment.rollouts for assignment in assignments)
        try:
            if self._room is not None and len(self.answers) + needed > self._room:
                raise NoRoomError(needed, self._room - len(self.answers))
            more = self._more(assignments)
            found = self._rollout([*assignments, *more])
            for trajectory in found:
                trajectory.require_finite()
        except Exception as error:
            self.errors.append(error)
            raise
        own = {one.id for one in more}
        rest = [one for one in found if one.assignment.id not in own]
        self.champions += [one for one in found if one.assignment.id in own]
        self.answers += rest
        return rest

    @property
    def rollouts(self) -> int:
        """How many were made."""
        return len(self.answers) + len(self.champions)

    @property
    def failures(self) -> Failures:
        """How many of them have no reward, or said nothing and were not rewarded for it."""
        found = Failures()
        for one in (*self.answers, *self.champions):
            found = found.with_one(_fault(one))
        return found

    def _more(self, assignments: Sequence[Assignment]) -> list[Assignment]:
        """The champion on the questions that it was not asked yet."""
        questions = {one.question.id: one.question for one in assignments}
        new = [one for name, one in questions.items() if name not in self._asked]
        new = new[: self._most - len(self._asked)]
        self._asked.update(one.id for one in new)
        names = [f"{self._champion.id}/{one.id}" for one in new]
        return [
            Assignment(name, question, self._champion, 1, name, "verify")
            for name, question in zip(names, new, strict=True)
        ]


def _fault(one: Trajectory) -> str:
    """Why a rollout came to nothing; empty if it did not."""
    if one.reward is None:
        said = f": {one.feedback[:_SAID]}" if one.feedback else ""
        return f"{one.candidate.id} got no reward on question {one.question.id!r}{said}"
    silent = bool(one.turns) and not any(turn.action.strip() for turn in one.turns)
    if silent and one.reward <= 0:
        return f"{EMPTY}, of {one.candidate.id} to question {one.question.id!r}"
    return ""

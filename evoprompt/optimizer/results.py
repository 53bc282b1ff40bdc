"""Every rollout that was made and its reward: none is made twice, none beyond a limit."""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from time import monotonic

from evoprompt.optimizer.data import Item
from evoprompt.optimizer.flat import RewardRange
from evoprompt.optimizer.journal import Journal, Key
from evoprompt.optimizer.outcome import INTERRUPTED, BudgetSpentError, ExampleOutcome, with_remedy
from evoprompt.optimizer.runner import Asked, Meter, Rollouts
from evoprompt.support.errors import InputError
from evoprompt.support.failures import FailureCount
from evoprompt.support.leads import Lead
from evoprompt.types import Assignment, Candidate, Trajectory, Turn

SURE = 8
"""Repeated rollouts that must all agree before rewards count as free of chance."""

_ALL_FAILED = 20  # rollouts in a row without a reward after which the program is given up


class Results:
    """Rewards by text and question; a frozen model never makes one of them stale.

    What is missing is read in the journal where an earlier process has paid for it, and else asked
    of the program. A text that is proposed again keeps the rewards that it has.

    Args:
        rollouts: makes them.
        meter: counts them.
        journal: remembers them.
        seconds: after which no more are begun; None for no limit.
        stopping: asked before some are begun: whether to make none any more.

    Attributes:
        meter: see above.
        failures: rollouts that came to nothing, of all that were made.
        rewards: range of all rewards.
        step: the iteration, for the journal.
        sure: repeated rollouts that must all agree before rewards count as free of chance.
    """

    def __init__(
        self,
        rollouts: Rollouts,
        meter: Meter,
        journal: Journal,
        seconds: float | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.meter = meter
        self.failures = FailureCount()
        self.rewards = RewardRange()
        self.step = 0
        self.sure = SURE
        self._rollouts = rollouts
        self._journal = journal
        self._ends = None if seconds is None else monotonic() + seconds
        self._stopping = stopping
        self._outcomes: defaultdict[str, dict[str, list[ExampleOutcome]]] = defaultdict(dict)
        self._means: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self._texts: dict[str, str] = {}
        self._squares = 0.0
        self._repeats = 0
        self._faults: list[str] = []

    @property
    def at_once(self) -> int:
        """Rollouts that are made at a time."""
        return self._rollouts.at_once

    def measure(self, asked: Iterable[Asked], again: bool = False) -> None:
        """Makes those rollouts of ``asked`` that were never made, or all of them once more.

        Raises:
            BudgetSpentError: a limit does not leave room for all of them; none was made.
            InputError: the metric or the program is at fault.
        """
        wanted: dict[Key, Asked] = {}
        for candidate, item in asked:
            texts, name = self.digest(candidate), item.question.id
            before = len(self._outcomes[texts].get(name, ()))
            if again or not before:
                wanted[texts, name, before] = candidate, item
        known = self._journal.rollouts
        fresh = [one for key, one in wanted.items() if key not in known]
        paid = sum(known[key].attempts for key in wanted if key in known)
        if fresh and self._ends is not None and monotonic() > self._ends:
            raise BudgetSpentError("the time is over")
        if fresh and self._stopping():
            raise BudgetSpentError(INTERRUPTED)
        if not self.meter.take(paid + len(fresh)):
            raise BudgetSpentError(f"the budget of {self.meter.limit:,} rollouts is spent")
        if fresh:
            keys = {(one.id, item.question.id): key for key, (one, item) in wanted.items()}
            for (candidate, item), outcome in self._rollouts.run(fresh, self.meter):
                key = keys[candidate.id, item.question.id]
                self._journal.add_rollout(self.step, key, outcome)
        for key in wanted:
            self._take_note(key, known[key])

    def means(self, candidate: Candidate) -> Mapping[str, float]:
        """Mean reward by question; without the questions at which the program failed."""
        return self._means[self.digest(candidate)]

    def mean(self, candidate: Candidate, names: Iterable[str]) -> tuple[float, float, int]:
        """Mean reward on those of the questions that were asked, its standard error, their number.

        The mean is NaN where none was asked, and the error infinite below two.
        """
        means = self.means(candidate)
        values = [means[name] for name in names if name in means]
        if not values:
            return math.nan, math.inf, 0
        mean = math.fsum(values) / len(values)
        if len(values) == 1:
            return mean, math.inf, 1
        spread = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
        return mean, math.sqrt(spread / len(values)), len(values)

    def lead(self, one: Candidate, other: Candidate, names: Iterable[str]) -> Lead:
        """By how much ``one`` earns more than ``other`` at those of the questions that both know.

        As in :mod:`evoprompt.support.leads`, the standard error comes from the sum of squares, so
        that a few questions that agree show little; a question at which both are equal counts for
        nothing.
        """
        mine, theirs = self.means(one), self.means(other)
        gains = [mine[name] - theirs[name] for name in names if name in mine and name in theirs]
        if not gains:
            return Lead(0.0, math.inf)
        squares = math.fsum(gain * gain for gain in gains)
        return Lead(math.fsum(gains) / len(gains), math.sqrt(squares) / len(gains))

    def gains(self, one: Candidate, other: Candidate, names: Iterable[str]) -> list[str]:
        """Return those of the questions at which ``one`` earns more than ``other``."""
        mine, theirs = self.means(one), self.means(other)
        return [
            name
            for name in names
            if name in mine and name in theirs and mine[name] > theirs[name] + 1e-9
        ]

    def always_fails(self, candidate: Candidate, name: str, perfect: float) -> bool:
        """Whether every rewarded rollout of a question was a failure, one at least."""
        scored = [
            outcome.reward
            for outcome in self._outcomes[self.digest(candidate)].get(name, ())
            if outcome.reward is not None
        ]
        return bool(scored) and max(scored) < perfect

    def count(self, candidate: Candidate, name: str) -> int:
        """How often ``candidate`` was asked a question."""
        return len(self._outcomes[self.digest(candidate)].get(name, ()))

    def unscored(self, candidate: Candidate, names: Iterable[str]) -> int:
        """Those of the questions that ``candidate`` was asked and has no reward for."""
        asked, scored = self._outcomes[self.digest(candidate)], self.means(candidate)
        return sum(name in asked and name not in scored for name in names)

    @property
    def noise(self) -> float:
        """Variance of the reward of one rollout, the text and the question being the same."""
        return self._squares / self._repeats if self._squares else 0.0

    @property
    def is_doubtful(self) -> bool:
        """Whether a reward may be chance: one has differed, or too few were repeated to know."""
        return self._repeats < self.sure or self._squares > 0

    def trajectory(self, candidate: Candidate, item: Item, component: str = "") -> Trajectory:
        """What ``candidate`` did last when it was asked ``item``, for a proposer to read.

        With a ``component`` that has a reading of its own, what that did.
        """
        outcomes = self._outcomes[self.digest(candidate)][item.question.id]
        found = next(outcome for outcome in reversed(outcomes) if outcome.reward is not None)
        reading = found.readings.get(component)
        if reading is None:
            turns, feedback, question = found.turns, found.feedback, item.question
        else:
            turns, feedback = reading.turns, reading.feedback
            question = replace(item.question, text=reading.question, row=reading.row)
        assignment = Assignment(question.id, question, candidate, 1, question.id)
        shown = tuple(turns) or (Turn(found.output),)
        return Trajectory(assignment, found.reward, turns=shown, feedback=feedback)

    def require_scored(self) -> None:
        """Makes sure that the program has given the metric something to score at least once.

        Raises:
            InputError: it failed at everything that it was asked.
        """
        if self._faults and not any(self._means.values()):
            raise _program_fault(self._faults)

    def digest(self, candidate: Candidate) -> str:
        """Return what identifies a candidate by its texts."""
        found = self._texts.get(candidate.id)
        if found is None:
            said = json.dumps(dict(candidate.components), ensure_ascii=False)
            raw = said.encode("utf-8", "surrogatepass")
            found = hashlib.blake2b(raw, digest_size=12).hexdigest()
            self._texts[candidate.id] = found
        return found

    def _take_note(self, key: Key, outcome: ExampleOutcome) -> None:
        texts, name, _ = key
        self.failures = self.failures.with_rollout(outcome.fault)
        outcomes = self._outcomes[texts].setdefault(name, [])
        outcomes.append(outcome)
        reward = outcome.reward
        if reward is None:
            self._faults.append(outcome.fault)
            if len(self._faults) >= _ALL_FAILED:
                raise _program_fault(self._faults)
            return
        self._faults.clear()
        self.rewards.add(reward)
        before = self._means[texts].get(name)
        if before is None:
            self._means[texts][name] = reward
            return
        self._repeats += 1
        # The mean of three times 2/9 is not 2/9; that would be taken for luck ever after.
        if not math.isclose(reward, before, rel_tol=1e-9, abs_tol=1e-12):
            scored = [outcome.reward for outcome in outcomes if outcome.reward is not None]
            self._means[texts][name] = mean = math.fsum(scored) / len(scored)
            self._squares += (reward - before) * (reward - mean)


def warning_of(failures: FailureCount) -> str:
    """What to say where more fails than now and then."""
    return with_remedy(str(failures), "a program that answers; try it with the seed instruction")


def _program_fault(faults: Sequence[str]) -> InputError:
    """What to say of a program that fails at everything."""
    said = with_remedy(
        f"the program failed in each of the last {len(faults)} rollouts, at last: {faults[-1]}",
        "program(instruction, example) that returns an output; try it with the seed instruction",
    )
    return InputError(f"{said}; go on with resume where a directory was given")

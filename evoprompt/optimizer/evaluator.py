"""Rollouts for the loop: none is made twice, and none that a limit does not leave room for."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Generic

from evoprompt.errors import InputError
from evoprompt.evaluation import Failures
from evoprompt.optimizer.data import ExampleT, Item
from evoprompt.optimizer.journal import Journal, Key
from evoprompt.optimizer.ledger import Ledger
from evoprompt.optimizer.outcome import BudgetSpentError, Outcome
from evoprompt.optimizer.runner import Meter, OutputT, Rollouts, WrittenT
from evoprompt.types import Assignment, Candidate, Trajectory, Turn

INTERRUPTED = "it was interrupted"
"""Why an optimization ended at Ctrl-C."""

_ALL_FAILED = 20  # rollouts in a row without a reward after which the program is given up


def digest(components: Mapping[str, str]) -> str:
    """What identifies a candidate by its texts."""
    said = json.dumps(dict(components), ensure_ascii=False)
    return hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


class Evaluator(Generic[WrittenT, ExampleT, OutputT]):
    """Measures candidates, from the journal where it knows, else by the program.

    Args:
        runner: makes the rollouts.
        meter: counts them.
        journal: remembers them.
        seconds: after which no more are begun; None for no limit.
        stopping: asked before some are begun: whether to make none any more.

    Attributes:
        ledger: all rewards.
        failures: rollouts that came to nothing, of all that were made.
        step: the iteration, for the journal.
    """

    def __init__(
        self,
        runner: Rollouts[WrittenT, ExampleT, OutputT],
        meter: Meter,
        journal: Journal,
        seconds: float | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.ledger = Ledger()
        self.failures = Failures()
        self.step = 0
        self._runner = runner
        self._meter = meter
        self._journal = journal
        self._ends = None if seconds is None else monotonic() + seconds
        self._stopping = stopping
        self._last: dict[tuple[str, str], Outcome] = {}
        self._tried: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._drawn: dict[tuple[str, str], int] = {}
        self._counted: set[Key] = set()
        self._faults: list[str] = []
        self._texts: dict[str, str] = {}

    @property
    def spent(self) -> int:
        """Rollouts made so far."""
        return self._meter.spent

    @property
    def left(self) -> int:
        """Rollouts that may still be made."""
        return self._meter.limit - self._meter.spent

    def measure(
        self, candidate: Candidate, items: Sequence[Item[ExampleT]], again: bool = False
    ) -> None:
        """Asks ``candidate`` those of ``items`` that it was never asked, or all of them once more.

        Raises:
            BudgetSpentError: a limit does not leave room for all of them; none was made.
            InputError: the metric or the program is at fault.
        """
        tried = self._tried[candidate.id]
        asked = [item for item in items if again or item.question.id not in tried]
        if not asked:
            return
        texts = self._digest(candidate)
        keys: dict[str, Key] = {
            name: (texts, name, self._sample(texts, name, tried.get(name, 0)))
            for name in (item.question.id for item in asked)
        }
        known = self._journal.rollouts
        fresh = [item for item in asked if keys[item.question.id] not in known]
        # What an earlier process has paid for counts once; what a text knows already costs nothing.
        paid = sum(
            known[key].attempts
            for key in keys.values()
            if key in known and key not in self._counted
        )
        if fresh and self._ends is not None and monotonic() > self._ends:
            raise BudgetSpentError("the time is over")
        if fresh and self._stopping():
            raise BudgetSpentError(INTERRUPTED)
        if not self._meter.take(paid + len(fresh)):
            raise BudgetSpentError(f"the budget of {self._meter.limit:,} rollouts is spent")
        if fresh:
            for item, outcome in self._runner.run(candidate, fresh):
                self._journal.measured(self.step, keys[item.question.id], outcome)
        for item in asked:
            key = keys[item.question.id]
            if key not in self._counted:
                self._counted.add(key)
                self.failures = self.failures.with_one(known[key].fault)
            self._drawn[key[:2]] = max(self._drawn.get(key[:2], 0), key[2] + 1)
            self._take_note(candidate, item.question.id, known[key])

    def trajectory(
        self, candidate: Candidate, item: Item[ExampleT], component: str = ""
    ) -> Trajectory:
        """What ``candidate`` did last when it was asked ``item``, for a proposer to read.

        With a ``component`` that has a reading of its own, what that did.
        """
        found = self._last[candidate.id, item.question.id]
        reading = found.readings.get(component)
        if reading is None:
            turns, feedback, question = found.turns, found.feedback, item.question
        else:
            turns, feedback = reading.turns, reading.feedback
            question = replace(item.question, text=reading.question, row=reading.row)
        assignment = Assignment(question.id, question, candidate, 1, question.id)
        shown = tuple(turns) or (Turn(found.output),)
        return Trajectory(assignment, found.reward, turns=shown, feedback=feedback)

    def unscored(self, candidate: Candidate, questions: Iterable[str]) -> int:
        """Those of ``questions`` that ``candidate`` was asked and has no reward for."""
        tried, scored = self._tried[candidate.id], self.ledger.means(candidate.id)
        return sum(name in tried and name not in scored for name in questions)

    def _digest(self, candidate: Candidate) -> str:
        found = self._texts.get(candidate.id)
        if found is None:
            found = self._texts[candidate.id] = digest(candidate.components)
        return found

    def _sample(self, texts: str, question: str, tried: int) -> int:
        """Which rollout of these texts comes next.

        Where rewards are luck, a text that comes again gets a new chance, and not its old rewards.
        """
        return self._drawn.get((texts, question), 0) if self.ledger.noise else tried

    def _take_note(self, candidate: Candidate, question: str, outcome: Outcome) -> None:
        tried = self._tried[candidate.id]
        tried[question] = tried.get(question, 0) + 1
        if outcome.reward is not None:
            self._last[candidate.id, question] = outcome
            self._faults.clear()
            self.ledger.add(candidate.id, question, outcome.reward)
            return
        self._faults.append(outcome.fault)
        if len(self._faults) >= _ALL_FAILED:
            raise program_fault(self._faults)

    def require_scored(self) -> None:
        """Nothing, if the program has ever given the metric something to score.

        Raises:
            InputError: it failed at everything that it was asked.
        """
        if self._faults and not self._last:
            raise program_fault(self._faults)


def warning_of(failures: Failures) -> str:
    """What to say where more fails than now and then; an error of ours has its own remedy."""
    remedy = "; required: a program that answers; try it with the seed instruction"
    return f"{failures}{'' if 'required: ' in failures.first else remedy}"


def program_fault(faults: Sequence[str]) -> InputError:
    """What to say of a program that fails at everything."""
    said = f"the program failed in each of the last {len(faults)} rollouts, at last: {faults[-1]}"
    if "required: " not in said:  # an error of ours has its own remedy
        said += (
            "; required: program(instruction, example) that returns an output; try it with the "
            "seed instruction"
        )
    return InputError(f"{said}; go on with resume where a directory was given")

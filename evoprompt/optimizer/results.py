"""Rewards of all rollouts; no rollout is made twice, and none beyond a limit."""

from __future__ import annotations

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from time import monotonic

from evoprompt.optimizer.data import Item
from evoprompt.optimizer.flat import RewardRange
from evoprompt.optimizer.journal import Journal, Key
from evoprompt.optimizer.outcome import INTERRUPTED, BudgetSpentError, ExampleOutcome, with_remedy
from evoprompt.optimizer.runner import Meter, RolloutRequest, Rollouts
from evoprompt.support.errors import InputError
from evoprompt.support.failures import FailureCount
from evoprompt.support.leads import Lead
from evoprompt.types import Assignment, Candidate, Trajectory, Turn

SURE = 8
"""Repeated rollouts that must all agree before rewards count as free of chance."""

_ALL_FAILED = 20  # rollouts in a row without a reward after which the program is given up


class RewardTable:
    """Rewards by text and question; with a frozen model they stay valid.

    A missing reward is read in the journal if an earlier process has made the rollout; otherwise
    the program is rolled out. A text that is proposed again keeps its rewards.

    Args:
        rollouts: makes the rollouts.
        meter: counts the rollouts, and says when to stop.
        journal: stores the rollouts.
        seconds: time after which no more rollouts are begun; None for no limit.

    Attributes:
        meter: see above.
        failures: rollouts that failed, of all rollouts.
        items: the questions that were measured, by id.
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
    ) -> None:
        self.meter = meter
        self.failures = FailureCount()
        self.items: dict[str, Item] = {}
        self.rewards = RewardRange()
        self.step = 0
        self.sure = SURE
        self._rollouts = rollouts
        self._journal = journal
        self._ends = None if seconds is None else monotonic() + seconds
        self._outcomes: defaultdict[str, dict[str, list[ExampleOutcome]]] = defaultdict(dict)
        self._means: defaultdict[str, dict[str, float]] = defaultdict(dict)
        self._texts: dict[str, str] = {}
        self._squares = 0.0
        self._repeats = 0
        self._faults: list[str] = []

    @property
    def at_once(self) -> int:
        """Return the number of rollouts that are made at a time."""
        return self._rollouts.at_once

    def measure(self, pairs: Iterable[RolloutRequest], again: bool = False) -> None:
        """Make the rollouts of ``pairs`` that were never made, or with ``again`` all of them.

        Raises:
            BudgetSpentError: a limit does not leave room for all of them; none was made.
            InputError: the metric or the program is at fault.
        """
        pairs_by_key: dict[Key, RolloutRequest] = {}
        for candidate, item in pairs:
            texts, name = self.digest(candidate), item.question.id
            self.items[name] = item
            before = len(self._outcomes[texts].get(name, ()))
            if again or not before:
                pairs_by_key[texts, name, before] = candidate, item
        known_outcomes = self._journal.rollouts
        new_pairs = [pair for key, pair in pairs_by_key.items() if key not in known_outcomes]
        num_known_attempts = sum(
            known_outcomes[key].attempts for key in pairs_by_key if key in known_outcomes
        )
        if new_pairs and self._ends is not None and monotonic() > self._ends:
            raise BudgetSpentError("the time is over")
        if new_pairs and self.meter.stopping():
            raise BudgetSpentError(INTERRUPTED)
        if not self.meter.count_rollouts(num_known_attempts + len(new_pairs)):
            raise BudgetSpentError(f"the budget of {self.meter.limit:,} rollouts is spent")
        if new_pairs:
            keys = {
                (candidate.id, item.question.id): key
                for key, (candidate, item) in pairs_by_key.items()
            }
            for (candidate, item), outcome in self._rollouts.run(new_pairs, self.meter):
                key = keys[candidate.id, item.question.id]
                self._journal.add_rollout(self.step, key, outcome)
        for key in pairs_by_key:
            self._record_outcome(key, known_outcomes[key])

    def means(self, candidate: Candidate) -> Mapping[str, float]:
        """Return the mean reward by question, without the questions at which the program failed."""
        return self._means[self.digest(candidate)]

    def mean(self, candidate: Candidate, names: Iterable[str]) -> tuple[float, float, int]:
        """Return the mean reward on the questions with a reward, its standard error, their number.

        The mean is NaN without a question, and the error is infinite with fewer than two.
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

    def lead(self, candidate: Candidate, other: Candidate, names: Iterable[str]) -> Lead:
        """Return the lead of ``candidate`` over ``other`` on the questions with rewards of both.

        As in :mod:`evoprompt.support.leads`, the standard error comes from the sum of squares, so
        that a few questions that agree prove little; a question with equal rewards of both counts
        for nothing.
        """
        return lead_of([gain for _, gain in self._differences(candidate, other, names)])

    def metric_means(self, candidate: Candidate, metric: str) -> Mapping[str, float]:
        """Return the mean of a further metric by question, where ``candidate`` has it."""
        values = {
            name: [outcome.metrics[metric] for outcome in outcomes if metric in outcome.metrics]
            for name, outcomes in self._outcomes[self.digest(candidate)].items()
        }
        return {
            name: math.fsum(numbers) / len(numbers) for name, numbers in values.items() if numbers
        }

    def gains(self, candidate: Candidate, other: Candidate, names: Iterable[str]) -> list[str]:
        """Return the questions on which the reward of ``candidate`` exceeds that of ``other``."""
        return [name for name, gain in self._differences(candidate, other, names) if gain > 1e-9]

    def always_fails(self, candidate: Candidate, name: str, perfect: float) -> bool:
        """Return whether every rewarded rollout of a question failed, and there is at least one."""
        scored = [
            outcome.reward
            for outcome in self._outcomes[self.digest(candidate)].get(name, ())
            if outcome.reward is not None
        ]
        return bool(scored) and max(scored) < perfect

    def count(self, candidate: Candidate, name: str) -> int:
        """Return the number of rollouts of ``candidate`` on a question."""
        return len(self._outcomes[self.digest(candidate)].get(name, ()))

    def unscored(self, candidate: Candidate, names: Iterable[str]) -> int:
        """Count the questions on which ``candidate`` has rollouts and no reward."""
        outcomes, means = self._outcomes[self.digest(candidate)], self.means(candidate)
        return sum(name in outcomes and name not in means for name in names)

    @property
    def noise(self) -> float:
        """Return the variance of a rollout's reward for the same text and the same question."""
        return self._squares / self._repeats if self._squares else 0.0

    @property
    def is_doubtful(self) -> bool:
        """Return whether a reward may be chance: one has differed, or too few were repeated."""
        return self._repeats < self.sure or self._squares > 0

    def trajectory(self, candidate: Candidate, item: Item, component: str = "") -> Trajectory:
        """Return the latest rewarded trajectory of ``candidate`` on ``item``, for a proposer.

        If ``component`` has a separate reading, return the trajectory of the component.
        """
        outcomes = self._outcomes[self.digest(candidate)][item.question.id]
        outcome = next(latest for latest in reversed(outcomes) if latest.reward is not None)
        reading = outcome.readings.get(component)
        if reading is None:
            turns, feedback, question = outcome.turns, outcome.feedback, item.question
        else:
            turns, feedback = reading.turns, reading.feedback
            question = replace(item.question, text=reading.question, row=reading.row)
        assignment = Assignment(question.id, question, candidate, 1, question.id)
        readable_turns = tuple(turns) or (Turn(outcome.output),)
        return Trajectory(assignment, outcome.reward, turns=readable_turns, feedback=feedback)

    def require_scored(self) -> None:
        """Require that at least one rollout of the program has a reward.

        Raises:
            InputError: the program failed in all of its rollouts.
        """
        if self._faults and not any(self._means.values()):
            raise _program_fault(self._faults)

    def require_metrics(self, names: Iterable[str]) -> None:
        """Require that at least one score has each of the metrics ``names``.

        Raises:
            InputError: no score has one of them.
        """
        known_names = {
            name
            for outcomes_by_question in self._outcomes.values()
            for outcomes in outcomes_by_question.values()
            for outcome in outcomes
            for name in outcome.metrics
        }
        for name in names:
            if name not in known_names:
                known = (
                    f"have {', '.join(sorted(known_names))}" if known_names else "have no metrics"
                )
                raise InputError(
                    f"limits names {name!r}, and the scores {known}; required: a metric of the "
                    f"scores; return Score(reward, feedback, {{{name!r}: ...}}) from metric, or "
                    "correct the name in OptimizeOptions(limits=...)"
                )

    def digest(self, candidate: Candidate) -> str:
        """Return a digest that identifies a candidate by its texts."""
        digest = self._texts.get(candidate.id)
        if digest is None:
            content = json.dumps(dict(candidate.components), ensure_ascii=False)
            raw = content.encode("utf-8", "surrogatepass")
            digest = hashlib.blake2b(raw, digest_size=12).hexdigest()
            self._texts[candidate.id] = digest
        return digest

    def _differences(
        self, candidate: Candidate, other: Candidate, names: Iterable[str]
    ) -> Iterator[tuple[str, float]]:
        """Yield the questions with rewards of both, and how much more ``candidate`` earned."""
        rewards, other_rewards = self.means(candidate), self.means(other)
        for name in names:
            if name in rewards and name in other_rewards:
                yield name, rewards[name] - other_rewards[name]

    def _record_outcome(self, key: Key, outcome: ExampleOutcome) -> None:
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
        # The mean of three times 2/9 is not exactly 2/9; that would count as chance for ever.
        if not math.isclose(reward, before, rel_tol=1e-9, abs_tol=1e-12):
            scored = [outcome.reward for outcome in outcomes if outcome.reward is not None]
            self._means[texts][name] = mean = math.fsum(scored) / len(scored)
            self._squares += (reward - before) * (reward - mean)


def mean_of(values: Mapping[str, float], names: Collection[str]) -> float:
    """Return the mean of ``values`` on these questions; NaN if there are none."""
    return math.fsum(values[name] for name in names) / len(names) if names else math.nan


def lead_of(gains: Sequence[float]) -> Lead:
    """Return the lead of which ``gains`` are the differences by question; unknown without any."""
    if not gains:
        return Lead(0.0, math.inf)
    squares = math.fsum(gain * gain for gain in gains)
    return Lead(math.fsum(gains) / len(gains), math.sqrt(squares) / len(gains))


def warning_of(failures: FailureCount) -> str:
    """Return the warning if many rollouts fail."""
    return with_remedy(str(failures), "a program that answers; try it with the seed instruction")


def _program_fault(faults: Sequence[str]) -> InputError:
    """Return the error of a program that fails in all rollouts."""
    message = with_remedy(
        f"the program failed in each of the last {len(faults)} rollouts, at last: {faults[-1]}",
        "program(instruction, example) that returns an output; try it with the seed instruction",
    )
    return InputError(f"{message}; go on with resume where a directory was given")

"""Whether a candidate is better: first where its parent failed, then on the validation set."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Generic

from evoprompt.optimizer.data import ExampleT, Item
from evoprompt.optimizer.evaluator import Evaluator
from evoprompt.optimizer.runner import OutputT, WrittenT
from evoprompt.types import Candidate

LEAST = 6
"""Validation questions that every incumbent must stand, where there are as many."""

_TELLING = 3  # failures of the incumbent among them, so that a better one can show
_NOISY = 60  # further questions per unit of a reward's variance
_BLOCK = 4  # questions asked between two looks at a race

# Where rewards are subject to chance, in standard errors of a difference:
_BETTER, _DOUBTFUL = 1.5, 0.75  # a gain on failures is real; is not looked at again
_WORSE, _BEHIND = -1.3, -0.8  # a challenger that gained on failures is given up; another one is
_AHEAD = 0.0  # one that did not wins
_BLIND = 0.25  # share of gains that prove real under which failures do not tell who is better
_FORGET = 0.2  # share of the latest gain in that share

# Where a candidate gains at some questions and loses at others, in standard errors of the choice of
# questions:
_SPOILT = -0.8  # it is given up
_SETTLED = 1.5  # no further question is asked
_PRIOR, _SQUARE = 20, 0.04  # questions before any was asked, and the square of a difference at them

_REPEATS = 4  # rollouts of one failure at most, to tell a gain from chance


class Judge(Generic[WrittenT, ExampleT, OutputT]):
    """Compares candidates question by question, with as few rollouts as will tell.

    Validation questions are asked in one order. Only the first ones are used as long as they tell
    enough, so that a candidate that is soon to be replaced is not measured in full.

    Args:
        evaluator: makes the rollouts.
        validation: the validation set.
        train: the training set, which is looked at where the other one leaves it open.
        perfect: the greatest reward there is.
        seed: of the order.

    Attributes:
        depth: validation questions in use.
    """

    def __init__(
        self,
        evaluator: Evaluator[WrittenT, ExampleT, OutputT],
        validation: Sequence[Item[ExampleT]],
        train: Sequence[Item[ExampleT]],
        perfect: float,
        seed: int,
    ) -> None:
        self._evaluator = evaluator
        self._ledger = evaluator.ledger
        self._order = random.Random(f"validation/{seed}").sample(validation, len(validation))
        self._train = random.Random(f"training/{seed}").sample(train, len(train))
        self._perfect = perfect - 1e-9
        self._compared, self._square = _PRIOR, _PRIOR * _SQUARE * perfect**2
        self.depth = 0
        self._real = 1.0  # share of the latest candidates whose gains were there again
        self._proved = 1.0  # share of the latest gains that made a new incumbent

    @property
    def blind(self) -> bool:
        """Whether gains on failures say little.

        So it is where each change helps everywhere a little, and where most failures are hopeless
        and what helps at one question does harm at another.
        """
        return self._proved < _BLIND or (self._ledger.noise > 0 and self._real < _BLIND)

    @property
    def asked(self) -> list[str]:
        """Ids of the validation questions in use."""
        return [item.question.id for item in self._order[: self.depth]]

    @property
    def unasked(self) -> int:
        """Validation questions not in use."""
        return len(self._order) - self.depth

    def deepen(self, incumbent: Candidate, whole: bool = False) -> None:
        """Uses more validation questions, until they tell enough about ``incumbent``, or all."""
        while self.depth < len(self._order):
            needed = LEAST + _NOISY * self._ledger.noise
            if not whole and self.depth >= needed and self._failed(incumbent) >= _TELLING:
                return
            self._use(incumbent, len(self._order) if whole else self.depth + _BLOCK)

    def _use(self, incumbent: Candidate, depth: int) -> None:
        """Uses ``depth`` validation questions, or all there are."""
        self._evaluator.measure(incumbent, self._order[self.depth : depth])
        self.depth = min(depth, len(self._order))

    def is_perfect(self, incumbent: Candidate) -> bool:
        """Whether it is right on the whole validation set, and was scored on all of it."""
        return self.is_done(incumbent) and not self.unscored(incumbent)

    def is_done(self, incumbent: Candidate) -> bool:
        """Whether no question of the validation set shows anything that could be improved."""
        return self.depth == len(self._order) and not self._failed(incumbent)

    def unscored(self, candidate: Candidate) -> int:
        """Validation questions in use that ``candidate`` has no reward for."""
        return self.depth - len(self.rewards(candidate))

    def rewards(self, candidate: Candidate) -> Mapping[str, float]:
        """Mean rewards on the validation questions in use."""
        known = self._ledger.means(candidate.id)
        return {name: known[name] for name in self.asked if name in known}

    def improves(
        self, child: Candidate, parent: Candidate, focus: Sequence[Item[ExampleT]]
    ) -> bool:
        """Whether ``child`` does better on ``focus``, where something else did than ``parent``.

        Gains are looked at again if they may be chance.
        """
        ledger, ids = self._ledger, [item.question.id for item in focus]
        self._evaluator.measure(child, focus)
        real = ledger.difference(child.id, parent.id, ids).beyond(0) and (
            not ledger.doubtful or self._confirmed(child, parent, focus)
        )
        self._real += 0.3 * (real - self._real)
        return real

    def _confirmed(
        self, child: Candidate, parent: Candidate, focus: Sequence[Item[ExampleT]]
    ) -> bool:
        """Whether the questions that ``child`` gained on are gained when they are asked again."""
        ledger = self._ledger
        mine, theirs = ledger.means(child.id), ledger.means(parent.id)
        gains = [
            item
            for item in focus
            if mine.get(item.question.id, -1e100) > theirs.get(item.question.id, 1e100)
        ]
        gained = [item.question.id for item in gains]
        for _ in range(_REPEATS - 1):
            self._evaluator.measure(child, gains, again=True)
            found = ledger.difference(child.id, parent.id, gained)
            if found.beyond(_BETTER):
                return True
            if not found.beyond(_DOUBTFUL):
                return False
        return False

    def wins(
        self, child: Candidate, incumbent: Candidate, lenient: bool, heir: bool = False
    ) -> bool:
        """Whether ``child`` is to take the place of ``incumbent``.

        It is given up as soon as it cannot catch up any more, or is behind by more than chance.

        Args:
            child: the challenger.
            incumbent: was asked all validation questions in use.
            lenient: whether it is enough not to be worse, for it improved on the incumbent before.
            heir: whether it was made from the incumbent; what another one loses against it may be
                what the incumbent has learned in the meantime, and they will be merged.
        """
        if self._ledger.noise:
            return self._wins_by_chance(child, incumbent, lenient)
        ids, theirs = self.asked, self._ledger.means(incumbent.id)
        room = [max(self._perfect - theirs.get(name, self._perfect), 0.0) for name in ids]
        for end, block in self._blocks():
            self._evaluator.measure(child, block)
            found = self._ledger.difference(child.id, incumbent.id, ids[:end])
            if not (heir and self.unasked) and found.total + sum(room[end:]) < -1e-9:
                return False
            if heir and self._spoils(child, incumbent, ids[:end]):
                return False
        if not (heir and self._ledger.loses_somewhere(child.id, incumbent.id)):
            return self._is_ahead(child, incumbent, ids, lenient)
        won = self._wins_on_balance(child, incumbent, lenient)
        if lenient:
            self._proved += _FORGET * (won - self._proved)
        return won

    def _wins_on_balance(self, child: Candidate, incumbent: Candidate, lenient: bool) -> bool:
        """The same where ``child`` gains here and loses there, so that a few questions mislead.

        All validation questions decide then, and where these are close, also the training
        questions that ``incumbent`` was asked.
        """
        while self.unasked:
            self._use(incumbent, self.depth + _BLOCK)
            self._evaluator.measure(child, self._order[: self.depth])
            if self._spoils(child, incumbent, self.asked):
                return False
        ids, known = self.asked, self._ledger.means(incumbent.id)
        rest = [item for item in self._train if item.question.id in known]
        while rest and not self._ledger.sampled(child.id, incumbent.id, ids).beyond(_SETTLED):
            block, rest = rest[:_BLOCK], rest[_BLOCK:]
            self._evaluator.measure(child, block)
            ids += [item.question.id for item in block]
            if self._spoils(child, incumbent, ids):
                return False
        mine, theirs = self._ledger.means(child.id), self._ledger.means(incumbent.id)
        self._square += math.fsum((mine[name] - theirs[name]) ** 2 for name in self.asked)
        self._compared += self.depth
        return self._is_ahead(child, incumbent, ids, lenient)

    def _spoils(self, child: Candidate, incumbent: Candidate, ids: Sequence[str]) -> bool:
        """Whether ``child`` loses more than it gains, by more than the choice of ``ids`` explains.

        The errors of a few questions say little, so those of earlier comparisons count, too.
        """
        if not self._ledger.loses_somewhere(child.id, incumbent.id):
            return False
        found = self._ledger.sampled(child.id, incumbent.id, ids)
        usual = self._square / self._compared * len(ids)
        return found.total < _SPOILT * math.sqrt(max(found.variance, usual))

    def _is_ahead(
        self, child: Candidate, incumbent: Candidate, ids: Sequence[str], lenient: bool
    ) -> bool:
        found = self._ledger.difference(child.id, incumbent.id, ids)
        return found.questions > 0 and found.beyond(-0.0 if lenient else 0.0)

    def _wins_by_chance(self, child: Candidate, incumbent: Candidate, lenient: bool) -> bool:
        """The same where a reward may be luck: it need not be ahead for sure, but not behind."""
        ids = self.asked
        for end, block in self._blocks():
            if not lenient:  # its rewards were good enough to win, so they are better than it is
                once = [i for i in block if self._ledger.count(incumbent.id, i.question.id) < 2]
                self._evaluator.measure(incumbent, once, again=True)
            self._evaluator.measure(child, block)
            found = self._ledger.difference(child.id, incumbent.id, ids[:end])
            if end >= LEAST and not found.beyond(_WORSE if lenient else _BEHIND):
                return False
        return lenient or self._ledger.difference(child.id, incumbent.id, ids).beyond(_AHEAD)

    def _blocks(self) -> Iterator[tuple[int, list[Item[ExampleT]]]]:
        """The validation questions in use, a few at a time, and how many there are up to them."""
        for start in range(0, self.depth, _BLOCK):
            end = min(start + _BLOCK, self.depth)
            yield end, self._order[start:end]

    def value(self, candidate: Candidate) -> tuple[float, float, int]:
        """Mean reward on the validation questions in use, its standard error, their number."""
        return self._ledger.mean(candidate.id, self.asked)

    def _failed(self, incumbent: Candidate) -> int:
        means = self._ledger.means(incumbent.id)
        return sum(means.get(name, self._perfect) < self._perfect for name in self.asked)

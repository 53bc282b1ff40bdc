"""Whether a candidate is better: first where its parent failed, then on the validation set."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from evoprompt.comparison import Lead
from evoprompt.optimizer.data import Item
from evoprompt.optimizer.results import Results
from evoprompt.types import Candidate

LEAST = 6
"""Validation questions that every incumbent must stand, where there are as many."""

_TELLING = 3  # failures of the incumbent among them, so that a better one can show
_NOISY = 60  # further questions per unit of a reward's variance
_BLOCK = 4  # questions asked between two looks

# Chances of an error in one look at one pair, by Lead.is_shown:
_BEHIND = 0.1  # a challenger that gained on failures is given up ...
_NO_GAIN = 0.2  # ... and another one
_SETTLED = 0.07  # no further question is asked

_BLIND = 0.25  # share of gains that prove real under which failures do not tell who is better
_FORGET = 0.2  # share of the latest gain in that share


class Comparison:
    """Compares candidates question by question, with as few rollouts as will tell.

    Validation questions are asked in one order. Only the first ones are used as long as they tell
    enough, so that a candidate that is soon to be replaced is not measured in full.

    Args:
        results: makes the rollouts.
        validation: the validation set.
        train: the training set, which is looked at where the other one leaves it open.
        perfect: the greatest reward there is.
        seed: of the order.

    Attributes:
        depth: validation questions in use.
    """

    def __init__(
        self,
        results: Results,
        validation: Sequence[Item],
        train: Sequence[Item],
        perfect: float,
        seed: int,
    ) -> None:
        self._results = results
        self._order = random.Random(f"validation/{seed}").sample(validation, len(validation))
        self._train = random.Random(f"training/{seed}").sample(train, len(train))
        self._perfect = perfect - 1e-9
        self.depth = 0
        self._proved = 1.0  # share of the latest gains on failures that proved true

    @property
    def is_blind(self) -> bool:
        """Whether gains on failures say little.

        So it is where each change helps everywhere a little, and where most failures are hopeless
        and what helps at one question does harm at another.
        """
        return self._proved < _BLIND

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
        while self.unasked:
            needed = LEAST + _NOISY * self._results.noise
            if not whole and self.depth >= needed and self._failed(incumbent) >= _TELLING:
                return
            self._use(incumbent, self.unasked if whole else _BLOCK)

    def _use(self, incumbent: Candidate, more: int) -> None:
        depth = min(self.depth + more, len(self._order))
        self._results.measure(incumbent, self._order[self.depth : depth])
        self.depth = depth

    def is_done(self, incumbent: Candidate) -> bool:
        """Whether no question of the validation set shows anything that could be improved."""
        return not self.unasked and not self._failed(incumbent)

    def unscored(self, candidate: Candidate) -> int:
        """Validation questions in use that ``candidate`` has no reward for."""
        return self.depth - len(self.rewards(candidate))

    def rewards(self, candidate: Candidate) -> Mapping[str, float]:
        """Mean rewards on the validation questions in use."""
        known = self._results.means(candidate)
        return {name: known[name] for name in self.asked if name in known}

    def value(self, candidate: Candidate) -> tuple[float, float, int]:
        """Mean reward on the validation questions in use, its standard error, their number."""
        return self._results.mean(candidate, self.asked)

    def improves(self, child: Candidate, parent: Candidate, focus: Sequence[Item]) -> bool:
        """Whether ``child`` does better on ``focus``, where something else did than ``parent``.

        Gains that may be chance are asked for again.
        """
        results = self._results
        results.measure(child, focus)
        mine, theirs = results.means(child), results.means(parent)
        names = [item.question.id for item in focus if item.question.id in theirs]
        gained = results.lead(child, parent, names).value > 0
        if gained and results.is_doubtful:
            again = [
                item
                for item in focus
                if mine.get(item.question.id, -1e100) > theirs.get(item.question.id, 1e100)
            ]
            names = [item.question.id for item in again]
            gained = self._is_repeated(child, parent, again, names)
        if not gained and results.noise:
            self._proved -= _FORGET * self._proved
        return gained

    def _is_repeated(
        self, child: Candidate, parent: Candidate, items: Sequence[Item], names: Sequence[str]
    ) -> bool:
        """Whether at least half of a gain is there again, of two times where rewards are noisy."""
        results = self._results
        first = results.lead(child, parent, names).value
        for times in (1, 2):
            results.measure(child, items, again=True)
            half = first * (1 + times / 2) / (1 + times)
            if results.lead(child, parent, names).value >= half - 1e-9:
                return True
            if not results.noise:
                break
        return False

    def wins(self, child: Candidate, incumbent: Candidate, gained: bool) -> bool:
        """Whether ``child`` is to take the place of ``incumbent``.

        It is given up as soon as it is shown to be behind. Where it gains here and loses there, a
        few questions mislead: then the whole validation set decides and, where that leaves it open,
        the training questions that ``incumbent`` was asked.

        Args:
            child: the challenger.
            incumbent: was asked all validation questions in use.
            gained: whether it improved on the incumbent before; then it is enough not to be worse.
        """
        won = self._wins(child, incumbent, gained)
        if gained:
            self._proved += _FORGET * (won - self._proved)
        return won

    def _wins(self, child: Candidate, incumbent: Candidate, gained: bool) -> bool:
        results = self._results
        names: list[str] = []
        waiting = self._order[: self.depth]
        while waiting:
            block, waiting = waiting[:_BLOCK], waiting[_BLOCK:]
            if results.noise and not gained:  # it won by its rewards, so they are a little too good
                once = [i for i in block if results.count(incumbent, i.question.id) < 2]
                results.measure(incumbent, once, again=True)
            results.measure(child, block)
            names += [item.question.id for item in block]
            lead = results.lead(child, incumbent, names)
            is_behind = _turned(lead).is_shown(_BEHIND if gained else _NO_GAIN)
            if is_behind and (len(names) >= LEAST or not results.noise):
                return False
            if not waiting and self._is_open(child, incumbent, lead):
                if self.unasked:
                    self._use(incumbent, _BLOCK)
                    waiting = self._order[len(names) : self.depth]
                else:
                    known = results.means(incumbent)
                    waiting = [
                        item
                        for item in self._train
                        if item.question.id in known and item.question.id not in names
                    ][:_BLOCK]
        lead = results.lead(child, incumbent, names)
        if lead.stderr == float("inf"):
            return False
        if gained and results.noise:  # it is not shown to be behind, and few questions show less
            return True
        return lead.value >= 0 if gained else lead.value > 0

    def _is_open(self, child: Candidate, incumbent: Candidate, lead: Lead) -> bool:
        """Whether ``child`` gains here and loses there, and nothing is shown yet."""
        mine, theirs = self._results.means(child), self._results.means(incumbent)
        loses = any(mine[name] < theirs[name] - 1e-12 for name in mine if name in theirs)
        return loses and not self._results.noise and not lead.is_shown(_SETTLED)

    def _failed(self, incumbent: Candidate) -> int:
        means = self._results.means(incumbent)
        return sum(means.get(name, self._perfect) < self._perfect for name in self.asked)


def _turned(lead: Lead) -> Lead:
    """The lead of the other one."""
    return Lead(-lead.value, lead.stderr)

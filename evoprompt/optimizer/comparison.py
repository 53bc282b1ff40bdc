"""Whether a candidate is better: first where its parent failed, then on the validation set."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

from evoprompt.optimizer.data import Item
from evoprompt.optimizer.results import Results
from evoprompt.support.leads import Verdict
from evoprompt.types import Candidate

LEAST = 6
"""Validation questions that every incumbent must stand, where there are as many."""

_TELLING = 3  # failures of the incumbent among them, so that a better one can show
_NOISY = 60  # further questions per unit of a reward's variance
# Of the greatest reward. Hardly tuned: beside .2, .1 was tried on two families of problems.
_USEFUL = 0.2  # what a new text is likely to gain or to lose at once
_DELTA = 0.05  # a lead that is worth waiting for


class Comparison:
    """Compares candidates question by question, with as few rollouts as will tell.

    Validation questions are asked in one order. Only the first ones are used as long as they tell
    enough, so that a candidate that is soon to be replaced is not measured in full.

    Args:
        results: makes the rollouts.
        validation: the validation set.
        perfect: the greatest reward there is.
        seed: of the order.

    Attributes:
        depth: validation questions in use.
    """

    def __init__(
        self, results: Results, validation: Sequence[Item], perfect: float, seed: int
    ) -> None:
        self._results = results
        self._order = random.Random(f"validation/{seed}").sample(validation, len(validation))
        self._perfect = perfect - 1e-9
        self.depth = 0

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
            missing = LEAST + _NOISY * self._results.noise - self.depth
            failed = self._failed(incumbent)
            if not whole and missing <= 0 and failed >= _TELLING:
                return
            # as many as are likely to be needed; none is wasted where they are asked one by one
            likely = (_TELLING - failed) * (self.depth + 2) / (failed + 1)
            wanted = math.ceil(max(missing, likely, 1))
            self._use(incumbent, self.unasked if whole else min(wanted, self._results.at_once))

    def _use(self, incumbent: Candidate, more: int) -> None:
        depth = min(self.depth + more, len(self._order))
        self._results.measure((incumbent, item) for item in self._order[self.depth : depth])
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

    def improving(
        self, children: Sequence[Candidate], parent: Candidate, focus: Sequence[Item]
    ) -> list[Candidate]:
        """Those of ``children`` that do better on ``focus`` than ``parent``, which failed there.

        Gains that may be chance are asked for again, all at once, and have to be there still.
        """
        results = self._results
        results.measure(
            ((child, item) for child in children for item in focus), again=results.noise > 0
        )
        names = [item.question.id for item in focus]
        gained = [child for child in children if results.lead(child, parent, names).value > 0]
        if not results.is_doubtful:
            return gained
        theirs = results.means(parent)
        again = {
            one.id: [
                item
                for item in focus
                if results.means(one).get(item.question.id, -1e100)
                > theirs.get(item.question.id, 1e100)
            ]
            for one in gained
        }
        results.measure(((one, item) for one in gained for item in again[one.id]), again=True)
        return [
            one
            for one in gained
            if results.lead(one, parent, [item.question.id for item in again[one.id]]).value > 0
        ]

    def winner(
        self, challengers: Sequence[Candidate], incumbent: Candidate, ahead: bool
    ) -> Candidate | None:
        """The challenger that is to take the place of ``incumbent``; None if none is.

        All of them are asked at once. One is given up as soon as it is shown to be behind. Where
        one gains here and loses there, few questions mislead: then the whole validation set
        decides.

        Args:
            challengers: each of them better than ``incumbent`` elsewhere, where ``ahead``.
            incumbent: was asked all validation questions in use.
            ahead: whether it is enough for them not to be worse; children of another text than
                ``incumbent`` have to be better.
        """
        results = self._results
        alive = list(challengers)
        names: list[str] = []
        while alive:
            left = self._order[len(names) : self.depth]
            if not left:
                if not (self.unasked and any(self._is_open(member, incumbent) for member in alive)):
                    break
                self._use(incumbent, max(results.at_once // (len(alive) + 1), 1))
                continue
            block = left[: max(results.at_once // len(alive), 1)]
            if results.noise:  # it won by its rewards, so they are a little too good
                once = [i for i in block if results.count(incumbent, i.question.id) < 2]
                results.measure(((incumbent, item) for item in once), again=True)
            results.measure((member, item) for member in alive for item in block)
            names += [item.question.id for item in block]
            if len(names) >= LEAST or not results.noise:
                alive = [
                    member for member in alive if self._verdict(member, incumbent, names) != "drop"
                ]
        leads = [results.lead(member, incumbent, names) for member in alive]
        best = max(range(len(alive)), key=lambda i: leads[i].value, default=None)
        if best is None or leads[best].stderr == math.inf:
            return None
        enough = ahead and (results.noise > 0 or leads[best].value >= 0)
        return alive[best] if enough or leads[best].value > 0 else None

    def _is_open(self, child: Candidate, incumbent: Candidate) -> bool:
        """Whether ``child`` gains here and loses there, and nothing is shown yet."""
        undecided = not self._verdict(child, incumbent, self.asked)
        loses = self._results.gains(incumbent, child, self._results.means(child))
        return bool(loses) and undecided and not self._results.noise

    def _verdict(self, child: Candidate, incumbent: Candidate, names: Sequence[str]) -> Verdict:
        """Return whether ``child`` is shown to be better on those questions, or not to be.

        Without noise a gain is certain, however small: what loses nowhere is not dropped.
        """
        lead = self._results.lead(child, incumbent, names)
        if not lead.stderr:  # no difference anywhere
            return ""
        if not self._results.noise and not self._results.gains(incumbent, child, names):
            return ""
        return lead.verdict(_DELTA * self._perfect, useful=_USEFUL * self._perfect)

    def _failed(self, incumbent: Candidate) -> int:
        means = self._results.means(incumbent)
        return sum(means.get(name, self._perfect) < self._perfect for name in self.asked)

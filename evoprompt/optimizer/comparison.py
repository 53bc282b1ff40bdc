"""Comparison of candidates: first where the parent failed, then on the validation set."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

from evoprompt.optimizer.data import Item
from evoprompt.optimizer.results import RewardTable, lead_of, mean_of
from evoprompt.support.leads import Verdict
from evoprompt.types import Candidate

LEAST = 6
"""Validation questions on which every incumbent is measured, if the set has that many."""

_MIN_FAILURES = 3  # of the incumbent among them, so that a better candidate can gain
_QUESTIONS_PER_VARIANCE = 60  # further questions per unit of a reward's variance
# Shares of the greatest reward. Little tuned: besides .2, .1 was tried on two problem families.
_USEFUL = 0.2  # likely gain or loss of a new text in one iteration
# Of the rollouts that are left, for one comparison. Seeds 960 to 979 with 200 rollouts and 100
# questions: chaotic .292 -> .391, shuffle .387 -> .486, noisy .372 -> .440, eleven others level.
_MAX_SHARE = 0.25
_DELTA = 0.05  # the smallest lead that is worth more questions


class Comparison:
    """Comparison of candidates question by question, with as few rollouts as possible.

    Validation questions are used in one order. Only the first ones are used as long as they
    suffice for a decision, so that a candidate that is soon replaced is not measured in full.

    Args:
        results: makes the rollouts.
        validation: the validation set.
        perfect: the greatest reward there is.
        seed: seed of the order.
        limits: maximum of the mean of further metrics, by name.

    Attributes:
        depth: number of validation questions in use.
    """

    def __init__(
        self,
        results: RewardTable,
        validation: Sequence[Item],
        perfect: float,
        seed: int,
        limits: Mapping[str, float],
    ) -> None:
        self._results = results
        self._order = random.Random(f"validation/{seed}").sample(validation, len(validation))
        self._perfect = perfect - 1e-9
        self._limits = limits
        self.depth = 0

    @property
    def used_names(self) -> list[str]:
        """Return the ids of the validation questions in use."""
        return [item.question.id for item in self._order[: self.depth]]

    @property
    def num_unused(self) -> int:
        """Return the number of validation questions that are not in use."""
        return len(self._order) - self.depth

    def deepen(self, incumbent: Candidate) -> None:
        """Use more validation questions, until they suffice for the best candidate so far."""
        while self.num_unused:
            num_missing = LEAST + _QUESTIONS_PER_VARIANCE * self._results.noise - self.depth
            num_failed = self._count_failures(incumbent)
            if num_missing <= 0 and num_failed >= _MIN_FAILURES:
                return
            # as many as are likely to be needed; with one rollout at a time none is wasted
            likely_needed = (_MIN_FAILURES - num_failed) * (self.depth + 2) / (num_failed + 1)
            num_questions = math.ceil(max(num_missing, likely_needed, 1))
            at_once = min(num_questions, self._results.at_once)
            self._use_questions(incumbent, self.depth + at_once)

    def use_rest(self, incumbent: Candidate, num_rollouts: int) -> None:
        """Use the other validation questions, as far as ``num_rollouts`` suffice for them."""
        self._use_questions(incumbent, self.depth + num_rollouts)

    def _use_questions(self, incumbent: Candidate, depth: int) -> None:
        """Use at least the first ``depth`` validation questions."""
        self._results.measure((incumbent, item) for item in self._order[self.depth : depth])
        self.depth = max(self.depth, min(depth, len(self._order)))

    def _sufficient_depth(self, incumbent: Candidate) -> int:
        """Return the number of questions in use that suffice for ``incumbent``."""
        least = LEAST + _QUESTIONS_PER_VARIANCE * self._results.noise
        num_failed = 0
        for depth, name in enumerate(self.used_names, start=1):
            num_failed += self._fails(incumbent, name)
            if depth >= least and num_failed >= _MIN_FAILURES:
                return depth
        return self.depth

    def is_done(self, incumbent: Candidate) -> bool:
        """Return whether ``incumbent`` was measured on all questions and fails none of them."""
        return not self.num_unused and not self._count_failures(incumbent)

    def unscored(self, candidate: Candidate) -> int:
        """Return the number of validation questions in use without a reward of ``candidate``."""
        return self.depth - len(self.rewards(candidate))

    def rewards(self, candidate: Candidate) -> Mapping[str, float]:
        """Return the mean reward of ``candidate`` on each validation question in use."""
        means = self._results.means(candidate)
        return {name: means[name] for name in self.used_names if name in means}

    def value(self, candidate: Candidate) -> tuple[float, float, int]:
        """Return the mean reward on the questions in use, its standard error, their number."""
        return self._results.mean(candidate, self.used_names)

    def improving(
        self, children: Sequence[Candidate], parent: Candidate, focus: Sequence[Item]
    ) -> list[Candidate]:
        """Return the ``children`` that are better on ``focus`` than ``parent``, which failed there.

        Gains that may be chance are measured again, all of them together, and must be confirmed.
        """
        results = self._results
        results.measure(
            ((child, item) for child in children for item in focus), again=results.noise > 0
        )
        names = [item.question.id for item in focus]
        gained = [child for child in children if results.lead(child, parent, names).value > 0]
        if not results.is_doubtful:
            return gained
        gains = [(child, results.gains(child, parent, names)) for child in gained]
        doubtful = [
            (child, item) for child, won in gains for item in focus if item.question.id in won
        ]
        results.measure(doubtful, again=True)
        return [child for child, won in gains if results.lead(child, parent, won).value > 0]

    def winner(
        self, candidates: Sequence[Candidate], incumbent: Candidate, ahead: bool
    ) -> Candidate | None:
        """Return the candidate that replaces ``incumbent``; None if no candidate does.

        All candidates are measured together, first on as few questions as suffice for the
        incumbent, also if an earlier comparison has used more of them. A candidate is dropped as
        soon as its lead is significantly negative, or it is shown to break a limit. If a candidate
        has gains on some questions and losses elsewhere, few questions mislead: then the whole
        validation set decides, as it does if a candidate exceeds a limit and the questions in use
        do not show it, as far as a quarter of the rollouts that are left suffices for that.

        Args:
            candidates: with ``ahead``, each of them is better than ``incumbent`` elsewhere.
            incumbent: the best candidate so far, measured on all validation questions in use.
            ahead: whether a candidate that is not worse may win; children of another text than
                ``incumbent`` have to be better.
        """
        results = self._results
        remaining = list(candidates)
        names: list[str] = []
        depth = self._sufficient_depth(incumbent)
        num_affordable = _MAX_SHARE * results.meter.left
        num_spent = results.meter.spent
        while remaining:
            next_items = self._order[len(names) : depth]
            if not next_items:
                is_open = any(self._is_open(member, incumbent, names) for member in remaining)
                is_long = results.meter.spent - num_spent >= num_affordable
                if len(names) == len(self._order) or not is_open or is_long:
                    break
                depth += max(results.at_once // (len(remaining) + 1), 1)
                self._use_questions(incumbent, depth)
                continue
            batch = next_items[: max(results.at_once // len(remaining), 1)]
            if results.noise:  # the incumbent won by its rewards, so they are a little too good
                items_measured_once = [
                    item for item in batch if results.count(incumbent, item.question.id) < 2
                ]
                results.measure(((incumbent, item) for item in items_measured_once), again=True)
            results.measure((member, item) for member in remaining for item in batch)
            names += [item.question.id for item in batch]
            if len(names) >= LEAST or not results.noise:
                remaining = [
                    member
                    for member in remaining
                    if self._verdict(member, incumbent, names) != "drop"
                    and not self.broken_limits(member, incumbent, names)
                ]
        leads = [results.lead(member, incumbent, names) for member in remaining]
        best = max(range(len(remaining)), key=lambda i: leads[i].value, default=None)
        if best is None or leads[best].stderr == math.inf:
            return None
        is_enough = ahead and (results.noise > 0 or leads[best].value >= 0)
        if not is_enough and leads[best].value <= 0:
            return None
        self.depth = len(names)
        return remaining[best]

    def broken_limits(
        self, child: Candidate, incumbent: Candidate, names: Sequence[str]
    ) -> list[str]:
        """Return the metrics of which ``child`` is shown to break the limit on those questions."""
        return [
            metric
            for metric in self._limits
            if self._limit_verdict(metric, child, incumbent, names) == "better"
        ]

    def _limit_verdict(
        self, metric: str, child: Candidate, incumbent: Candidate, names: Sequence[str]
    ) -> Verdict:
        """Return ``"better"`` if ``child`` is shown to exceed a limit, and the incumbent, too.

        If only the limit counted, nothing could improve an incumbent that exceeds it; if only the
        incumbent counted, nothing could use what the limit leaves. Both are tested as leads are.
        """
        limit = self._limits[metric]
        values = self._results.metric_means(child, metric)
        incumbent_values = self._results.metric_means(incumbent, metric)
        shared = [name for name in names if name in values and name in incumbent_values]
        leads = [
            lead_of([values[name] - limit for name in shared]),
            lead_of([values[name] - incumbent_values[name] for name in shared]),
        ]
        if any(lead.value <= 0 for lead in leads):
            return "drop"
        means = (mean_of(each, shared) for each in (values, incumbent_values))
        scale = max(abs(limit), *map(abs, means))  # in place of the greatest reward
        verdicts = [lead.verdict(_DELTA * scale, useful=_USEFUL * scale) for lead in leads]
        return next((verdict for verdict in ("drop", "") if verdict in verdicts), "better")

    def _is_open(self, child: Candidate, incumbent: Candidate, names: Sequence[str]) -> bool:
        """Return whether gains and losses of ``child``, or a limit, are without a verdict yet."""
        if any(not self._limit_verdict(name, child, incumbent, names) for name in self._limits):
            return True
        is_undecided = not self._verdict(child, incumbent, names)
        losses = self._results.gains(incumbent, child, self._results.means(child))
        return bool(losses) and is_undecided and not self._results.noise

    def _verdict(self, child: Candidate, incumbent: Candidate, names: Sequence[str]) -> Verdict:
        """Return whether ``child`` is significantly better on those questions, or is not.

        Without noise a gain is certain, however small: a child that loses nowhere is not dropped.
        """
        lead = self._results.lead(child, incumbent, names)
        if not lead.stderr:  # no difference anywhere
            return ""
        if not self._results.noise and not self._results.gains(incumbent, child, names):
            return ""
        return lead.verdict(_DELTA * self._perfect, useful=_USEFUL * self._perfect)

    def _count_failures(self, incumbent: Candidate) -> int:
        return sum(self._fails(incumbent, name) for name in self.used_names)

    def _fails(self, incumbent: Candidate, name: str) -> bool:
        return self._results.means(incumbent).get(name, self._perfect) < self._perfect

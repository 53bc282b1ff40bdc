"""Estimates: the lead of one candidate over another, its verdict, and the value of a sentence."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

_NORMAL = NormalDist()

LEAD_ODDS = 5.0
"""Odds at which a candidate is better than another where each has questions of its own, where the
model is frozen, and where the population is halved. With 30, a third of the gain was lost after
20,000 rollouts (whole runs, simulated)."""
SHOWN_ODDS = 20.0
"""Odds at which the best is said to be better than the first instruction. Where no instruction
matters, it was said in .28 of 60 runs at 5, and in .07 at 20 (docs/notes/2026-11-29-best.md)."""
TRIAL_ODDS = 2.0
"""Odds at which a trial ends, with the candidate as a member or without it, and at which a member
takes the place of the incumbent (docs/notes/2026-11-29-best.md). Over *ladder* and *scaffold* with
one and seven seeds, training ended at .925 where candidates joined at 2, at .898 at 3, and at .910
at 5 (seeds 38000 to 38079, docs/notes/2026-11-28-one-method.md); rejecting at 10 cost 4 to 5 points
of gain in 20,000 rollouts (whole runs, simulated).
"""
_LARGE_SCALE = 10.0  # times the useful lead: scale of leads that a few questions show
_SHARE_OF_LARGE = 0.1  # of the mixture
USEFUL = 0.05
"""Size of a useful lead, as a share of the range of rewards. With .2 a lead of the whole range
shows in 10 questions instead of 30, but whole runs gained 2.5 points less (simulated).
"""

MIN_GROUPS = 12
"""Groups of each candidate below which a lead is unknown: its standard error would be chance. With
seven seeds, training ended at .974 where generations waited for so many groups of each, and at .924
where they did not (drift, *scaffold*)."""

Verdict = Literal["better", "drop", ""]
"""Verdict of a sequential comparison; empty while it is undecided."""


@dataclass(frozen=True, slots=True)
class Lead:
    """Estimated difference between the mean rewards of two candidates on the same questions.

    Attributes:
        value: the difference, in units of the rewards.
        stderr: its standard error; infinite where nothing compares the two, and 0 where every
            question that compares them is a tie.
    """

    value: float
    stderr: float

    @property
    def is_known(self) -> bool:
        """Return whether there is a difference with a standard error."""
        return 0.0 < self.stderr < math.inf

    def odds(self, useful: float = USEFUL) -> float:
        """Return how much more likely the data are if the candidate is better than if it is not.

        The alternative is a mixture of leads: half a normal distribution of scale ``useful``, and
        with a share of a tenth one that is ten times as wide. Without the latter a lead of the
        whole range would never show where there are only two dozen different questions. If the
        candidate is no better, the odds ever reach ``n`` with a chance of at most ``1 / n``,
        however often they are computed (Ville, 1939; Robbins, 1970), as long as ``stderr`` is
        right, which it is not with a few questions.

        Args:
            useful: a lead that is worth having, in units of the rewards.

        >>> round(Lead(0.1, 0.04).odds(), 1), round(Lead(-0.1, 0.04).odds(), 2)
        (7.7, 0.19)
        """
        if not self.is_known:
            return 1.0
        large = self._odds_at(_LARGE_SCALE * useful)
        return (1 - _SHARE_OF_LARGE) * self._odds_at(useful) + _SHARE_OF_LARGE * large

    def _odds_at(self, scale: float) -> float:
        """Return the odds against a half normal distribution of leads of one scale."""
        ratio = scale / self.stderr
        width = math.sqrt(1 + ratio**2)
        score = ratio / width * (self.value / self.stderr)
        return 2 / width * math.exp(min(score**2 / 2, 600.0)) * _NORMAL.cdf(score)

    def verdict(self, delta: float, *, useful: float = USEFUL, odds: float = LEAD_ODDS) -> Verdict:
        """Return whether the candidate is better, or may be dropped as not better by ``delta``.

        Args:
            delta: a lead that is worth waiting for, in units of the rewards, above 0.
            useful: as for :meth:`odds`.
            odds: the odds at which the candidate is called better. With :data:`LEAD_ODDS`, up to a
                fifth of the candidates that are exactly as good reach them, .06 if the latter are
                dropped early, and almost none that is worse. With ``n``, at most one in ``n`` that
                is no better reaches them, over all looks together.

        >>> Lead(0.1, 0.04).verdict(0.05), Lead(0.1, 0.04).verdict(0.05, odds=100)
        ('better', '')
        >>> Lead(-0.02, 0.03).verdict(0.05)
        'drop'
        """
        if self.odds(useful) >= odds:
            return "better"
        return "drop" if Lead(delta - self.value, self.stderr).odds(useful) >= TRIAL_ODDS else ""


@dataclass(frozen=True, slots=True)
class SentenceValue:
    """Estimated value of a sentence: its effect on the mean reward of a candidate that holds it.

    Attributes:
        text: the sentence; sentences that always stand together count as one.
        value: the effect, shrunk towards 0 if there is little evidence.
        stderr: standard error of ``value``.
        holders: number of the latest candidates that hold it.
    """

    text: str
    value: float
    stderr: float
    holders: int

    def __str__(self) -> str:
        return f"{self.value:+.3f} ± {self.stderr:.3f}"

    @property
    def verdict(self) -> str:
        """``"good"`` or ``"bad"`` beyond two standard errors, else ``"not shown"``.

        >>> SentenceValue("Be brief.", 0.06, 0.02, 3).verdict
        'good'
        """
        if abs(self.value) <= 2 * self.stderr:
            return "not shown"
        return "good" if self.value > 0 else "bad"


def describe_best(best: str, first: str, is_better: bool) -> str:
    """Return a sentence about the best candidate beside the first instruction.

    Args:
        best: id of the best candidate.
        first: id of the first seed.
        is_better: whether there is evidence that the best is better than the first.

    >>> describe_best("c4", "c0", True)
    'c4 is shown to be better than the first instruction, c0'
    """
    if best == first:
        return f"the best is the first instruction, {first}: none leads it at odds of 2 : 1"
    if is_better:
        return f"{best} is shown to be better than the first instruction, {first}"
    return f"{best} leads, but is not shown to be better than the first instruction, {first}"

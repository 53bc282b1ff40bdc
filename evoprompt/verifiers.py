"""Who is admitted to the population: the verifiers that ship with evoprompt.

``Race`` may look at its test several times, and still errs as seldom as it says: its error rate is
spent as O'Brien and Fleming would (Lan and DeMets, 1983), hardly any of it on the first looks.
Bounds are exact: where two candidates are equally good on a question, each of the rewards seen
there might as well have been the child's (Fisher's permutation test). For one reward of 0 or 1 each
that is the sign test, at any number of questions.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from statistics import NormalDist, fmean
from typing import Literal

import numpy as np
from pydantic import BaseModel, Field

from evoprompt.roles import VerificationRequest, Verifier
from evoprompt.types import (
    Assignment,
    Candidate,
    Question,
    Trajectory,
    Verification,
    VerificationResult,
)

__all__ = ["NO_PLACE", "Race", "ReplayTopN", "Unverified", "measured", "verification_of"]

_HOPELESS = 0.1  # a child with a smaller chance to be admitted in the end is asked no more
_STEPS = 12  # differences are rounded to this share of the greatest one
_NORMAL = NormalDist()

NO_PLACE = "no free place was left in the population"
"""Why somebody who did well enough is not admitted."""


def verification_of(
    candidate: Candidate, question: Question, index: int, rollouts: int = 1
) -> Assignment:
    """``candidate`` on the ``index``-th question of a round."""
    identity = f"{candidate.id}/{index}"
    return Assignment(identity, question, candidate, rollouts, identity, "verify")


def measured(candidate: Candidate, trajectories: Sequence[Trajectory]) -> VerificationResult:
    """Mean reward and standard error of ``candidate``, who is not admitted."""
    rewards = [
        one.reward
        for one in trajectories
        if one.candidate.id == candidate.id and one.reward is not None
    ]
    scored = len(rewards)
    if not scored:
        return VerificationResult(candidate, None, None, 0, admitted=False)
    mean = math.fsum(rewards) / scored
    spread = math.fsum((reward - mean) ** 2 for reward in rewards)
    stderr = math.sqrt(spread / (scored - 1) / scored) if scored > 1 else None
    return VerificationResult(candidate, mean, stderr, scored, admitted=False)


def _by_mean(result: VerificationResult) -> float:
    return -math.inf if result.mean is None else result.mean


class ReplayTopN(Verifier):
    """Admits the best on questions of the replay buffer (paper section 3.2).

    The best are those of the highest mean reward. Every candidate of a round is asked the same
    questions once, by the current policy. At most half of them are admitted: a verification that
    turns nobody away decides nothing. One alone has to do no worse than the best parent.

    Args:
        questions: ``|D_B|``, questions per round; fewer if the buffer holds fewer.
        accept: ``"top"`` admits the best of the round (paper). ``"not-worse"`` rolls the parents
            out on the same questions too and admits only candidates whose mean is at least the
            best parent's.
    """

    class Settings(BaseModel, extra="forbid"):
        """What a configuration may set."""

        questions: int = Field(200, ge=1, description="|D_B|, questions per round")
        accept: Literal["top", "not-worse"] = Field(
            "not-worse",
            description="the best of the round, or only those not worse than a parent",
        )

    def __init__(
        self, questions: int = 200, accept: Literal["top", "not-worse"] = "not-worse"
    ) -> None:
        if questions < 1:
            raise ValueError(f"questions is {questions}; required: at least 1")
        self.questions = questions
        self.accept = accept

    def most_rollouts(self, proposed: int, parents: int) -> int:
        """Most rollouts of a round that tries so many candidates of so many parents."""
        compared = self.accept == "not-worse" or proposed == 1
        return self.questions * (proposed + (parents if compared else 0))

    def verify(self, request: VerificationRequest) -> Verification:
        """One result per proposed candidate, best first, at most half of them admitted."""
        tried = len(request.proposed)
        contested = self.accept == "top" and tried > 1
        compared = [] if contested else [one.candidate for one in request.parents]
        questions = request.replay.questions(self.questions, request.rng)
        trajectories = request.rollout(
            [
                verification_of(candidate, question, index)
                for candidate in (*compared, *request.proposed)
                for index, question in enumerate(questions)
            ]
        )
        bars = [measured(candidate, trajectories) for candidate in compared]
        bar = max((bar.mean for bar in bars if bar.mean is not None), default=-math.inf)
        ranked = sorted(
            (measured(candidate, trajectories) for candidate in request.proposed),
            key=_by_mean,
            reverse=True,
        )
        half = tried // 2 or int(bar > -math.inf)
        left = min(request.slots, half)
        full = NO_PLACE if left == request.slots else _at_most(half, tried)
        results: list[VerificationResult] = []
        for result in ranked:
            reason = _reason_against(result, bar, "" if left else full)
            left -= not reason
            results.append(replace(result, admitted=not reason, reason=reason))
        return Verification(tuple(results), tuple(bars), tuple(trajectories))


def _at_most(half: int, tried: int) -> str:
    if not half:
        return "it was tried alone, and no rollout of a parent could be scored"
    return f"of {tried} that were tried at most {half} are admitted, and others did no worse"


def _reason_against(result: VerificationResult, bar: float, otherwise: str) -> str:
    if result.mean is None:
        return "no rollout of it could be scored"
    if result.mean < bar:
        return f"mean reward {result.mean:.3f} is below the best parent's {bar:.3f}"
    return otherwise


class Unverified(Verifier):
    """Admits proposals as they come, without a rollout (ablation).

    The first are admitted: the paper's ablation without verification.
    """

    def most_rollouts(self, proposed: int, parents: int) -> int:
        """None are needed."""
        return 0

    def verify(self, request: VerificationRequest) -> Verification:
        """One result per proposed candidate; the first ``slots`` are admitted unmeasured."""
        return Verification(
            tuple(
                VerificationResult(one, None, None, 0, not reason, reason)
                for place, one in enumerate(request.proposed)
                for reason in ["" if place < request.slots else NO_PLACE]
            )
        )


Difference = tuple[float, ...]
"""The child's lead on a question; then what it would be, were other rewards there the child's."""

_Rewards = dict[str, list[float]]  # by question id; empty where all rollouts failed


class Race(Verifier):
    """Admits who is shown to be better than its parent, at a stated error rate.

    All are asked the same questions, in batches: those first that were sometimes answered right
    and sometimes not, where candidates differ most. After each batch a child is admitted once the
    questions so far show it to be better, or dropped once it is unlikely that all of them will.

    The parent that they are compared with is the first, who was the best before the race: the best
    *in* the race would be partly the luckiest. It answers a question as often as pays while many
    are compared with it.

    The chance to admit anybody who is no better than that parent is at most ``error`` in a whole
    generation, over all children, rounds and looks: each round has half of what is left, the last
    one all of it, its children share that equally, and who is admitted leaves its share to the
    others (Holm, 1979). What earlier rounds have used up follows from the request alone, so there
    is nothing to save.

    Args:
        questions: most questions per child, at least 1; fewer if the buffer holds fewer.
        error: the greatest chance of a wrong admission per generation, in (0, 1).
        looks: number of batches, at least 1.
    """

    class Settings(BaseModel, extra="forbid"):
        """What a configuration may set."""

        questions: int = Field(200, ge=1, description="most questions per child")
        error: float = Field(
            0.2, gt=0, lt=1, description="the greatest chance of a wrong admission per generation"
        )
        looks: int = Field(5, ge=1, description="batches, after each of which some are decided")

    def __init__(self, questions: int = 200, error: float = 0.2, looks: int = 5) -> None:
        if questions < 1 or looks < 1:
            raise ValueError(
                f"questions is {questions} and looks is {looks}; required: at least 1 of each"
            )
        if not 0 < error < 1:
            raise ValueError(f"error is {error}; required: a probability between 0 and 1")
        self.questions = questions
        self.error = error
        self.looks = looks

    def most_rollouts(self, proposed: int, parents: int) -> int:
        """Most rollouts of a round that tries so many candidates; only the first parent runs."""
        return self.questions * (proposed + _often(proposed))

    def verify(self, request: VerificationRequest) -> Verification:
        """One result per proposed candidate, best first, at most ``slots`` of them admitted."""
        parent = request.parents[0]
        error = _left(self.error, request)
        questions = request.replay.informative(self.questions, request.rng)
        runners = [_Runner(child) for child in request.proposed]
        obstacle, lacking = _obstacle(request, len(questions), error)
        if obstacle:
            for runner in runners:
                runner.refusal = obstacle
        bar: _Rewards = {}
        spent: list[Trajectory] = []
        for batch in self._batches(questions):
            racing = [runner for runner in runners if runner.races]
            if not racing:
                break
            often = _often(len(racing))
            done = request.rollout(
                [verification_of(parent.candidate, one, index, often) for index, one in batch]
                + [verification_of(r.child, one, index) for r in racing for index, one in batch]
            )
            spent += done
            bar |= _rewards(parent.candidate, done)
            for runner in racing:
                runner.run([one.id for _, one in batch], _rewards(runner.child, done), bar)
            _judge(runners, parent.candidate, len(questions), error, request.slots)
        notice = self._remedy(obstacle) if lacking else ""
        bar_result = measured(parent.candidate, spent)
        return Verification(
            _results(runners, spent, request.slots),
            (bar_result,) if bar_result.scored else (),
            tuple(spent),
            notice,
        )

    def _remedy(self, obstacle: str) -> str:
        """What a person is told when there are too few questions for anybody to win."""
        return (
            f"race could admit nobody, whatever the candidates are worth: {obstacle}; raise its "
            f"questions (now {self.questions}) and replay_capacity, evolve later, lower "
            f"proposals_per_round or population_size, raise its error (now {self.error:g}), or use "
            "the verifier replay-top-n"
        )

    def _batches(self, questions: Sequence[Question]) -> Iterator[list[tuple[int, Question]]]:
        """The questions with their numbers, in ``looks`` parts of much the same size."""
        ends = (math.ceil(len(questions) * part / self.looks) for part in range(self.looks + 1))
        for start, end in pairwise(dict.fromkeys(ends)):
            yield list(enumerate(questions))[start:end]


@dataclass(slots=True)
class _Runner:
    """A child in the race.

    Attributes:
        child: who it is.
        looks: its rewards minus the parent's, a list per batch; 0 where one of the two failed.
        pairs: its reward and the parent's mean where neither failed.
        won: whether it was shown to be better.
        refusal: why it was dropped; empty if it was not.
    """

    child: Candidate
    looks: list[list[Difference]] = field(default_factory=list)
    pairs: list[tuple[float, float]] = field(default_factory=list)
    won: bool = False
    refusal: str = ""

    @property
    def races(self) -> bool:
        return not self.won and not self.refusal

    @property
    def differences(self) -> list[Difference]:
        return [one for look in self.looks for one in look]

    @property
    def lead(self) -> float:
        """Mean difference to the parent, where there are pairs."""
        return math.fsum(one[0] for one in self.differences) / len(self.pairs)

    def run(self, batch: Sequence[str], own: _Rewards, bar: _Rewards) -> None:
        """Takes in what a batch of questions brought it and the parent."""
        self.looks.append([])
        for question in batch:
            mine, theirs = own.get(question), bar.get(question)
            if mine and theirs:
                self.pairs.append((mine[0], fmean(theirs)))
                self.looks[-1].append(difference(mine[0], theirs))
            else:
                self.looks[-1].append((0.0,))


def _rewards(candidate: Candidate, trajectories: Sequence[Trajectory]) -> _Rewards:
    found: _Rewards = {}
    for one in trajectories:
        if one.candidate.id == candidate.id:
            scored = found.setdefault(one.question.id, [])
            if one.reward is not None:
                scored.append(one.reward)
    return found


def _often(children: int) -> int:
    """How often the parent is best asked a question: it is in all comparisons (Dunnett, 1955)."""
    return round(math.sqrt(children))


def _left(error: float, request: VerificationRequest) -> float:
    """What this round may spend of the generation's error rate."""
    for earlier in request.earlier:
        if earlier.trajectories and not all(result.admitted for result in earlier.results):
            error /= 2
    return error / 2 if request.rounds_left else error


def _obstacle(request: VerificationRequest, questions: int, error: float) -> tuple[str, bool]:
    """Why nobody can win this race, empty if somebody can; and whether questions are lacking."""
    if not request.slots:
        return NO_PLACE, False
    if not questions:
        return "there is no question to compare it with its parent on", True
    children = len(request.proposed) or 1
    needed = math.ceil(math.log(children / error, 1 + _often(children)))  # if it wins them all
    if questions < needed:
        return (
            f"too few questions are remembered ({questions}) to show that it is better than its "
            f"parent; required: at least {needed}",
            True,
        )
    return "", False


def _judge(
    runners: Sequence[_Runner], parent: Candidate, planned: int, error: float, slots: int
) -> None:
    """Ends the race for those about whom enough is known."""
    found = True
    while found:  # who wins leaves its share to the others
        share = error / max(sum(not runner.won for runner in runners), 1)
        winners = [r for r in runners if r.races and is_positive(r.looks, planned, share)]
        for runner in winners:
            runner.won = True
        found = bool(winners)
    full = sum(runner.won for runner in runners) >= slots
    for runner in runners:
        asked = len(runner.differences)
        if not runner.races:
            continue
        if full:
            runner.refusal = NO_PLACE
        elif asked == planned:
            runner.refusal = _comparison(runner, parent)
        elif prospect(runner.differences, planned, share) < _HOPELESS:
            left = planned - asked
            runner.refusal = f"{_comparison(runner, parent)}; {left} more were unlikely to show it"


def _comparison(runner: _Runner, parent: Candidate) -> str:
    if not runner.pairs:
        return f"no question was scored both for it and for its parent {parent.id}"
    own, bar = (fmean(rewards) for rewards in zip(*runner.pairs, strict=True))
    return (
        f"not shown to be better than its parent {parent.id}: mean reward {own:.3f} against "
        f"{bar:.3f} on the same {len(runner.pairs)} questions"
    )


def _results(
    runners: Sequence[_Runner], spent: Sequence[Trajectory], slots: int
) -> tuple[VerificationResult, ...]:
    winners = [runner for runner in runners if runner.won]
    for runner in sorted(winners, key=lambda one: one.lead, reverse=True)[slots:]:
        runner.refusal = NO_PLACE
    results = [
        replace(measured(one.child, spent), admitted=not one.refusal, reason=one.refusal)
        for one in runners
    ]
    return tuple(sorted(results, key=_by_mean, reverse=True))


def difference(own: float, others: Sequence[float]) -> Difference:
    """The child's reward minus the mean of the parent's rewards on the same question.

    >>> difference(1.0, [0.0, 0.0])
    (1.0, -0.5, -0.5)
    """
    rewards = (own, *others)
    total, count = math.fsum(rewards), len(others)
    noise = max(1e-9 * max(map(abs, rewards)), 1e-12)
    leads = [reward - (total - reward) / count for reward in rewards]
    return tuple(0.0 if abs(lead) <= noise else lead for lead in leads)


def spent(error: float, share: float) -> float:
    """How much of ``error`` may be spent by the time that ``share`` of all questions was asked."""
    if share >= 1:
        return error
    return 2 * (1 - _NORMAL.cdf(_NORMAL.inv_cdf(1 - error / 2) / math.sqrt(share)))


def is_positive(looks: Sequence[Sequence[Difference]], planned: int, error: float) -> bool:
    """Whether the child was shown to be better at one of the looks.

    If it is not, that happens with a probability of at most ``error``, however many looks.

    Args:
        looks: the differences that came in before each look, since the one before.
        planned: number of differences after which there is no look any more; at least their number.
        error: the probability, in (0, 1).
    """
    units = _units(looks)
    chances, least = np.ones(1), 0  # of the sums from the least on, if it was not shown before
    total = asked = 0
    used = 0.0
    for differences in units:
        asked += len(differences)
        total += sum(one[0] for one in differences)
        for values, times in Counter(tuple(sorted(one)) for one in differences).items():
            chances = np.convolve(chances, _power(_chances(values), times))
            least += values[0] * times
        # Chance of a sum of at least each, the greatest first, and how many of them are bounds.
        tails = np.cumsum(chances[::-1])
        beyond = int(np.searchsorted(tails, spent(error, asked / planned) - used, side="right"))
        if beyond:
            used += float(tails[beyond - 1])
            chances[len(chances) - beyond :] = 0
            if total - least >= len(chances) - beyond:
                return True
    return False


def prospect(differences: Sequence[Difference], planned: int, error: float) -> float:
    """The chance that ``planned`` differences will show it, by what was seen (predictive power).

    Args:
        differences: those seen so far, fewer than planned.
        planned: number of differences there are to be.
        error: that of the test.
    """
    share = len(differences) / planned
    wanted = _NORMAL.inv_cdf(1 - error) * math.sqrt(share)
    return _NORMAL.cdf((score(differences) - wanted) / math.sqrt(1 - share))


def score(differences: Sequence[Difference]) -> float:
    """Their sum in standard deviations of what chance would make of it; 0 where all are 0."""
    greatest = max((abs(one) for values in differences for one in values), default=0.0)
    if not greatest:
        return 0.0
    variance = math.fsum(fmean((one / greatest) ** 2 for one in values) for values in differences)
    return math.fsum(values[0] / greatest for values in differences) / math.sqrt(variance)


def _units(looks: Sequence[Sequence[Difference]]) -> list[list[tuple[int, ...]]]:
    """Differences as whole numbers of one unit."""
    every = [one for differences in looks for values in differences for one in values]
    greatest = max(map(abs, every), default=0.0) or 1.0
    common = math.gcd(*(round(_STEPS * (one / greatest)) for one in every)) or 1
    return [
        [tuple(round(_STEPS * (one / greatest)) // common for one in values) for values in look]
        for look in looks
    ]


def _chances(values: Sequence[int]) -> np.ndarray:
    """Chances of all numbers from the least to the greatest of equally likely ``values``."""
    return np.bincount(np.array(values) - values[0]) / len(values)


def _power(chances: np.ndarray, times: int) -> np.ndarray:
    """The chances of a sum of so many."""
    found = np.ones(1)
    while times:
        if times % 2:
            found = np.convolve(found, chances)
        chances, times = np.convolve(chances, chances), times // 2
    return found

"""Is one candidate better than another, and who is the best? What questions say of it.

A question that several candidates had at once compares them by itself. Questions of a
step that had one candidate each compare them through the step's mean, so that the
progress of the policy is nobody's merit. All of it goes into one regression on the candidates, in
which a candidate is compared with one it never met through those that both of them met.

Standard errors are by question: however often a question was asked, it is one observation, and its
surprises stay together. They come from the sums of squares of what the questions said, and not of
residuals: a lead is never more than the square root of the number of questions away from 0, so a
few questions that agree show nothing (Efron, 1969, on self-normalised sums).
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist, fmean
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, JsonValue, TypeAdapter

from evoprompt.types import Candidate, Trajectory

Floats = NDArray[np.float64]
Rewards = Mapping[str, Mapping[str, Sequence[float]]]
"""By question and candidate."""

_MOST = 8_192  # numbers kept of single questions; the oldest are summed up beyond it
_ROUNDING = 1e-9  # of the greatest reward: differences up to it are none
_SINGULAR = 1e-10  # of the greatest number: below it there is nothing
_NORMAL = NormalDist()

ADMIT = 5.0
"""Odds at which somebody is better. With 2, a third to a half of those who took the place of a
parent were worse than it, where most proposals are; with 30, a third of the gain was lost after
20,000 rollouts (whole runs, simulated).
"""
DROP = 2.0
"""Odds at which somebody is dropped; 10 cost 4 to 5 points of gain in runs of 20,000 rollouts."""
USEFUL = 0.05
"""Size of a lead that is worth having, as a share of the range of rewards. With .2 a lead of the
whole range shows in 10 questions instead of 30, but whole runs gained 2.5 points less (simulated).
"""

Verdict = Literal["better", "drop", ""]
"""Of a comparison that goes on until it is decided; empty while it is not."""


@dataclass(frozen=True, slots=True)
class Lead:
    """By how much one candidate earns more than another on the same questions.

    Attributes:
        value: of the mean reward.
        stderr: its standard error; infinite where nothing compares the two.
    """

    value: float
    stderr: float

    def is_shown(self, error: float) -> bool:
        """Whether the one is shown to be better, with this chance of saying so if it is not.

        The chance is that of one look at one pair: share it out where there are more of either.

        >>> Lead(0.1, 0.04).is_shown(0.05), Lead(0.1, 0.04).is_shown(0.05 / 20)
        (True, False)
        """
        needed = -_NORMAL.inv_cdf(max(error, 1e-300))
        return math.isfinite(self.stderr) and self.value > needed * self.stderr

    def odds(self, useful: float = USEFUL) -> float:
        """How much likelier what was seen is if the one is better than if it is not; above 0.

        Better by some lead, of which those near ``useful`` count (a mixture over half a normal
        distribution of that scale). If the one is no better, the odds ever reach ``n`` with a
        chance of at most ``1 / n``, however often one looks (Ville, 1939; Robbins, 1970): they may
        be looked at after each step, until something is decided. As long as ``stderr`` is right,
        which it is not with a few questions.

        Args:
            useful: a lead that is worth having, in units of the rewards.

        >>> round(Lead(0.1, 0.04).odds(), 1), round(Lead(-0.1, 0.04).odds(), 2)
        (8.2, 0.21)
        """
        if not math.isfinite(self.stderr):
            return 1.0
        ratio = useful / self.stderr
        width = math.sqrt(1 + ratio**2)
        score = ratio / width * (self.value / self.stderr)
        return 2 / width * math.exp(min(score**2 / 2, 600.0)) * _NORMAL.cdf(score)

    def verdict(
        self, delta: float, *, useful: float = USEFUL, error: float | None = None
    ) -> Verdict:
        """Whether the one is better, or may be dropped as it is not better by ``delta``.

        Look again after each step, until it says something.

        Args:
            delta: a lead that is worth waiting for, in units of the rewards, above 0.
            useful: as for :meth:`odds`.
            error: the greatest chance to call one better that is not, over all looks together.
                Without it better is who has odds of :data:`ADMIT`: of those who are exactly as good
                up to a fifth, and .06 where the others are dropped early, of those who are worse
                hardly any. Share ``error`` out where several are compared.

        >>> Lead(0.1, 0.04).verdict(0.05), Lead(0.1, 0.04).verdict(0.05, error=0.01)
        ('better', '')
        >>> Lead(-0.02, 0.03).verdict(0.05)
        'drop'
        """
        if self.odds(useful) >= (ADMIT if error is None else 1 / error):
            return "better"
        return "drop" if Lead(delta - self.value, self.stderr).odds(useful) >= DROP else ""


_NOTHING = Lead(0.0, math.inf)


def state_best(best: str, first: str, leader: str = "", in_training: bool = False) -> str:
    """A sentence that says whether the best is shown to be better than the first instruction.

    Args:
        best: id of the best candidate.
        first: id of the first one.
        leader: id of the one with the highest weight; empty if that is not known.
        in_training: whether the best took the place of its parent in training.

    >>> state_best("c4", "c0")
    'c4 is shown to be better than the first instruction, c0'
    """
    if in_training:
        return (
            f"{best} took the place of its parent in training, at odds of {ADMIT:g} : 1 that it is "
            f"better; that is weaker than being shown better than the first instruction, {first}"
        )
    if best != first:
        return f"{best} is shown to be better than the first instruction, {first}"
    if leader and leader != first:
        return (
            f"{leader} has the highest weight, but is not distinguishable from the first "
            f"instruction, {first}, which stays the best"
        )
    return (
        f"the best is the first instruction, {first}: whatever else was tried is not "
        "distinguishable from the first instruction, or worse"
    )


def rewards_of(trajectories: Sequence[Trajectory]) -> Rewards:
    """Rewards of the scored ones of ``trajectories``."""
    rewards: dict[str, dict[str, list[float]]] = {}
    for one in trajectories:
        if one.reward is not None:
            question = rewards.setdefault(one.question.id, {})
            question.setdefault(one.candidate.id, []).append(one.reward)
    return rewards


@dataclass(slots=True)
class _Asked:
    """What is kept of one question.

    Attributes:
        score: what it said of each candidate, shape (candidates,).
        count: steps at which it had one candidate.
        ease: sum of its rewards at those, minus the step's.
    """

    score: Floats
    count: int = 0
    ease: float = 0.0


@dataclass(slots=True)
class _Saved:
    """Everything, as JSON has it."""

    names: list[str]
    information: list[list[float]]
    evidence: list[float]
    squares: list[list[float]]
    questions: list[tuple[str, list[float], int, float]] = field(default_factory=list)


_SAVED = TypeAdapter(_Saved)


class Evidence:
    """What questions have said of candidates so far, in a number of sums that is bounded.

    Rewards may be of any range. Only differences within a question or a step count.
    """

    def __init__(self) -> None:
        self._names: list[str] = []
        self._information = np.zeros((0, 0))
        self._evidence = np.zeros(0)
        self._squares = np.zeros((0, 0))  # of the questions that are not kept any more
        self._asked: OrderedDict[str, _Asked] = OrderedDict()
        self._leads: dict[str, dict[str, Lead]] = {}  # over a candidate, until more is known

    @property
    def names(self) -> Sequence[str]:
        """Ids of the candidates that something is known of."""
        return tuple(self._names)

    def observe(self, rewards: Rewards) -> None:
        """Adds one step of training, or one verification: rewards that the same policy earned.

        A candidate that answered a question twice counts twice there. Counted once each, runs of
        20,000 rollouts gained .7 ± .3 points less (simulated): who is tried alone answers twice.
        """
        cells = [(question, rewards[question]) for question in sorted(rewards) if rewards[question]]
        if not cells:
            return
        self._add(sorted({name for _, found in cells for name in found} - set(self._names)))
        places = {name: index for index, name in enumerate(self._names)}
        size = len(places)
        greatest = max(abs(one) for _, cell in cells for found in cell.values() for one in found)
        shared = [(question, found) for question, found in cells if len(found) > 1]
        alone = [
            (question, *next(iter(found.items()))) for question, found in cells if len(found) == 1
        ]
        if shared:
            counts, sums = np.zeros((len(shared), size)), np.zeros((len(shared), size))
            for row, (_, cell) in enumerate(shared):
                for name, found in cell.items():
                    counts[row, places[name]] = len(found)
                    sums[row, places[name]] = math.fsum(found)
            all_counts = counts.sum(axis=1, keepdims=True)
            scores = sums - counts * (sums.sum(axis=1, keepdims=True) / all_counts)
            scores[np.abs(scores) <= _ROUNDING * greatest] = 0.0
            self._information += np.diag(counts.sum(axis=0)) - (counts / all_counts).T @ counts
            self._evidence += scores.sum(axis=0)
            self._keep([question for question, _ in shared], scores)
        if len(alone) > 1:
            self._observe_alone([(one, name, fmean(found)) for one, name, found in alone], places)
        self._changed()

    def _observe_alone(
        self, alone: Sequence[tuple[str, str, float]], places: Mapping[str, int]
    ) -> None:
        """Questions that had one candidate each, at the same step.

        How easy a question was at earlier steps is taken out of its reward. Which candidate it
        has does not depend on that, so this makes leads sharper, and no different.
        """
        count = len(alone)
        under = np.zeros((count, len(places)))
        under[np.arange(count), [places[name] for _, name, _ in alone]] = 1.0
        known = [self._asked.get(question) for question, _, _ in alone]
        eases = [one.ease / (one.count + 1) if one else 0.0 for one in known]
        rewards = np.array([mean for _, _, mean in alone])
        level = fmean(rewards - eases)
        rest = rewards - eases - level
        rest[np.abs(rest) <= _ROUNDING * np.abs(rewards).max()] = 0.0
        shares = under.mean(axis=0)
        self._information += np.diag(under.sum(axis=0)) - count * np.outer(shares, shares)
        self._evidence += rest @ under
        surprise = math.sqrt(count / (count - 1)) * rest  # the mean has taken its part of it
        self._keep([question for question, _, _ in alone], surprise[:, None] * (under - shares))
        for question, _, mean in alone:
            if (kept := self._asked.get(question)) is not None:
                kept.count += 1
                kept.ease += mean - level

    def _keep(self, questions: Sequence[str], scores: Floats) -> None:
        """Adds to what is kept of ``questions``; sums up those that were not asked for longest."""
        for question, score in zip(questions, scores, strict=True):
            kept = self._asked.setdefault(question, _Asked(np.zeros(len(self._names))))
            kept.score = kept.score + score
            self._asked.move_to_end(question)
        excess = len(self._asked) - max(_MOST // len(self._names), 1)
        if excess > 0:
            old = np.stack([self._asked.popitem(last=False)[1].score for _ in range(excess)])
            self._squares += old.T @ old

    def lead(self, one: str, other: str) -> Lead:
        """Of candidate ``one`` over ``other``; (0, infinity) where nothing compares them."""
        return self.leads(other).get(one, _NOTHING)

    def compares(self, one: str, other: str) -> bool:
        """Whether there were questions that compare the two, if only by ties."""
        if one not in self._names or other not in self._names:
            return False
        return bool(self._linked(self._names.index(other))[self._names.index(one)])

    def leads(self, other: str) -> Mapping[str, Lead]:
        """Of all candidates over ``other``, without those that nothing compares with it."""
        if other not in self._names:
            return {}
        found = self._leads.get(other)
        if found is None:
            found = self._leads[other] = self._leads_over(self._names.index(other))
        return found

    def _leads_over(self, other: int) -> dict[str, Lead]:
        """Solves for all of them at once, which costs as much as a few pairs."""
        linked = self._linked(other)
        if not linked.any():
            return {}
        block = np.ix_(linked, linked)
        try:
            weights = np.linalg.inv(self._information[block])
        except np.linalg.LinAlgError:  # linked by rounding alone
            return {}
        values = weights @ self._evidence[linked]
        squares = (weights * (self._squares[block] @ weights)).sum(axis=0)
        if self._asked:
            squares = squares + ((self._scores[:, linked] @ weights) ** 2).sum(axis=0)
        names = [name for name, there in zip(self._names, linked, strict=True) if there]
        return {
            name: Lead(float(value), math.sqrt(square))
            for name, value, square in zip(names, values, squares, strict=True)
            if square > 0  # else all rewards were the same
        }

    def _linked(self, start: int) -> NDArray[np.bool_]:
        """Which of the others are compared with the one at ``start``, directly or by others."""
        links = np.abs(self._information) > _SINGULAR * self._information.diagonal().max()
        reached: NDArray[np.bool_] = links[start].copy()
        while True:
            wider = reached | links[reached].any(axis=0)
            if (wider == reached).all():
                break
            reached = wider
        reached[start] = False
        return reached

    def forget(self, ids: Collection[str]) -> None:
        """Drops candidates that nobody will be compared with; what they say of others stays."""
        gone = np.array([name in ids for name in self._names], dtype=bool)
        if not gone.any():
            return
        own = np.linalg.pinv(self._information[np.ix_(gone, gone)], _SINGULAR, hermitian=True)
        rest = np.eye(len(gone))[~gone]
        rest[:, gone] = -self._information[np.ix_(~gone, gone)] @ own
        information = rest @ self._information @ rest.T
        self._information = (information + information.T) / 2
        self._evidence = rest @ self._evidence
        self._squares = rest @ self._squares @ rest.T
        if self._asked:
            scores = self._scores @ rest.T
            for asked, score in zip(self._asked.values(), scores, strict=True):
                asked.score = score
        self._names = [name for name, drop in zip(self._names, gone, strict=True) if not drop]
        self._changed()

    def _add(self, names: Sequence[str]) -> None:
        """Makes room for candidates of whom nothing is known."""
        if not names:
            return
        more = len(names)
        self._names += names
        self._information = np.pad(self._information, (0, more))
        self._evidence = np.pad(self._evidence, (0, more))
        self._squares = np.pad(self._squares, (0, more))
        for asked in self._asked.values():
            asked.score = np.concatenate((asked.score, np.zeros(more)))

    @cached_property
    def _scores(self) -> Floats:
        """What the questions that are kept said, until more is known."""
        return np.stack([one.score for one in self._asked.values()])

    def _changed(self) -> None:
        self._leads.clear()
        self.__dict__.pop("_scores", None)

    def state_dict(self) -> dict[str, JsonValue]:
        """Everything that is known, as JSON values."""
        saved = _Saved(
            self._names,
            self._information.tolist(),
            self._evidence.tolist(),
            self._squares.tolist(),
            [
                (question, one.score.tolist(), one.count, one.ease)
                for question, one in self._asked.items()
            ],
        )
        found: dict[str, JsonValue] = _SAVED.dump_python(saved, mode="json")
        return found

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        saved = _SAVED.validate_python(dict(state))
        size = len(saved.names)
        self._names = saved.names
        self._information = np.array(saved.information).reshape(size, size)
        self._evidence = np.array(saved.evidence).reshape(size)
        self._squares = np.array(saved.squares).reshape(size, size)
        self._asked = OrderedDict(
            (question, _Asked(np.array(score).reshape(size), count, ease))
            for question, score, count, ease in saved.questions
        )
        self._changed()


ERROR = 0.05
"""Chance that somebody is called the best of a training who is no better than the first one."""


class _SavedBest(BaseModel):
    """Who is the best, as JSON has it."""

    evidence: dict[str, JsonValue]
    champions: list[Candidate]
    looks: int
    in_training: bool
    ways: dict[str, float]
    announced: str


class Best:
    """The champion: the first candidate, until another one is shown to be better.

    Pruning goes by weights, and a weight is no proof: the champion may be dead. Then it answers the
    questions of each verification as well (``rollouts.py``), so that it is compared with those who
    live under the policy of that moment. What was seen before counts no more: it was of another
    policy, and the luck that made somebody a parent is in it.

    After each verification is looked whether somebody was shown to be better than the champion
    before it, and takes its place; between them the same question is asked, without a change. Look
    ``k`` has ``1 / (k (k + 1))`` of :data:`ERROR`, so that all of them have it together. One half
    of that is shared by those who lived before the verification, the other by all who were tried
    in it, admitted or not (Bonferroni). Where an evolution compared nobody with the champion,
    shares are divided by all who might have been chosen in it, and evidence goes on.

    Of several who are shown to be better, it is the oldest, then the one with the greatest lead,
    unless a younger one is shown to be better than that.

    Where children are verified inside training the champion is whoever last took the place of its
    parent. The odds at which it does (:data:`ADMIT`) are those of one child; :data:`ERROR` is not
    kept over all of them.

    Attributes:
        announced: id of the candidate that an event last said to be the best.
    """

    def __init__(self) -> None:
        self.evidence = Evidence()
        self._in_training = False  # whether the champion took the place of its parent there
        self._champions: list[Candidate] = []  # the first one, and the one of now
        self._looks = 0
        self._ways: dict[str, float] = {}  # logarithm of one over the share, by candidate
        self.announced = ""

    @staticmethod
    def look_every(living: int) -> int:
        """Steps between two looks for the log: the best of very many costs more than a step.

        >>> Best.look_every(7), Best.look_every(1000)
        (1, 100)
        """
        return max(living // 100, 1) ** 2

    def observe(self, living: Sequence[Candidate], trajectories: Sequence[Trajectory]) -> None:
        """Takes in a step of training."""
        self._begin(living)
        self.evidence.observe(rewards_of(trajectories))

    def of(self, living: Sequence[Candidate]) -> Candidate:
        """The best of ``living``, oldest first, and the champion."""
        found = champion = self.champion(living)
        if all(one.id == champion.id for one in living):
            return champion
        error = ERROR / ((self._looks + 1) * (self._looks + 2))
        leads = self.evidence.leads(champion.id)
        known = [one for one in living if one.id in leads]
        shown = [one for one in known if leads[one.id].is_shown(error / self._ways_to(one))]
        shown.sort(key=lambda one: (one.born, -leads[one.id].value, len(one.text)))
        for one in shown:
            lead = self.evidence.lead(one.id, found.id)
            if found.id == champion.id or lead.is_shown(error / self._ways_to(one)):
                found = one
        return found

    def succeed(self, child: Candidate, living: Sequence[Candidate]) -> None:
        """Makes ``child`` the champion, which is better than its parent, and one of ``living``."""
        self._change(child, living)
        self._in_training = True

    def took_place(self, best: str) -> bool:
        """Whether ``best`` is the champion, and took the place of its parent in training."""
        return self._in_training and best == self._champions[1].id

    def evolve(
        self,
        before: Collection[str],
        living: Sequence[Candidate],
        answers: Sequence[Trajectory],
    ) -> None:
        """Looks who is the champion after an evolution, then takes in its verification.

        Args:
            before: ids of those who were alive before it.
            living: those who are now, oldest first.
            answers: trajectories of the verification, also of those who were refused.
        """
        champion = self._begin(living)
        older = [one for one in living if one.id in before]
        others = [one for one in older if one.id != champion.id]
        compared = self.evidence.leads(champion.id)
        if any(one.id in compared for one in others):
            found = self.of(older)
            self._looks += 1
            if found.id != champion.id:
                champion = found
                self._change(champion, older)
        asked = {one.candidate.id for one in answers}
        tried = {one for one in asked if one not in before and one != champion.id}
        new = [one for one in living if one.id not in before]
        if champion.id in asked:
            self.evidence = Evidence()
            self._ways = {one.id: math.log(2 * len(older)) for one in older}
            self._ways.update((one.id, math.log(2 * max(len(tried), 1))) for one in new)
        elif new:
            ways = self._most_ways + math.log(len(tried | {one.id for one in living}))
            self._ways.update((one.id, ways) for one in new)
        known = {champion.id, *(one.id for one in living)}
        self.evidence.forget(set(self.evidence.names) - known)
        self.evidence.observe(rewards_of([one for one in answers if one.candidate.id in known]))

    def forget(self, ids: Collection[str]) -> None:
        """Drops those who are no longer alive, but for the champion."""
        gone = set(ids) - {one.id for one in self._champions[1:]}
        self.evidence.forget(gone)
        for name in gone:
            self._ways.pop(name, None)

    def champion(self, living: Sequence[Candidate]) -> Candidate:
        """The one that all are compared with, dead or alive; at the start the first of them."""
        return self._champions[1] if self._champions else living[0]

    def first(self, living: Sequence[Candidate]) -> Candidate:
        """The first candidate, dead or alive."""
        return self._champions[0] if self._champions else living[0]

    def _begin(self, living: Sequence[Candidate]) -> Candidate:
        """The champion, whom all are compared with from now on."""
        if not self._champions:
            self._champions = [living[0], living[0]]
            self._ways = {one.id: math.log(max(len(living) - 1, 1)) for one in living}
        return self._champions[1]

    def _change(self, champion: Candidate, living: Sequence[Candidate]) -> None:
        self._champions[1] = champion
        self._ways = {one.id: math.log(len(living)) for one in living}
        self._in_training = False

    @property
    def _most_ways(self) -> float:
        return max(self._ways.values(), default=0.0)

    def _ways_to(self, candidate: Candidate) -> float:
        return math.exp(min(self._ways.get(candidate.id, self._most_ways), 600.0))

    def state_dict(self) -> dict[str, JsonValue]:
        """Everything that is known, as JSON values."""
        saved = _SavedBest(
            evidence=self.evidence.state_dict(),
            champions=self._champions,
            looks=self._looks,
            in_training=self._in_training,
            ways=self._ways,
            announced=self.announced,
        )
        return saved.model_dump(mode="json")

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        saved = _SavedBest.model_validate(dict(state))
        self.evidence.load_state_dict(saved.evidence)
        self._champions, self._looks, self._ways = saved.champions, saved.looks, saved.ways
        self._in_training, self.announced = saved.in_training, saved.announced

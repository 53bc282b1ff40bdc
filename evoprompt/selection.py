"""The living candidates by importance weight: who is used, who stays and who breeds."""

from __future__ import annotations

import math
import random
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from pydantic import BaseModel, JsonValue

from evoprompt.challengers import Challengers
from evoprompt.comparison import Best
from evoprompt.config import EngineConfig
from evoprompt.eventlog import EventLog
from evoprompt.events import Best as BestEvent
from evoprompt.events import Pruned
from evoprompt.plugins import naming
from evoprompt.roles import Attributor, Population, Selector
from evoprompt.selectors import select_distinct, sound_choice
from evoprompt.types import (
    Candidate,
    CandidateStats,
    SentenceWorth,
    Trajectory,
    VerificationResult,
)

_MOST_HISTORY = 256  # candidates whose last weight a proposer can look back on


class _Saved(BaseModel):
    """What a resumed run has to know."""

    history: list[tuple[Candidate, float, int]]
    pinned: list[str]
    shown: dict[str, JsonValue]
    challengers: dict[str, JsonValue]


class Selection:
    """Applies the three selectors to the population's weights, and remembers past ones.

    Args:
        config: the engine's numbers.
        population: who is alive.
        attributor: what their weights are.
        sampler: draws the candidate of each question.
        survivor: keeps candidates when pruning.
        parent_selector: picks whom to improve.
        rng: the engine's generator.
        log: takes the events.

    Attributes:
        pinned: ids of candidates that stay alive whatever they earn.
        shown: who is shown to be better than whom.
        challengers: who is tried in training.
    """

    def __init__(
        self,
        config: EngineConfig,
        population: Population,
        attributor: Attributor,
        sampler: Selector,
        survivor: Selector,
        parent_selector: Selector,
        rng: random.Random,
        log: EventLog,
    ) -> None:
        self.config = config
        self.population = population
        self.attributor = attributor
        self.sampler = sampler
        self.survivor = survivor
        self.parent_selector = parent_selector
        self.rng = rng
        self.log = log
        self.pinned: set[str] = set()
        self.shown = Best()
        self.challengers = Challengers(config, self.shown)
        self._history: OrderedDict[str, CandidateStats] = OrderedDict()

    @property
    def living(self) -> Sequence[Candidate]:
        """The candidates in use, oldest first, as the population says."""
        with naming("population", self.population):
            return self.population.alive

    def add(self, candidate: Candidate) -> None:
        """Lets ``candidate`` live."""
        with naming("population", self.population):
            self.population.add(candidate)

    @property
    def history(self) -> list[CandidateStats]:
        """Candidates measured so far with their last weight, the longest unseen first."""
        return list(self._history.values())

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Credits the scored ones of ``trajectories``, all told at engine step ``step``."""
        with naming("attributor", self.attributor):
            self.attributor.observe(step, trajectories)
        self.shown.observe(self.living, trajectories)
        self.challengers.observe(trajectories)

    def candidate_stats(self) -> list[CandidateStats]:
        """The living candidates with their weights, oldest first.

        Under ``unmeasured="explore"`` a candidate with fewer than ``min_groups`` groups has the
        mean weight of the measured ones: unknown is not bad.
        """
        found = self._known()
        lowest = self.config.reward_range[0]
        if lowest and self.config.unmeasured == "zero":  # the paper's 0 is the lowest reward
            found = [s if s.groups else replace(s, weight=lowest) for s in found]
        counts = self._counts(found)
        measured = [s.weight for s, known in zip(found, counts, strict=True) if known]
        if not measured or len(measured) == len(found):
            return found
        average = fmean(measured)
        return [
            stats if known else replace(stats, weight=average)
            for stats, known in zip(found, counts, strict=True)
        ]

    def sentences(self) -> Sequence[SentenceWorth]:
        """What each sentence is worth, the clearest first."""
        with naming("attributor", self.attributor):
            return self.attributor.sentences()

    @property
    def best(self) -> Candidate:
        """What took its parent's place or is shown to be better than the first, else that."""
        return self.shown.of(self.living)

    @property
    def used(self) -> set[str]:
        """Ids of those whose rollouts count: who lives and who challenges."""
        return {one.id for one in (*self.living, *self.challengers.candidates)}

    @property
    def parent(self) -> Candidate:
        """Whom challengers are compared with: their parent, or the leader if that has died."""
        alive = {one.id: one for one in self.living}
        return alive.get(self.challengers.parent) or self.leader

    @property
    def leader(self) -> Candidate:
        """``argmax_j w_j`` over the living; measured before unmeasured, the oldest on a tie."""
        found = self.candidate_stats()
        ranked = zip(self._counts(found), found, strict=True)
        return max(ranked, key=lambda pair: (pair[0], pair[1].weight))[1].candidate

    def chances(self, candidate_stats: Sequence[CandidateStats]) -> Sequence[float]:
        """Selection probability of each candidate; empty if the sampler does not know it."""
        with naming("sampler", self.sampler):
            return self.sampler.probabilities(candidate_stats)

    def draw(self, candidate_stats: Sequence[CandidateStats], questions: int) -> list[Candidate]:
        """Some candidates per question, different ones as far as they go.

        Under ``unmeasured="explore"`` the first questions go to those that are not measured yet.
        While there are challengers each question has some of them and their parent.
        """
        each = self.challengers.each
        if self.challengers.candidates:
            parent = self.parent
            blocks = [self._draw_challenge(candidate_stats, parent) for _ in range(questions)]
            return [one for block in blocks for one in block]
        first = self._first(candidate_stats, questions * each)
        if each == 1:
            rest = questions - len(first)
            if rest:
                with naming("sampler", self.sampler):
                    first += sound_choice(self.sampler, candidate_stats, rest, self.rng)
            return [stats.candidate for stats in first]
        drawn: list[Candidate] = []
        for _ in range(questions):
            block = {stats.candidate.id: stats for stats in first[:each]}
            del first[:each]
            others = [s for s in candidate_stats if s.candidate.id not in block]
            if others and len(block) < each:
                found = self._distinct("sampler", self.sampler, others, each - len(block))
                block |= {stats.candidate.id: stats for stats in found}
            different = list(block.values())
            drawn += [different[index % len(different)].candidate for index in range(each)]
        return drawn

    def _draw_challenge(
        self, candidate_stats: Sequence[CandidateStats], parent: Candidate
    ) -> list[Candidate]:
        """The candidates of one question while there are challengers."""
        drawn = self.challengers.draw()
        others = [stats for stats in candidate_stats if stats.candidate.id != parent.id]
        more = self.challengers.each - len(drawn) - 1
        if others and more:
            found = self._distinct("sampler", self.sampler, others, more)
            drawn += [stats.candidate for stats in found]
        return drawn + [parent] * (self.challengers.each - len(drawn))

    def _first(self, candidate_stats: Sequence[CandidateStats], most: int) -> list[CandidateStats]:
        """Up to ``most`` draws of the unmeasured, who lack most groups first."""
        least = 0 if self.config.unmeasured == "zero" else self.config.min_groups
        needs = [(stats, need) for stats in candidate_stats if (need := least - stats.groups) > 0]
        found: list[CandidateStats] = []
        for level in range(max((need for _, need in needs), default=0), 0, -1):
            behind = [stats for stats, need in needs if need >= level]
            found += self.rng.sample(behind, min(len(behind), most - len(found)))
            if len(found) == most:
                break
        return found

    def parents(self, candidate_stats: Sequence[CandidateStats]) -> list[CandidateStats]:
        """The ``N_parent`` candidates to improve, best first; measured ones if there are enough."""
        count = self.config.parents
        unmeasured = self.unmeasured(candidate_stats)
        measured = [s for s in candidate_stats if s.candidate.id not in unmeasured]
        known = measured if len(measured) >= count else candidate_stats
        return self._distinct("parent_selector", self.parent_selector, known, count)

    def unmeasured(self, candidate_stats: Sequence[CandidateStats]) -> set[str]:
        """Ids of those that are not measured well enough to be dropped."""
        counts = zip(candidate_stats, self._counts(candidate_stats), strict=True)
        return {stats.candidate.id for stats, known in counts if not known}

    def kept(
        self,
        parents: Sequence[CandidateStats],
        living: Sequence[CandidateStats],
        everybody: bool,
    ) -> frozenset[str]:
        """Ids of those of ``living`` that stay beside the offspring of ``parents``."""
        alive = {stats.candidate.id for stats in living}
        if everybody:
            return frozenset(alive)
        breeding = {parent.candidate.id for parent in parents}
        return frozenset(self.unmeasured(living) | breeding | (self.pinned & alive))

    def halve(self, step: int) -> tuple[str, ...]:
        """Drops the worse half of the measured (successive halving); its ids, oldest first.

        Never fewer than ``N_parent`` stay, and never none of the measured.
        """
        candidate_stats = self.candidate_stats()
        unmeasured = self.unmeasured(candidate_stats)
        measured = [s for s in candidate_stats if s.candidate.id not in unmeasured]
        keep = max(math.ceil(len(measured) / 2), self.config.parents - len(unmeasured), 1)
        if len(measured) <= keep:
            return ()
        self.remember(candidate_stats)
        survivors = self._distinct("survivor", self.survivor, measured, keep)
        return self.keep_only(step, {*unmeasured, *(s.candidate.id for s in survivors)})

    def keep_only(self, step: int, kept: Collection[str]) -> tuple[str, ...]:
        """Drops all but ``kept`` and the pinned, at ``step``; returns their ids, oldest first."""
        stay = {*kept, *self.pinned}
        dropped = tuple(one.id for one in self.living if one.id not in stay)
        if dropped:
            with naming("population", self.population):
                self.population.remove(dropped)
            self._forget(dropped)
            self.log.append(Pruned(step, dropped, tuple(one.id for one in self.living)))
        return dropped

    def _forget(self, ids: Collection[str]) -> None:
        """Drops what is known of those who are no longer used."""
        with naming("attributor", self.attributor):
            self.attributor.forget(ids)
        self.shown.forget(ids)

    def announce_best(self, step: int) -> None:
        """Notes in the log who is the best from now on, once there is a choice."""
        best = self.best.id
        choice = len(self.living) > 1 or self.challengers.parent
        if choice and best != self.shown.announced:
            self.shown.announced = best
            self.log.append(BestEvent(step, best, self.shown.took_place(best)))

    def admit(
        self,
        step: int,
        admitted: Sequence[Candidate],
        answers: Sequence[Trajectory],
    ) -> None:
        """Lets ``admitted`` live, and treats the weights as ``config.reset`` says.

        Args:
            step: the engine step.
            admitted: new candidates.
            answers: trajectories of the verification, of old candidates too.
        """
        priors = self._priors()
        for candidate in admitted:
            self.add(candidate)
        if self.config.reset == "zero":
            with naming("attributor", self.attributor):
                self.attributor.reset({})
            return
        living = {candidate.id for candidate in self.living}
        counted = [one for one in answers if one.candidate.id in living]
        verified: dict[str, list[float]] = {}
        for one in counted:
            if one.reward is not None:
                verified.setdefault(one.candidate.id, []).append(one.reward)
        with naming("attributor", self.attributor):
            self.attributor.observe_verification(step, counted, priors | verified)

    def begin_challenge(
        self, step: int, parent: Candidate, kept: Collection[str], children: Sequence[Candidate]
    ) -> None:
        """Has ``children`` challenge ``parent``; besides those, only ``kept`` stay."""
        self.keep_only(step, kept)
        self.challengers.begin(parent, children)

    def decide_challenge(self, step: int) -> list[VerificationResult]:
        """Lets who is better than their parent take its place, and drops who is not.

        Returns:
            What was found of those who are decided.
        """
        if not self.challengers.candidates:
            return []
        ended: list[VerificationResult] = []
        parent = self.parent
        while winner := self.challengers.succeed(parent):
            self.add(winner.candidate)
            self.shown.succeed(winner.candidate, self.living)
            if self.config.reset == "zero":
                with naming("attributor", self.attributor):
                    self.attributor.reset({})
            self.keep_only(step, {one.id for one in self.living} - {parent.id})
            ended.append(winner)
            parent = winner.candidate
        dropped = self.challengers.drop(parent)
        self._forget([one.candidate.id for one in dropped])
        return ended + dropped

    def _priors(self) -> dict[str, Sequence[float]]:
        """Rewards that leave to the living, without a verification, the weights they have."""
        return {
            s.candidate.id: [s.weight] * min(s.groups, self.config.min_groups)
            for s in self._known()
            if s.groups
        }

    def remember(self, candidate_stats: Sequence[CandidateStats]) -> None:
        """Adds the measured ones of ``candidate_stats`` to the history."""
        for stats, known in zip(candidate_stats, self._counts(candidate_stats), strict=True):
            if stats.groups and known:
                candidate = stats.candidate
                self._history[candidate.id] = CandidateStats(
                    candidate, stats.weight, groups=stats.groups
                )
                self._history.move_to_end(candidate.id)
        while len(self._history) > _MOST_HISTORY:
            self._history.popitem(last=False)

    def _known(self) -> list[CandidateStats]:
        """What the attributor knows about the living, oldest first."""
        living = self.living
        with naming("attributor", self.attributor):
            found = [self.attributor.stats(one) for one in living]
            for one in found:
                if not math.isfinite(one.weight):
                    name, weight = one.candidate.id, one.weight
                    raise ValueError(f"the weight of {name} is {weight}; required: a finite one")
        return found

    def _distinct(
        self, role: str, selector: Selector, candidate_stats: Sequence[CandidateStats], k: int
    ) -> list[CandidateStats]:
        with naming(role, selector):
            return select_distinct(selector, candidate_stats, k, self.rng)

    def _counts(self, candidate_stats: Sequence[CandidateStats]) -> list[bool]:
        """Whether each is measured well enough to count."""
        least = 0 if self.config.unmeasured == "zero" else self.config.min_groups
        return [stats.groups >= least for stats in candidate_stats]

    def state_dict(self) -> dict[str, JsonValue]:
        """Past weights, who is pinned and who is shown to be better, as JSON values."""
        past = [(s.candidate, s.weight, s.groups) for s in self._history.values()]
        saved = _Saved(
            history=past,
            pinned=sorted(self.pinned),
            shown=self.shown.state_dict(),
            challengers=self.challengers.state_dict(),
        )
        return saved.model_dump(mode="json")

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        saved = _Saved.model_validate(dict(state))
        self.pinned = set(saved.pinned)
        self.shown.load_state_dict(saved.shown)
        self.challengers.load_state_dict(saved.challengers)
        self._history = OrderedDict(
            (candidate.id, CandidateStats(candidate, weight, groups=groups))
            for candidate, weight, groups in saved.history
        )

"""Selection among the members of the population: draws, parents, pruning and the incumbent."""

from __future__ import annotations

import math
import random
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from pydantic import BaseModel, JsonValue, NonNegativeInt

from evoprompt.config import EngineConfig
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import IncumbentChanged, Pruned
from evoprompt.roles import Attributor, Population, Selector
from evoprompt.selectors import select_distinct, sound_choice
from evoprompt.support.calls import naming
from evoprompt.support.leads import LEAD_ODDS, SHOWN_ODDS, TRIAL_ODDS, USEFUL, Lead, SentenceValue
from evoprompt.types import Candidate, CandidateStats, Trajectory

MAX_HISTORY = 256
"""Candidates whose last weight a proposer can look back on."""
BLOCK = 5
"""Questions that share places for trials where each has one candidate: as many as a usual group has
rollouts, so that ``share`` means the same on all hosts."""
_ALONE = 2 / 3
"""Part of the share for a candidate that is alone on trial: two of five rollouts, and not three."""


class _Saved(BaseModel):
    """State of a selection, as JSON has it."""

    history: list[tuple[Candidate, float, int, int | None, float | None]]
    pinned: list[str]
    first: Candidate | None
    incumbent: Candidate | None
    announced: str
    is_announced_shown: bool = False  # not in states that were saved before it was logged
    turn: NonNegativeInt
    leftover: list[Candidate]
    rewards: tuple[float, float]


class Selection:
    """Members of the population, drawn and pruned by the three selectors, with the incumbent.

    Args:
        config: the engine's numbers.
        population: its members.
        attributor: estimates weights and leads.
        sampler: draws the candidate of each question.
        survivor: keeps candidates when pruning.
        parent_selector: picks the candidates to improve.
        rng: the engine's generator.
        log: takes the events.

    Attributes:
        pinned: ids of members that are never pruned.
        candidates_per_question: candidates that each question is asked under.
        min_groups: groups below which a member is drawn before the other members.
        rewards: the least and the greatest reward, as configured or seen.
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
        self.rewards = config.reward_range
        number = config.candidates_per_question
        self.candidates_per_question = 1 if number == "auto" else number
        self.min_groups = self._least
        self._first: Candidate | None = None
        self._incumbent: Candidate | None = None
        self._announced = "", False
        self._turn = 0
        self._leftover: list[Candidate] = []
        self._history: OrderedDict[str, CandidateStats] = OrderedDict()

    # --------------------------------------------------------------------------------- members

    @property
    def members(self) -> Sequence[Candidate]:
        """Return the members of the population, oldest first."""
        with naming("population", self.population, self.log.report_wait):
            return self.population.members

    def add(self, candidate: Candidate) -> None:
        """Add ``candidate`` to the population."""
        with naming("population", self.population, self.log.report_wait):
            self.population.add(candidate)
        self._first = self._first or candidate
        self._incumbent = self._incumbent or candidate

    @property
    def history(self) -> list[CandidateStats]:
        """Return the candidates measured so far with their last weight, the oldest look first."""
        return list(self._history.values())

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Record the rewards of the trajectories of engine step ``step``."""
        rewards = [
            trajectory.reward for trajectory in trajectories if trajectory.reward is not None
        ]
        self.rewards = min([self.rewards[0], *rewards]), max([self.rewards[1], *rewards])
        with naming("attributor", self.attributor, self.log.report_wait):
            self.attributor.observe(step, trajectories)

    def candidate_stats(self) -> list[CandidateStats]:
        """Return the members with their weights, oldest first.

        Under ``unmeasured="explore"`` a member with fewer than ``min_groups`` groups has the mean
        weight of the measured ones: unknown is not bad.
        """
        candidate_stats = self._member_stats()
        lowest = self.config.reward_range[0]
        if lowest and self.config.unmeasured == "zero":  # the paper's 0 is the lowest reward
            candidate_stats = [
                s if s.groups else replace(s, weight=lowest) for s in candidate_stats
            ]
        is_measured = self._are_measured(candidate_stats)
        measured = [
            s.weight for s, is_one in zip(candidate_stats, is_measured, strict=True) if is_one
        ]
        if not measured or len(measured) == len(candidate_stats):
            return candidate_stats
        average = fmean(measured)
        return [
            stats if is_one else replace(stats, weight=average)
            for stats, is_one in zip(candidate_stats, is_measured, strict=True)
        ]

    def sentences(self) -> Sequence[SentenceValue]:
        """Return what each sentence adds, the clearest first."""
        with naming("attributor", self.attributor, self.log.report_wait):
            return self.attributor.sentences()

    @property
    def leader(self) -> Candidate:
        """Return the member of the highest weight; measured before unmeasured, then the oldest."""
        stats = self.candidate_stats()
        ranked = zip(self._are_measured(stats), stats, strict=True)
        return max(ranked, key=lambda pair: (pair[0], pair[1].weight))[1].candidate

    # ------------------------------------------------------------------------------- incumbent

    @property
    def first(self) -> Candidate:
        """Return the first seed, pruned or not."""
        assert self._first is not None
        return self._first

    @property
    def incumbent(self) -> Candidate:
        """Return the member that is expected to be the best.

        A member takes its place at odds of 2 : 1. At higher odds, short trainings ended with the
        first instruction beside better members (docs/notes/2026-11-29-best.md). An incumbent that
        is no longer a member gives way to the member of the highest weight.
        """
        assert self._incumbent is not None
        if self._incumbent.id not in self.population:
            self._incumbent = self.leader
        return self._incumbent

    def lead(self, candidate: Candidate, other: Candidate) -> Lead:
        """Return the lead of ``candidate`` over ``other``, as the attributor estimates it."""
        with naming("attributor", self.attributor, self.log.report_wait):
            return self.attributor.lead(candidate, other)

    def is_better(self, candidate: Candidate, other: Candidate, odds: float) -> bool:
        """Return whether ``candidate`` is better than ``other`` at ``odds`` or more."""
        low, high = self.rewards
        return self.lead(candidate, other).odds(USEFUL * (high - low)) >= odds

    @property
    def is_best_shown(self) -> bool:
        """Return whether the incumbent is shown to be better than the first seed."""
        return self.is_better(self.incumbent, self.first, SHOWN_ODDS)

    def update_incumbent(self) -> None:
        """Let the member with the greatest lead take over, of those that lead at 2 : 1."""
        incumbent = self.incumbent
        better = [
            member
            for member in self.members
            if member.id != incumbent.id and self.is_better(member, incumbent, TRIAL_ODDS)
        ]
        if better:
            self._incumbent = max(better, key=lambda member: self.lead(member, incumbent).value)

    def log_incumbent(self, step: int) -> None:
        """Log the incumbent and whether it is shown to be better, where either has changed.

        Before there is a choice, nothing is logged.
        """
        if not self._announced[0] and len(self.members) < 2:
            return
        announced = self.incumbent.id, self.is_best_shown
        if announced != self._announced:
            self._announced = announced
            self.log.append(IncumbentChanged(step, *announced))

    # ------------------------------------------------------------------------------------ draws

    def chances(self, candidate_stats: Sequence[CandidateStats]) -> Sequence[float]:
        """Return the selection probability of each member; empty if the sampler has none."""
        with naming("sampler", self.sampler, self.log.report_wait):
            return self.sampler.probabilities(candidate_stats)

    def draw(
        self,
        candidate_stats: Sequence[CandidateStats],
        questions: int,
        trials: Sequence[Candidate] = (),
        share: float = 0.0,
    ) -> list[Candidate]:
        """Return ``candidates_per_question`` candidates for each question, different if possible.

        Under ``unmeasured="explore"`` the first questions go to members that are not measured yet.
        While there are candidates on trial, these take turns for their share of each question's
        places, one place is the incumbent's, and the sampler draws the rest.

        Args:
            candidate_stats: the members, with their weights.
            questions: number of questions.
            trials: candidates on trial.
            share: largest share of the places for them.
        """
        per_question = self.candidates_per_question
        if trials:
            size = per_question if per_question > 1 else BLOCK
            # Places of the last block that no question took are taken first.
            used = {stats.candidate.id for stats in candidate_stats} | {one.id for one in trials}
            drawn_places = [one for one in self._leftover if one.id in used]
            while len(drawn_places) < questions * per_question:
                drawn_candidates = self._draw_with_trials(candidate_stats, trials, share, size)
                # A batch in a fixed order must not give each candidate its own questions.
                if per_question == 1:
                    self.rng.shuffle(drawn_candidates)
                drawn_places += drawn_candidates
            self._leftover = drawn_places[questions * per_question :]
            return drawn_places[: questions * per_question]
        self._leftover = []
        first = self._draw_unmeasured(candidate_stats, questions * per_question)
        if per_question == 1:
            if remaining := questions - len(first):
                with naming("sampler", self.sampler, self.log.report_wait):
                    first += sound_choice(self.sampler, candidate_stats, remaining, self.rng)
            return [stats.candidate for stats in first]
        candidates: list[Candidate] = []
        for _ in range(questions):
            block = {stats.candidate.id: stats for stats in first[:per_question]}
            del first[:per_question]
            other_stats = [stats for stats in candidate_stats if stats.candidate.id not in block]
            if other_stats and len(block) < per_question:
                drawn_stats = self._distinct(
                    "sampler", self.sampler, other_stats, per_question - len(block)
                )
                block |= {stats.candidate.id: stats for stats in drawn_stats}
            distinct_stats = list(block.values())
            candidates += [
                distinct_stats[index % len(distinct_stats)].candidate
                for index in range(per_question)
            ]
        return candidates

    def _draw_with_trials(
        self,
        candidate_stats: Sequence[CandidateStats],
        trials: Sequence[Candidate],
        share: float,
        size: int,
    ) -> list[Candidate]:
        """Return the candidates of ``size`` places, some of them on trial."""
        share = share if len(trials) > 1 else share * _ALONE
        trial_places = min(max(int(size * share + 1e-9), 1), size - 1)
        candidates = self.next_trials(trials, trial_places)
        candidates.append(self.incumbent)
        if remaining := size - trial_places - 1:
            with naming("sampler", self.sampler, self.log.report_wait):
                drawn_stats = sound_choice(self.sampler, candidate_stats, remaining, self.rng)
            candidates += [stats.candidate for stats in drawn_stats]
        return candidates

    def next_trials(self, trials: Sequence[Candidate], count: int) -> list[Candidate]:
        """Return the next ``count`` candidates on trial, which take turns."""
        candidates = [trials[(self._turn + offset) % len(trials)] for offset in range(count)]
        self._turn = (self._turn + count) % len(trials)
        return candidates

    def _draw_unmeasured(
        self, candidate_stats: Sequence[CandidateStats], max_draws: int
    ) -> list[CandidateStats]:
        """Return up to ``max_draws`` draws of the unmeasured, those that lack most groups first."""
        needs = [
            (stats, need)
            for stats in candidate_stats
            if (need := self.min_groups - stats.groups) > 0
        ]
        drawn_stats: list[CandidateStats] = []
        for level in range(max((need for _, need in needs), default=0), 0, -1):
            behind = [stats for stats, need in needs if need >= level]
            drawn_stats += self.rng.sample(behind, min(len(behind), max_draws - len(drawn_stats)))
            if len(drawn_stats) == max_draws:
                break
        return drawn_stats

    # ---------------------------------------------------------------------- parents and pruning

    @property
    def is_compared(self) -> bool:
        """Return whether every member has enough groups for a comparison."""
        return all(stats.groups >= self.min_groups for stats in self._member_stats())

    def parents(self, candidate_stats: Sequence[CandidateStats]) -> list[CandidateStats]:
        """Return the ``N_parent`` members to improve, best first; measured if there are enough."""
        count = self.config.parents
        unmeasured = self.unmeasured(candidate_stats)
        measured = [s for s in candidate_stats if s.candidate.id not in unmeasured]
        eligible = measured if len(measured) >= count else candidate_stats
        return self._distinct("parent_selector", self.parent_selector, eligible, count)

    def unmeasured(self, candidate_stats: Sequence[CandidateStats]) -> set[str]:
        """Return the ids of those that are not measured well enough to be pruned."""
        is_measured = zip(candidate_stats, self._are_measured(candidate_stats), strict=True)
        return {stats.candidate.id for stats, is_one in is_measured if not is_one}

    def protected(self, candidate_stats: Sequence[CandidateStats]) -> set[str]:
        """Return the ids of members that make no room: incumbent, parents, pinned, unmeasured."""
        members = {stats.candidate.id for stats in candidate_stats}
        parents = {stats.candidate.id for stats in self.parents(candidate_stats)}
        return (
            self.unmeasured(candidate_stats)
            | parents
            | {self.incumbent.id}
            | (self.pinned & members)
        )

    def halve(self, step: int) -> tuple[str, ...]:
        """Prune the worse half of the measured members (successive halving); return their ids.

        At least ``N_parent`` members stay, and at least one measured member. The incumbent stays if
        it is better than each survivor at odds of 5 : 1; otherwise it is pruned like any other
        member.
        """
        candidate_stats = self.candidate_stats()
        unmeasured = self.unmeasured(candidate_stats)
        measured = [s for s in candidate_stats if s.candidate.id not in unmeasured]
        keep = max(math.ceil(len(measured) / 2), self.config.parents - len(unmeasured), 1)
        if len(measured) <= keep:
            return ()
        self.remember(step, candidate_stats)
        survivors = self._distinct("survivor", self.survivor, measured, keep)
        kept_ids = {*unmeasured, *(stats.candidate.id for stats in survivors)}
        incumbent = self.incumbent
        if all(self.is_better(incumbent, s.candidate, LEAD_ODDS) for s in survivors):
            kept_ids.add(incumbent.id)
        return self.keep_only(step, kept_ids)

    def make_room(self, step: int, free_places: int = 0) -> None:
        """Prune members of the lowest weight until there are ``free_places``."""
        candidate_stats = self.candidate_stats()
        excess = len(candidate_stats) + free_places - self.config.population_size
        if excess <= 0:
            return
        self.remember(step, candidate_stats)
        protected = {self.incumbent.id, *self.pinned}
        unmeasured = self.unmeasured(candidate_stats)
        candidates = [s for s in candidate_stats if s.candidate.id not in protected]
        candidates.sort(key=lambda s: (s.candidate.id in unmeasured, s.weight))
        pruned_ids = {stats.candidate.id for stats in candidates[:excess]}
        self.keep_only(step, {s.candidate.id for s in candidate_stats} - pruned_ids)

    def keep_only(self, step: int, kept_ids: Collection[str]) -> tuple[str, ...]:
        """Prune all but ``kept_ids`` and the pinned; return the pruned ids, oldest first."""
        stay = {*kept_ids, *self.pinned}
        pruned = tuple(member.id for member in self.members if member.id not in stay)
        if pruned:
            with naming("population", self.population, self.log.report_wait):
                self.population.remove(pruned)
            self.forget(pruned)
            self.log.append(Pruned(step, pruned, tuple(member.id for member in self.members)))
        return pruned

    def forget(self, ids: Collection[str]) -> None:
        """Drop the estimates of candidates that are no longer used."""
        with naming("attributor", self.attributor, self.log.report_wait):
            self.attributor.forget(ids)

    def credit_verification(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Reset, keep or extend the weights after a verification, as ``config.reset`` sets.

        Args:
            step: the engine step.
            trajectories: rollouts of the verification, for new and old candidates; empty after
                trials in training, whose rollouts the attributor has recorded already.
        """
        if self.config.reset == "zero":
            with naming("attributor", self.attributor, self.log.report_wait):
                self.attributor.reset({})
            return
        if not trajectories:
            return
        priors = self._priors()
        members = {member.id for member in self.members}
        counted = [trajectory for trajectory in trajectories if trajectory.candidate.id in members]
        verified: dict[str, list[float]] = {}
        for trajectory in counted:
            if trajectory.reward is not None:
                verified.setdefault(trajectory.candidate.id, []).append(trajectory.reward)
        with naming("attributor", self.attributor, self.log.report_wait):
            self.attributor.observe_verification(step, counted, priors | verified)

    def _priors(self) -> dict[str, Sequence[float]]:
        """Return rewards that leave members without a verification the weights they have."""
        return {
            stats.candidate.id: [stats.weight] * min(stats.groups, self.config.min_groups)
            for stats in self._member_stats()
            if stats.groups
        }

    def remember(self, step: int, candidate_stats: Sequence[CandidateStats]) -> None:
        """Add the measured candidates to the history, with step and lead.

        A weight belongs to the policy of its step. A proposer that reads the history later learns
        more from the lead over the incumbent of that step.
        """
        incumbent = self.incumbent
        is_measured = self._are_measured(candidate_stats)
        for stats, is_one in zip(candidate_stats, is_measured, strict=True):
            if stats.groups and is_one:
                candidate = stats.candidate
                lead = self.lead(candidate, incumbent)
                self._history[candidate.id] = CandidateStats(
                    candidate,
                    stats.weight,
                    groups=stats.groups,
                    step=step,
                    lead=lead.value if lead.is_known else None,
                )
                self._history.move_to_end(candidate.id)
        while len(self._history) > MAX_HISTORY:
            self._history.popitem(last=False)

    def _member_stats(self) -> list[CandidateStats]:
        """Return what the attributor knows about the members, oldest first."""
        return self.stats_of(self.members)

    def stats_of(self, candidates: Sequence[Candidate]) -> list[CandidateStats]:
        """Return what the attributor knows about ``candidates``.

        Raises:
            ValueError: a weight is not finite; the attributor is named.
        """
        with naming("attributor", self.attributor, self.log.report_wait):
            estimates = [self.attributor.stats(candidate) for candidate in candidates]
            for stats in estimates:
                if not math.isfinite(stats.weight):
                    name, weight = stats.candidate.id, stats.weight
                    raise ValueError(f"the weight of {name} is {weight}; required: a finite one")
        return estimates

    def _distinct(
        self, role: str, selector: Selector, candidate_stats: Sequence[CandidateStats], k: int
    ) -> list[CandidateStats]:
        with naming(role, selector, self.log.report_wait):
            return select_distinct(selector, candidate_stats, k, self.rng)

    @property
    def _least(self) -> int:
        """Return the groups that make a member measured."""
        return 0 if self.config.unmeasured == "zero" else self.config.min_groups

    def _are_measured(self, candidate_stats: Sequence[CandidateStats]) -> list[bool]:
        return [stats.groups >= self._least for stats in candidate_stats]

    def state_dict(self) -> dict[str, JsonValue]:
        """Return past weights, pinned members and the incumbent, as JSON values."""
        saved = _Saved(
            history=[
                (stats.candidate, stats.weight, stats.groups, stats.step, stats.lead)
                for stats in self._history.values()
            ],
            pinned=sorted(self.pinned),
            first=self._first,
            incumbent=self._incumbent,
            announced=self._announced[0],
            is_announced_shown=self._announced[1],
            turn=self._turn,
            leftover=self._leftover,
            rewards=self.rewards,
        )
        return saved.model_dump(mode="json")

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continue from ``state``."""
        saved = _Saved.model_validate(dict(state))
        self.pinned = set(saved.pinned)
        self._first, self._incumbent = saved.first, saved.incumbent
        self._announced = saved.announced, saved.is_announced_shown
        self._turn, self._leftover, self.rewards = saved.turn, saved.leftover, saved.rewards
        self._history = OrderedDict(
            (candidate.id, CandidateStats(candidate, weight, groups=groups, step=step, lead=lead))
            for candidate, weight, groups, step, lead in saved.history
        )

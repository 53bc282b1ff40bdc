"""The living candidates by importance weight: who is used, who stays and who breeds."""

from __future__ import annotations

import math
import random
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from pydantic import JsonValue, TypeAdapter

from evoprompt.config import EngineConfig
from evoprompt.engine.checks import sound_chances, sound_stats
from evoprompt.engine.seats import Seat
from evoprompt.interfaces import Attributor, Population, Selector, SupportsVerification
from evoprompt.selectors.distinct import select_distinct, sound_choice
from evoprompt.types import Candidate, CandidateStats, Trajectory

_MOST_HISTORY = 256  # candidates whose last weight a proposer can look back on
_LAST = TypeAdapter(dict[str, tuple[float, int]])
_PAST = TypeAdapter(list[tuple[Candidate, float, int]])


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
    """

    def __init__(
        self,
        config: EngineConfig,
        population: Population,
        attributor: Seat[Attributor],
        sampler: Seat[Selector],
        survivor: Seat[Selector],
        parent_selector: Seat[Selector],
        rng: random.Random,
    ) -> None:
        self.config = config
        self.population = population
        self.attributor = attributor
        self.sampler = sampler
        self.survivor = survivor
        self.parent_selector = parent_selector
        self.rng = rng
        self._history: OrderedDict[str, CandidateStats] = OrderedDict()
        self._last: dict[str, tuple[float, int]] = {}  # weight and groups, for a new attributor
        attributor.prepare = self._hand_over

    @property
    def history(self) -> list[CandidateStats]:
        """Candidates measured so far with their last weight, the longest unseen first."""
        return list(self._history.values())

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Credits the scored ones of ``trajectories``, all told at engine step ``step``."""
        self.attributor.use(lambda held: held.observe(step, trajectories))

    def candidate_stats(self) -> list[CandidateStats]:
        """The living candidates with their weights, oldest first.

        Under ``unmeasured="explore"`` a candidate with fewer than ``min_groups`` groups has the
        mean weight of the measured ones: unknown is not bad.
        """
        found = self._known()
        lowest = self.config.reward_range[0]
        if lowest and self.config.unmeasured == "zero":  # the paper's 0 is the lowest reward
            found = [s if s.groups else replace(s, weight=lowest) for s in found]
        measured = [stats.weight for stats in found if self._counts(stats)]
        if not measured or len(measured) == len(found):
            return found
        average = fmean(measured)
        return [s if self._counts(s) else replace(s, weight=average) for s in found]

    @property
    def best(self) -> Candidate:
        """``argmax_j w_j`` over the living; measured before unmeasured, the oldest on a tie."""
        return max(self.candidate_stats(), key=lambda s: (self._counts(s), s.weight)).candidate

    def chances(self, candidate_stats: Sequence[CandidateStats]) -> Sequence[float]:
        """Selection probability of each candidate; empty if the sampler does not know it."""
        return self.sampler.use(lambda held: sound_chances(held, candidate_stats))

    def draw(self, candidate_stats: Sequence[CandidateStats], questions: int) -> list[Candidate]:
        """``candidates_per_question`` candidates per question, different ones as far as they go.

        Under ``unmeasured="explore"`` the first questions go to those that are not measured yet.
        """
        each = self.config.candidates_per_question
        first = self._least_measured(candidate_stats, questions * each)
        if each == 1:
            rest = questions - len(first)
            if rest:
                first += self.sampler.use(
                    lambda held: sound_choice(held, candidate_stats, rest, self.rng)
                )
            return [stats.candidate for stats in first]
        drawn: list[Candidate] = []
        for _ in range(questions):
            block = {stats.candidate.id: stats for stats in first[:each]}
            del first[:each]
            others = [s for s in candidate_stats if s.candidate.id not in block]
            if others and len(block) < each:
                found = self._distinct(self.sampler, others, each - len(block))
                block |= {stats.candidate.id: stats for stats in found}
            different = list(block.values())
            drawn += [different[index % len(different)].candidate for index in range(each)]
        return drawn

    def _least_measured(
        self, candidate_stats: Sequence[CandidateStats], most: int
    ) -> list[CandidateStats]:
        """Up to ``most`` draws that bring the unmeasured to ``min_groups``, fewest groups first."""
        if self.config.unmeasured == "zero":
            return []
        found: list[CandidateStats] = []
        for groups in range(self.config.min_groups):
            lacking = [stats for stats in candidate_stats if stats.groups <= groups]
            found += self.rng.sample(lacking, min(len(lacking), most - len(found)))
        return found

    def parents(self, candidate_stats: Sequence[CandidateStats]) -> list[CandidateStats]:
        """The ``N_parent`` candidates to improve, best first; measured ones if there are enough."""
        count = self.config.parents
        measured = [stats for stats in candidate_stats if self._counts(stats)]
        known = measured if len(measured) >= count else candidate_stats
        return self._distinct(self.parent_selector, known, count)

    def unmeasured(self, candidate_stats: Sequence[CandidateStats]) -> set[str]:
        """Ids of those that are not measured well enough to be dropped."""
        return {stats.candidate.id for stats in candidate_stats if not self._counts(stats)}

    def halve(self) -> tuple[str, ...]:
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
        survivors = self._distinct(self.survivor, measured, keep)
        return self.keep_only({*unmeasured, *(s.candidate.id for s in survivors)})

    def keep_only(self, kept: Collection[str]) -> tuple[str, ...]:
        """Drops all but ``kept`` and returns the ids dropped, oldest first."""
        dropped = tuple(one.id for one in self.population.alive if one.id not in kept)
        if dropped:
            self.population.remove(dropped)
            self.attributor.use(lambda held: held.forget(dropped))
        return dropped

    def admit(
        self,
        step: int,
        admitted: Sequence[Candidate],
        answers: Sequence[Trajectory],
        expected: Mapping[str, float],
    ) -> None:
        """Lets ``admitted`` live, and treats the weights as ``config.reset`` says.

        Args:
            step: the engine step.
            admitted: new candidates.
            answers: trajectories of the verification, of old candidates too.
            expected: mean rewards by candidate id, where the verifier expects others than it saw.
        """
        priors = self._priors()
        for candidate in admitted:
            self.population.add(candidate)
        if self.config.reset == "zero":
            self.attributor.use(lambda held: held.reset({}))
            return
        counted = [one for one in answers if one.candidate.id in self.population]
        verified: dict[str, list[float]] = {}
        for one in counted:
            if one.reward is not None:
                verified.setdefault(one.candidate.id, []).append(one.reward)
        for name in verified.keys() & expected.keys():
            distance = expected[name] - fmean(verified[name])
            verified[name] = [reward + distance for reward in verified[name]]

        def take_in(held: Attributor) -> None:
            if isinstance(held, SupportsVerification):
                held.observe_verification(step, counted)
            else:
                held.reset(priors | verified)

        self.attributor.use(take_in)

    def _priors(self) -> dict[str, Sequence[float]]:
        """Rewards that leave to the living, without a verification, the weights they have."""
        return {
            s.candidate.id: [s.weight] * min(s.groups, self.config.min_groups)
            for s in self._known()
            if s.groups
        }

    def remember(self, candidate_stats: Sequence[CandidateStats]) -> None:
        """Adds the measured ones of ``candidate_stats`` to the history."""
        for stats in candidate_stats:
            if stats.groups and self._counts(stats):
                candidate = stats.candidate
                self._history[candidate.id] = CandidateStats(
                    candidate, stats.weight, groups=stats.groups
                )
                self._history.move_to_end(candidate.id)
        while len(self._history) > _MOST_HISTORY:
            self._history.popitem(last=False)

    def _known(self) -> list[CandidateStats]:
        """What the attributor knows about the living, oldest first."""
        alive = self.population.alive
        found = self.attributor.use(
            lambda held: [sound_stats(held.stats(one), one) for one in alive]
        )
        if self.attributor.guarded:
            self._last = {s.candidate.id: (s.weight, s.groups) for s in found if s.groups}
        return found

    def _hand_over(self, successor: Attributor) -> None:
        """Lets an attributor that takes over start from the weights last known."""
        most = self.config.min_groups
        known = self._last.items()
        successor.reset({name: [weight] * min(groups, most) for name, (weight, groups) in known})

    def _distinct(
        self, seat: Seat[Selector], candidate_stats: Sequence[CandidateStats], k: int
    ) -> list[CandidateStats]:
        return seat.use(lambda held: select_distinct(held, candidate_stats, k, self.rng))

    def _counts(self, stats: CandidateStats) -> bool:
        return self.config.unmeasured == "zero" or stats.groups >= self.config.min_groups

    def state_dict(self) -> dict[str, JsonValue]:
        """The history, as JSON values."""
        past = [(s.candidate, s.weight, s.groups) for s in self._history.values()]
        last = _LAST.dump_python(self._last, mode="json")
        return {"history": _PAST.dump_python(past, mode="json"), "last": last}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        past = _PAST.validate_python(state["history"])
        self._last = _LAST.validate_python(state["last"])
        self._history = OrderedDict(
            (candidate.id, CandidateStats(candidate, weight, groups=groups))
            for candidate, weight, groups in past
        )

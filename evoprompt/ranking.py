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
from evoprompt.interfaces import Attributor, Population, Selector
from evoprompt.seats import Seat
from evoprompt.selectors import select_distinct
from evoprompt.soundness import sound_chances, sound_choice, sound_standing
from evoprompt.types import Candidate, Standing, Trajectory

_MOST_HISTORY = 256  # candidates whose last weight a proposer can look back on
_LAST = TypeAdapter(dict[str, tuple[float, int]])
_PAST = TypeAdapter(list[tuple[Candidate, float, int]])


class Ranking:
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
        self._history: OrderedDict[str, Standing] = OrderedDict()
        self._last: dict[str, tuple[float, int]] = {}  # weight and groups, for a new attributor
        attributor.prepare = self._hand_over

    @property
    def history(self) -> list[Standing]:
        """Candidates measured so far with their last weight, the longest unseen first."""
        return list(self._history.values())

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        """Credits the scored ones of ``trajectories``, all told at engine step ``step``."""
        self.attributor.use(lambda held: held.observe(step, trajectories))

    def standings(self) -> list[Standing]:
        """The living candidates with their weights, oldest first.

        Under ``unmeasured="protect"`` a candidate with fewer than ``min_groups`` groups has the
        mean weight of the measured ones: unknown is not bad.
        """
        found = self._known()
        lowest = self.config.reward_range[0]
        if lowest and self.config.unmeasured == "zero":  # the paper's 0 is the lowest reward
            found = [s if s.groups else replace(s, weight=lowest) for s in found]
        measured = [standing.weight for standing in found if self._counts(standing)]
        if not measured or len(measured) == len(found):
            return found
        average = fmean(measured)
        return [s if self._counts(s) else replace(s, weight=average) for s in found]

    @property
    def best(self) -> Candidate:
        """``argmax_j w_j`` over the living; measured before unmeasured, the oldest on a tie."""
        return max(self.standings(), key=lambda s: (self._counts(s), s.weight)).candidate

    def chances(self, standings: Sequence[Standing]) -> Sequence[float]:
        """Selection probability of each standing; empty if the sampler does not know it."""
        return self.sampler.use(lambda held: sound_chances(held, standings))

    def draw(self, standings: Sequence[Standing], questions: int) -> list[Candidate]:
        """``candidates_per_question`` candidates a question, different ones as far as they go."""
        each = self.config.candidates_per_question
        if each == 1:
            chosen = self.sampler.use(
                lambda held: sound_choice(held, standings, questions, self.rng)
            )
            return [standing.candidate for standing in chosen]
        drawn: list[Candidate] = []
        for _ in range(questions):
            different = self._distinct(self.sampler, standings, each)
            drawn += [different[index % len(different)].candidate for index in range(each)]
        return drawn

    def parents(self, standings: Sequence[Standing]) -> list[Standing]:
        """The ``N_parent`` candidates to improve, best first; measured ones if there are enough."""
        count = self.config.parents
        measured = [standing for standing in standings if self._counts(standing)]
        known = measured if len(measured) >= count else standings
        return self._distinct(self.parent_selector, known, count)

    def protected(self, standings: Sequence[Standing]) -> set[str]:
        """Ids of those that are not measured well enough to be dropped."""
        return {standing.candidate.id for standing in standings if not self._counts(standing)}

    def halve(self) -> tuple[str, ...]:
        """Drops the worse half (successive halving) and returns its ids, oldest first.

        Never fewer than ``N_parent`` stay; who is protected stays in addition to the places it
        leaves to the others, of which there is at least one.
        """
        standings = self.standings()
        keep = max(self.config.parents, math.ceil(len(standings) / 2))
        protected = self.protected(standings)
        ranked = [s for s in standings if s.candidate.id not in protected]
        if len(standings) <= keep or not ranked:
            return ()
        self.remember(standings)
        places = max(keep - len(protected), 1)
        survivors = self._distinct(self.survivor, ranked, places)
        return self.keep_only({*protected, *(s.candidate.id for s in survivors)})

    def keep_only(self, kept: Collection[str]) -> tuple[str, ...]:
        """Drops all but ``kept`` and returns the ids dropped, oldest first."""
        dropped = tuple(one.id for one in self.population.alive if one.id not in kept)
        if dropped:
            self.population.remove(dropped)
            self.attributor.use(lambda held: held.forget(dropped))
        return dropped

    def admit(self, admitted: Sequence[Candidate], rewards: Mapping[str, Sequence[float]]) -> None:
        """Lets ``admitted`` live, and resets all weights as configured.

        Args:
            admitted: new candidates.
            rewards: verification rewards by candidate id, of old ones too.
        """
        priors = self._priors()
        for candidate in admitted:
            self.population.add(candidate)
        if self.config.reset == "verified":
            verified = {id_: found for id_, found in rewards.items() if id_ in self.population}
            self.attributor.use(lambda held: held.reset(priors | verified))
        else:
            self.attributor.use(lambda held: held.reset({}))

    def _priors(self) -> dict[str, Sequence[float]]:
        """Rewards that leave to the living, without a verification, the weights they have."""
        return {
            s.candidate.id: [s.weight] * min(s.groups, self.config.min_groups)
            for s in self._known()
            if s.groups
        }

    def remember(self, standings: Sequence[Standing]) -> None:
        """Adds the measured ones of ``standings`` to the history."""
        for standing in standings:
            if standing.groups and self._counts(standing):
                candidate = standing.candidate
                self._history[candidate.id] = Standing(
                    candidate, standing.weight, groups=standing.groups
                )
                self._history.move_to_end(candidate.id)
        while len(self._history) > _MOST_HISTORY:
            self._history.popitem(last=False)

    def _known(self) -> list[Standing]:
        """What the attributor knows about the living, oldest first."""
        alive = self.population.alive
        found = self.attributor.use(
            lambda held: [sound_standing(held.standing(one), one) for one in alive]
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
        self, seat: Seat[Selector], standings: Sequence[Standing], k: int
    ) -> list[Standing]:
        return seat.use(lambda held: select_distinct(held, standings, k, self.rng))

    def _counts(self, standing: Standing) -> bool:
        return self.config.unmeasured == "zero" or standing.groups >= self.config.min_groups

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
            (candidate.id, Standing(candidate, weight, groups=groups))
            for candidate, weight, groups in past
        )

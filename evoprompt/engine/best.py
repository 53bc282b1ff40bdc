"""Who is the best: whoever is shown to be better than the first candidate."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue, TypeAdapter

from evoprompt.comparison import Evidence, means_of
from evoprompt.types import Candidate, Trajectory

ERROR = 0.05
"""Chance that somebody is called the best of a training who is no better than the first one."""


@dataclass(slots=True)
class _Saved:
    """Everything, as JSON has it."""

    evidence: dict[str, JsonValue]
    champions: list[Candidate]
    looks: int
    ways: dict[str, float]
    announced: str


_SAVED = TypeAdapter(_Saved)


class Best:
    """The champion: the first candidate, until another one is shown to be better.

    A candidate that nobody is compared with any more may be the champion: pruning goes by weights,
    and a weight is no proof. Before each evolution is looked whether somebody alive is shown to be
    better than the champion and takes its place; between them the same question is asked, without a
    change. Look ``k`` has ``1 / (k (k + 1))`` of :data:`ERROR`, so that all of them have it
    together. Of that everybody has the share of one of the ways in which the choice could have
    gone: of all who were tried and all who were alive, once for each evolution since the champion
    was chosen, since the luck of ancestors is in a lead as well (Bonferroni).

    Of several who are shown to be better, it is the oldest, then the one with the greatest lead,
    unless a younger one is shown to be better than that.

    Attributes:
        announced: id of the candidate that an event last said to be the best.
    """

    def __init__(self) -> None:
        self.evidence = Evidence()
        self._champions: list[Candidate] = []  # the first one, and the one of now
        self._looks = 0
        self.announced = ""
        self._ways: dict[str, float] = {}  # logarithm, by candidate

    def observe(self, living: Sequence[Candidate], trajectories: Sequence[Trajectory]) -> None:
        """Takes in a step of training."""
        self._begin(living)
        self.evidence.observe(means_of(trajectories))

    def of(self, living: Sequence[Candidate]) -> Candidate:
        """The best of ``living``, oldest first, and the champion."""
        found = champion = self._begin(living)
        if len(living) == 1 and champion in living:
            return champion
        error = ERROR / ((self._looks + 1) * (self._looks + 2))
        leads = {one.id: self.evidence.lead(one.id, champion.id) for one in living}
        shown = [one for one in living if leads[one.id].is_shown(error / self._ways_to(one))]
        shown.sort(key=lambda one: (one.born, -leads[one.id].value, len(one.text)))
        for one in shown:
            lead = self.evidence.lead(one.id, found.id)
            if found.id == champion.id or lead.is_shown(error / self._ways_to(one)):
                found = one
        return found

    def admit(
        self,
        living: Sequence[Candidate],
        admitted: Sequence[Candidate],
        answers: Sequence[Trajectory],
    ) -> None:
        """Looks who is the champion now, then takes in a verification.

        Args:
            living: those that were alive before, and may be the best.
            admitted: who comes in.
            answers: trajectories of the verification, also of those who were refused.
        """
        champion = self._begin(living)
        others = [one for one in living if one.id != champion.id]
        if any(math.isfinite(self.evidence.lead(one.id, champion.id).stderr) for one in others):
            found = self.of(living)
            self._looks += 1
            if found.id != champion.id:
                self._champions[1] = found
                self._ways = {one.id: math.log(len(living)) for one in living}
                if champion not in living:
                    self.evidence.forget({champion.id})
        before = {one.id for one in living}
        tried = {one.candidate.id for one in answers} | {one.id for one in admitted}
        ways = self._most_ways + math.log(len(tried | before))
        self._ways.update((one.id, ways) for one in admitted)
        known = before | {one.id for one in admitted}
        counted = [one for one in answers if one.candidate.id in known]
        self.evidence.observe(means_of(counted))

    def forget(self, ids: Collection[str]) -> None:
        """Drops those who are no longer alive, but for the champion."""
        gone = set(ids) - {one.id for one in self._champions[1:]}
        self.evidence.forget(gone)
        for name in gone:
            self._ways.pop(name, None)

    def first(self, living: Sequence[Candidate]) -> Candidate:
        """The first candidate, dead or alive."""
        self._begin(living)
        return self._champions[0]

    def _begin(self, living: Sequence[Candidate]) -> Candidate:
        """The champion; at the very start the first of ``living``."""
        if not self._champions:
            self._champions = [living[0], living[0]]
            self._ways = {one.id: math.log(max(len(living) - 1, 1)) for one in living}
        return self._champions[1]

    @property
    def _most_ways(self) -> float:
        return max(self._ways.values(), default=0.0)

    def _ways_to(self, candidate: Candidate) -> float:
        return math.exp(min(self._ways.get(candidate.id, self._most_ways), 600.0))

    def state_dict(self) -> dict[str, JsonValue]:
        """Everything that is known, as JSON values."""
        saved = _Saved(
            self.evidence.state_dict(), self._champions, self._looks, self._ways, self.announced
        )
        found: dict[str, JsonValue] = _SAVED.dump_python(saved, mode="json")
        return found

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        saved = _SAVED.validate_python(dict(state))
        self.evidence.load_state_dict(saved.evidence)
        self._champions, self._looks, self._ways = saved.champions, saved.looks, saved.ways
        self.announced = saved.announced

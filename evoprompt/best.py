"""Who is the best: whoever is shown to be better than the first candidate."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from pydantic import BaseModel, JsonValue

from evoprompt.comparison import Evidence, means_of
from evoprompt.types import Candidate, Trajectory

ERROR = 0.05
"""Chance that somebody is called the best of a training who is no better than the first one."""


class _Saved(BaseModel):
    """Everything, as JSON has it."""

    evidence: dict[str, JsonValue]
    champions: list[Candidate]
    looks: int
    ways: dict[str, float]
    announced: str


class Best:
    """The champion: the first candidate, until another one is shown to be better.

    Pruning goes by weights, and a weight is no proof: the champion may be dead. Then it answers the
    questions of each verification as well (``trial.py``), so that it is compared with those who
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

    Attributes:
        announced: id of the candidate that an event last said to be the best.
    """

    def __init__(self) -> None:
        self.evidence = Evidence()
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
        self.evidence.observe(means_of(trajectories))

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
                self._champions[1] = champion = found
                self._ways = {one.id: math.log(len(older)) for one in older}
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
        self.evidence.observe(means_of([one for one in answers if one.candidate.id in known]))

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

    @property
    def _most_ways(self) -> float:
        return max(self._ways.values(), default=0.0)

    def _ways_to(self, candidate: Candidate) -> float:
        return math.exp(min(self._ways.get(candidate.id, self._most_ways), 600.0))

    def state_dict(self) -> dict[str, JsonValue]:
        """Everything that is known, as JSON values."""
        saved = _Saved(
            evidence=self.evidence.state_dict(),
            champions=self._champions,
            looks=self._looks,
            ways=self._ways,
            announced=self.announced,
        )
        return saved.model_dump(mode="json")

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        saved = _Saved.model_validate(dict(state))
        self.evidence.load_state_dict(saved.evidence)
        self._champions, self._looks, self._ways = saved.champions, saved.looks, saved.ways
        self.announced = saved.announced

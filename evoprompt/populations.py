"""Population that ships with evoprompt."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pydantic import JsonValue, TypeAdapter

from evoprompt.roles import Population
from evoprompt.types import Candidate

__all__ = ["SteadyPopulation"]


_CANDIDATES = TypeAdapter(list[Candidate])


class SteadyPopulation(Population):
    """Population that keeps its members until they are pruned.

    It holds the members and the lineage of all candidates, pruned ones included (paper §3.1).
    """

    def __init__(self) -> None:
        self._members: dict[str, Candidate] = {}
        self._candidates: dict[str, Candidate] = {}

    @property
    def members(self) -> Sequence[Candidate]:
        """Return the members, oldest first."""
        return tuple(self._members.values())

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, candidate_id: object, /) -> bool:
        return candidate_id in self._members

    def add(self, candidate: Candidate) -> None:
        """Add a candidate to the population.

        Raises:
            ValueError: the id was used before, or a parent of the candidate was never a member.
        """
        if candidate.id in self._candidates:
            raise ValueError(f"candidate id {candidate.id!r} was used before; ids must be unique")
        unknown = [parent for parent in candidate.parents if parent not in self._candidates]
        if unknown:
            raise ValueError(
                f"candidate {candidate.id!r} names parents that never lived: {unknown}"
            )
        self._members[candidate.id] = self._candidates[candidate.id] = candidate

    def remove(self, ids: Collection[str]) -> None:
        """Remove members from the population; keep their lineage.

        Raises:
            ValueError: an id is not that of a member, or no member would be left.
        """
        missing = [candidate_id for candidate_id in ids if candidate_id not in self._members]
        if missing:
            raise ValueError(f"cannot remove candidates that are not members: {missing}")
        if len(set(ids)) == len(self._members):
            raise ValueError("cannot remove every candidate; a population is never empty")
        for candidate_id in ids:
            self._members.pop(candidate_id, None)

    def ancestors(self, candidate_id: str) -> Sequence[Candidate]:
        """Return all ancestors of a candidate, pruned ones included, nearest first."""
        ancestors: dict[str, Candidate] = {}
        queue = list(self._candidates[candidate_id].parents)
        for parent in queue:
            if parent not in ancestors:
                ancestors[parent] = self._candidates[parent]
                queue.extend(self._candidates[parent].parents)
        return tuple(ancestors.values())

    def state_dict(self) -> dict[str, JsonValue]:
        """Return all candidates, and the ids of the members."""
        return {
            "candidates": _CANDIDATES.dump_python(list(self._candidates.values()), mode="json"),
            "members": list(self._members),
        }

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Restore exactly the population of ``state``."""
        saved = _CANDIDATES.validate_python(state["candidates"])
        candidates = {candidate.id: candidate for candidate in saved}
        members = TypeAdapter(list[str]).validate_python(state["members"])
        self._members = {candidate_id: candidates[candidate_id] for candidate_id in members}
        self._candidates = candidates

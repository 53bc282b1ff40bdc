"""The suite of populations passes what is right and names what is wrong."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from failing_checks import failing

from evoprompt.populations import SteadyPopulation
from evoprompt.testing import (
    PopulationSuite,
)
from evoprompt.types import (
    Candidate,
)


class TestPopulations:
    def test_steady_passes(self) -> None:
        assert failing(PopulationSuite, SteadyPopulation) == set()

    def test_one_that_can_become_empty(self) -> None:
        class Mortal(SteadyPopulation):
            def remove(self, ids: Collection[str]) -> None:
                for candidate_id in ids:
                    self._alive.pop(candidate_id, None)

        assert failing(PopulationSuite, Mortal) == {
            "never becomes empty",
            "refuses to remove who is not alive",
        }

    def test_one_that_takes_anybody(self) -> None:
        class Open(SteadyPopulation):
            def add(self, candidate: Candidate) -> None:
                self._alive[candidate.id] = self._ever[candidate.id] = candidate

        assert failing(PopulationSuite, Open) == {
            "refuses an id that was used",
            "refuses a parent that never lived",
            "continues from a saved state",
        }

    def test_one_that_knows_only_parents(self) -> None:
        class Forgetful(SteadyPopulation):
            def ancestors(self, candidate_id: str) -> Sequence[Candidate]:
                return [self._ever[parent] for parent in self._ever[candidate_id].parents]

        assert failing(PopulationSuite, Forgetful) == {"knows all ancestors nearest first"}

    def test_one_that_lists_the_youngest_first(self) -> None:
        class Reversed(SteadyPopulation):
            @property
            def alive(self) -> Sequence[Candidate]:
                return tuple(reversed(self._alive.values()))

        assert failing(PopulationSuite, Reversed) == {"lists the living oldest first"}

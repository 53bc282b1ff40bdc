"""The conformance suite of populations."""

from __future__ import annotations

from collections.abc import Callable

from evoprompt.roles import Population
from evoprompt.testing.samples import candidate
from evoprompt.testing.suite import Suite, continue_from, expect


def refuses(action: Callable[[], None]) -> bool:
    """Whether ``action`` raises a ValueError."""
    try:
        action()
    except ValueError:
        return True
    return False


class PopulationSuite(Suite[Population]):
    """What every population must keep."""

    def family(self) -> Population:
        """c0 has the child c1, whose child is c2; c3 descends from c0 and c2. c1 is dead."""
        population = self.build()
        for number, parents in ((0, ()), (1, ("c0",)), (2, ("c1",)), (3, ("c0", "c2"))):
            population.add(candidate(number, parents))
        population.remove(["c1"])
        return population

    def alive(self, population: Population) -> list[str]:
        """Ids of the members."""
        return [member.id for member in population.members]

    def test_lists_the_living_oldest_first(self) -> None:
        found = self.alive(self.family())
        expect(
            found == ["c0", "c2", "c3"], f"alive are {found}; required: c0, c2 and c3 in this order"
        )

    def test_knows_who_is_alive(self) -> None:
        population = self.family()
        expect("c0" in population, "it does not contain a active candidate")
        expect("c1" not in population, "it contains a dead candidate")
        expect("c9" not in population, "it contains a candidate that never lived")

    def test_never_becomes_empty(self) -> None:
        population = self.family()
        expect(
            refuses(lambda: population.remove(["c0", "c2", "c3"])),
            "it let everybody go; required: a ValueError",
        )
        expect(
            len(population.members) == 3,
            "a refused removal removed somebody; required: all or nothing",
        )

    def test_refuses_to_remove_who_is_not_alive(self) -> None:
        population = self.family()
        expect(
            refuses(lambda: population.remove(["c1"])),
            "it removed a dead candidate again; raise a ValueError",
        )
        expect(
            refuses(lambda: population.remove(["c0", "c9"])),
            "it removed an unknown candidate; raise a ValueError",
        )
        expect("c0" in population, "a refused removal removed somebody; required: all or nothing")

    def test_refuses_an_id_that_was_used(self) -> None:
        population = self.family()
        for number in (0, 1):
            expect(
                refuses(lambda number=number: population.add(candidate(number))),  # type: ignore[misc]
                f"it took a second candidate c{number}; required: a ValueError, also for the dead",
            )

    def test_refuses_a_parent_that_never_lived(self) -> None:
        population = self.family()
        expect(
            refuses(lambda: population.add(candidate(5, ["c9"]))),
            "it took a child of nobody; raise a ValueError",
        )
        expect("c5" not in population, "a refused candidate lives; check before you add")

    def test_a_child_of_a_dead_parent_may_live(self) -> None:
        population = self.family()
        population.add(candidate(4, ["c1"]))
        expect("c4" in population, "a child of a dead parent is missing; required: it may live")

    def test_knows_all_ancestors_nearest_first(self) -> None:
        found = [ancestor.id for ancestor in self.family().ancestors("c2")]
        expect(found == ["c1", "c0"], f"the ancestors of c2 are {found}; required: c1, then c0")
        several = [ancestor.id for ancestor in self.family().ancestors("c3")]
        expect(
            sorted(several) == ["c0", "c1", "c2"],
            f"the ancestors of c3 are {several}; required: each of c0, c1 and c2 once",
        )
        expect(list(self.family().ancestors("c0")) == [], "a seed has ancestors; required: none")

    def test_continues_from_a_saved_state(self) -> None:
        population, resumed = self.family(), self.build()
        resumed.add(candidate(7))
        continue_from(population, resumed)
        expect(
            list(resumed.members) == list(population.members),
            "a restored population has others alive than the saved one; keep them in state_dict",
        )
        expect(
            list(resumed.ancestors("c3")) == list(population.ancestors("c3")),
            "a restored population knows another lineage; keep the dead in state_dict",
        )
        expect(
            refuses(lambda: resumed.add(candidate(1))),
            "a restored population forgot who was dead; keep them in state_dict",
        )

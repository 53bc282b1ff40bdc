"""Conformance suite of populations."""

from __future__ import annotations

from collections.abc import Callable

from evoprompt.roles import Population
from evoprompt.testing.samples import candidate
from evoprompt.testing.suite import Suite, continue_from, expect


def refuses(action: Callable[[], None]) -> bool:
    """Return whether ``action`` raises a ValueError."""
    try:
        action()
    except ValueError:
        return True
    return False


class PopulationSuite(Suite[Population]):
    """Contract of every population."""

    def family(self) -> Population:
        """Return a population in which c1 was pruned.

        c0 has the descendant c1, whose descendant is c2; c3 descends from c0 and c2.
        """
        population = self.build()
        for number, parents in ((0, ()), (1, ("c0",)), (2, ("c1",)), (3, ("c0", "c2"))):
            population.add(candidate(number, parents))
        population.remove(["c1"])
        return population

    def member_ids(self, population: Population) -> list[str]:
        """Return the ids of the members."""
        return [member.id for member in population.members]

    def test_lists_the_members_oldest_first(self) -> None:
        member_ids = self.member_ids(self.family())
        expect(
            member_ids == ["c0", "c2", "c3"],
            f"members are {member_ids}; required: c0, c2 and c3 in this order",
        )

    def test_contains_the_members_only(self) -> None:
        population = self.family()
        expect("c0" in population, "it does not contain an active candidate")
        expect("c1" not in population, "it contains a pruned candidate")
        expect("c9" not in population, "it contains a candidate that was never added")

    def test_never_becomes_empty(self) -> None:
        population = self.family()
        expect(
            refuses(lambda: population.remove(["c0", "c2", "c3"])),
            "it removed all members; required: a ValueError",
        )
        expect(
            len(population.members) == 3,
            "a refused removal removed a member; required: all or nothing",
        )

    def test_refuses_to_remove_what_is_no_member(self) -> None:
        population = self.family()
        expect(
            refuses(lambda: population.remove(["c1"])),
            "it removed a pruned candidate again; raise a ValueError",
        )
        expect(
            refuses(lambda: population.remove(["c0", "c9"])),
            "it removed an unknown candidate; raise a ValueError",
        )
        expect("c0" in population, "a refused removal removed a member; required: all or nothing")

    def test_refuses_an_id_that_was_used(self) -> None:
        population = self.family()
        for number in (0, 1):
            expect(
                refuses(lambda number=number: population.add(candidate(number))),  # type: ignore[misc]
                f"it took a second candidate c{number}; required: a ValueError, also for pruned "
                "ones",
            )

    def test_refuses_a_parent_that_was_never_added(self) -> None:
        population = self.family()
        expect(
            refuses(lambda: population.add(candidate(5, ["c9"]))),
            "it added a candidate of an unknown parent; raise a ValueError",
        )
        expect("c5" not in population, "a refused candidate is a member; check before you add")

    def test_accepts_a_pruned_parent(self) -> None:
        population = self.family()
        population.add(candidate(4, ["c1"]))
        expect(
            "c4" in population, "a candidate of a pruned parent is missing; required: it is added"
        )

    def test_knows_all_ancestors_nearest_first(self) -> None:
        ancestors = [ancestor.id for ancestor in self.family().ancestors("c2")]
        expect(
            ancestors == ["c1", "c0"], f"the ancestors of c2 are {ancestors}; required: c1, then c0"
        )
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
            "a restored population has different members; keep them in state_dict",
        )
        expect(
            list(resumed.ancestors("c3")) == list(population.ancestors("c3")),
            "a restored population has a different lineage; keep pruned candidates in state_dict",
        )
        expect(
            refuses(lambda: resumed.add(candidate(1))),
            "a restored population forgot pruned candidates; keep them in state_dict",
        )

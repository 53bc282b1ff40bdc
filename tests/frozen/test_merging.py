"""Two lines of descent become one text that has what both have learned."""

from __future__ import annotations

from evoprompt.optimizer.loop import merged, nearest_ancestor
from evoprompt.types import Candidate


def candidate(name: str, parents: tuple[str, ...] = (), **texts: str) -> Candidate:
    return Candidate(name, texts, parents)


BASE = candidate("c0", a="Think.", b="Look around.")
LEFT = candidate("c1", ("c0",), a="Think. Count twice.", b="Look around.")
RIGHT = candidate("c2", ("c0",), a="Think. Name units.", b="Look left.")
BORN = {one.id: one for one in (BASE, LEFT, RIGHT)}


def test_what_one_alone_changed_is_taken_from_that_one() -> None:
    assert merged(BASE, LEFT, RIGHT)["b"] == "Look left."
    assert merged(BASE, RIGHT, LEFT)["b"] == "Look left."


def test_where_both_changed_something_the_sentences_are_joined() -> None:
    assert merged(BASE, LEFT, RIGHT)["a"] == "Think. Count twice. Name units."


def test_what_the_other_dropped_is_dropped() -> None:
    other = candidate("c3", ("c0",), a="Name units.", b="Look around.")
    assert merged(BASE, LEFT, other)["a"] == "Count twice. Name units."


def test_the_nearest_common_ancestor_is_found() -> None:
    below = candidate("c4", ("c1",), a="Think. Count twice. Stop.", b="Look around.")
    beside = candidate("c5", ("c1",), a="Think. Count thrice.", b="Look around.")
    born = {**BORN, "c4": below, "c5": beside}
    assert nearest_ancestor(below, beside, born) == LEFT
    assert nearest_ancestor(below, RIGHT, born) == BASE

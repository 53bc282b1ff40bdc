from __future__ import annotations

from evoprompt_search_qa.policies.base import Dialogue

from evoprompt.types import Turn


def test_a_first_turn_without_an_action_is_given_with_the_question() -> None:
    told, said = Turn("", "passages"), Turn("<search> x </search>", "more")
    assert Dialogue("i", "q", (told, said)).given == "passages"
    assert Dialogue("i", "q", (told, said)).replied == (said,)


def test_without_one_nothing_is_given() -> None:
    said = Turn("<search> x </search>", "more")
    assert Dialogue("i", "q", (said,)).given == ""
    assert Dialogue("i", "q", (said,)).replied == (said,)
    assert Dialogue("i", "q").replied == ()

from __future__ import annotations

import pytest
from evoprompt_search_qa import protocol

from evoprompt.types import Turn


@pytest.mark.parametrize(
    ("action", "query"),
    [
        ("<search> mayor of ulm </search>", "mayor of ulm"),
        ("<think> hm </think> <search> a </search>\n", "a"),
        ("<search> a </search> <search> b </search>", "b"),
        ("<search> a <search> b </search>", "b"),
        ("<search> a", None),
        ("<search> a </search> <answer> b </answer>", None),
        ("<answer> a </answer>", None),
        ("", None),
    ],
)
def test_a_query_is_what_the_action_ends_with(action: str, query: str | None) -> None:
    assert protocol.find_query(action) == query


def test_an_observation_gives_back_its_evidence() -> None:
    shown = "<information> a is b . c is d . </information>"
    assert protocol.evidence(Turn("", shown)) == "a is b . c is d ."
    assert protocol.evidence(Turn("<information> x </information>")) == ""
    assert "nothing found" in protocol.joined([])

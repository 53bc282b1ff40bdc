"""Seeds are checked before anything is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from evoprompt.engine import Engine
from evoprompt.log.eventlog import EventLog
from evoprompt.screening import Seed, usable_seeds
from evoprompt.support.errors import InputError
from evoprompt.types import Proposal

TAGS = ("<answer>", "</answer>")
GOOD = "Write <answer>it</answer>."


def components_of(seeds: list[Seed]) -> list[Mapping[str, str]]:
    return [proposal.components for proposal in usable_seeds(seeds, 7, TAGS)]


def test_components_are_kept_as_given() -> None:
    seed = {"instruction": "Search.", "format": GOOD}
    assert components_of([seed, GOOD]) == [seed, {"instruction": GOOD}]


def test_a_proposal_keeps_where_it_comes_from_and_has_no_parents_here() -> None:
    given = Proposal({"instruction": GOOD}, ("c9",), "runs/a: c9", "reflection")
    (found,) = usable_seeds([given], 7, TAGS)
    assert found == Proposal({"instruction": GOOD}, (), "runs/a: c9", "seed")
    log = EventLog()
    engine = Engine([given, "Write <answer>him</answer>."], required=TAGS, log=log)
    assert [event["origin"] for event in log] == ["runs/a: c9", ""]
    assert [one.rationale for one in engine.population.members] == ["runs/a: c9", ""]


@pytest.mark.parametrize(
    ("seeds", "message"),
    [
        ([], "required: a list of at least one text"),
        (GOOD, "required: a list of at least one text"),
        ([GOOD, "Be brief. " + GOOD, "Be kind. " + GOOD], "3 seed .* at most population_size 2"),
        (["Search."], r"'Search.' lacks <answer>, </answer>; required"),
        ([GOOD, GOOD], "is empty or given twice"),
        ([{}], "lacks <answer>"),
        ([GOOD + "\ud83d"], "has half of a character"),
        (7, "are 7; required: a list of at least one text"),
        ([None], "instruction None is of type NoneType; required: a text, or a mapping"),
        ([{"instruction": 7}], "is of type dict; required: a text, or a mapping"),
    ],
)
def test_unusable_seeds_are_named(seeds: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        usable_seeds(seeds, 2, TAGS)

from __future__ import annotations

import pytest

from evoprompt.evaluation import Headline
from evoprompt.events import (
    Asked,
    Evaluated,
    Evolved,
    Notice,
    Proposed,
    Pruned,
    Seeded,
    Told,
    Verified,
)
from evoprompt.experiments.cli.display import Progress

SOLVED = Headline("solved", "share solved")
SEED = Seeded(0, "c0", {"instruction": "Search first.\nThen answer."})
CHILD = Proposed(3, "c1", {"instruction": "Search first. Search twice."}, ("c0",), "p")


def test_an_evaluation_says_what_was_reached_and_with_what() -> None:
    found = Progress(budget=400)
    found.update(SEED)
    assert found.update(Asked(1, {"c0": 8}, {"c0": 1.0})) == ""
    assert found.update(Told(1, 40, 40, 0, 0.25, {"c0": 0.25})) == ""
    line = found.update(Evaluated(1, "validation", "c0", 40, {"solved": 0.5}, headline=SOLVED))
    counts = "rollouts 40/400, reward 0.250"
    assert line == f"validation share solved 0.500 with c0; {counts}"


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (
            Evolved(30, 0, (), ("c0",), 0, "the proposer proposed nothing"),
            "failed generation, 1 of 1 so far: the proposer proposed nothing",
        ),
        (Pruned(5, ("c0", "c2"), ("c1",)), "pruned c0, c2; 1 alive"),
        (Notice(5, "the proposer failed"), "the proposer failed"),
        (
            Verified(3, "c1", 1, 0.75, 0.1, 20, admitted=True),
            "admitted c1 at 0.75±0.10: Search first. Search twice.",
        ),
        (Verified(3, "c0", 1, 0.5, None, 1, admitted=False, parent=True), ""),
        (
            Evolved(3, 2, ("c1",), ("c0", "c1"), 60),
            "evolved: 1 admitted in 2 rounds with 60 rollouts, 2 alive",
        ),
    ],
)
def test_what_matters_gets_a_line(event: Notice, line: str) -> None:
    found = Progress(budget=400)
    found.update(SEED)
    found.update(CHILD)
    assert found.update(event) == line

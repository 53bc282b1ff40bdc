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
from evoprompt.experiments.cli.progress import Progress

SOLVED = Headline("solved", "share solved")
SEED = Seeded(0, "c0", {"instruction": "Search first.\nThen answer."})
CHILD = Proposed(3, "c1", {"instruction": "Search first. Search twice."}, ("c0",), "p")


def told(step: int, rollouts: int) -> Told:
    return Told(step, rollouts, 40, 0, 0.25, {"c0": 0.25})


def progress() -> Progress:
    found = Progress(budget=400)
    found.update(SEED)
    return found


def test_routine_events_update_the_numbers_and_say_nothing() -> None:
    found = progress()
    assert found.update(Asked(1, {"c0": 8}, {"c0": 1.0})) == ""
    assert found.update(told(1, 40)) == ""
    assert (found.step, found.rollouts, found.reward) == (1, 40, 0.25)
    assert found.probabilities == {"c0": 1.0}
    assert found.weights == {"c0": 0.25}


def test_an_evaluation_says_what_was_reached_and_with_what() -> None:
    found = progress()
    line = found.update(Evaluated(1, "validation", "c0", 40, {"solved": 0.5}, headline=SOLVED))
    assert line == "validation share solved 0.500 with c0"
    assert (found.headline, found.value) == (SOLVED, 0.5)


def test_failed_generations_are_counted_and_said() -> None:
    found = progress()
    found.update(Evolved(15, 1, ("c1",), ("c0", "c1"), 20))
    line = found.update(Evolved(30, 0, (), ("c0",), 0, "the proposer proposed nothing"))
    assert line == "failed generation, 1 of 2 so far: the proposer proposed nothing"
    assert (found.generations, found.failed) == (2, 1)


def test_a_test_is_told_but_is_not_the_validation() -> None:
    found = progress()
    found.update(Evaluated(1, "test", "c0", 40, {"solved": 0.5}, headline=SOLVED))
    assert found.value is None


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (Pruned(5, ("c0", "c2"), ("c1",)), "pruned c0, c2; 1 alive"),
        (Notice(5, "the proposer failed"), "the proposer failed"),
        (
            Verified(3, "c1", 1, 0.75, 0.1, 20, admitted=True),
            "admitted c1 at 0.75±0.10: + Search twice. - Then answer.",
        ),
        (
            Verified(3, "c1", 1, None, None, 0, admitted=False, reason="nothing was scored"),
            "turned c1 away at no reward (nothing was scored)",
        ),
        (Verified(3, "c0", 1, 0.5, None, 1, admitted=False, parent=True), ""),
        (
            Evolved(3, 2, ("c1",), ("c0", "c1"), 60),
            "evolved: 1 admitted in 2 rounds with 60 rollouts, 2 alive",
        ),
        (
            Proposed(3, "", {"instruction": ""}, ("c0",), "p", rule="empty", reason="no text"),
            "refused a proposal of p (empty: no text)",
        ),
    ],
)
def test_what_matters_gets_a_line(event: Notice, line: str) -> None:
    found = progress()
    found.update(CHILD)
    assert found.update(event) == line


def test_a_seed_is_shown_whole_and_on_one_line() -> None:
    assert progress().news("c0") == "Search first. Then answer."


def test_the_admitted_appear_before_they_are_first_drawn() -> None:
    found = progress()
    found.update(told(1, 40))
    found.update(Evolved(3, 1, ("c1",), ("c0", "c1"), 60))
    assert found.weights == {"c0": 0.25, "c1": 0.0}


def test_the_time_left_is_unknown_before_the_first_step_and_then_shrinks() -> None:
    found = progress()
    assert found.seconds_left is None
    assert found.begun is not None
    found.begun -= 10.0
    found.update(told(1, 40))
    assert found.seconds_left == pytest.approx(90.0, rel=0.01)
    found.update(told(10, 400))
    assert found.seconds_left == 0.0


def test_a_resumed_trial_is_timed_from_where_it_resumed() -> None:
    found = progress()
    assert found.begun is not None
    found.begun -= 10.0
    found.update(told(6, 240))
    assert found.seconds_left == pytest.approx(40.0, rel=0.01)

"""Which prompts are out, and when they are over."""

from __future__ import annotations

import pytest
from evoprompt_verl.prompt_tracker import PromptTracker

from evoprompt.types import Assignment, Candidate, Question

PENDING = {
    f"a{i}": Assignment(f"a{i}", Question(f"q{i}", "why"), Candidate("c0", {"i": "x"}), 2, f"a{i}")
    for i in range(4)
}


@pytest.fixture
def tracker() -> PromptTracker:
    found = PromptTracker()
    for index, assignment in enumerate(PENDING.values()):
        found.note(f"u{index}", assignment)
    return found


def test_finished_prompts_are_settled_and_the_others_stay_out(tracker: PromptTracker) -> None:
    settled = tracker.settle(["u2", "u0"], {"u1", "u3"}, PENDING)
    assert {uid: assignment.id for uid, assignment in settled.items()} == {"u0": "a0", "u2": "a2"}
    assert list(settled) == ["u0", "u2"]
    assert len(tracker) == 2


def test_prompts_that_vanished_from_the_queue_are_settled_too(tracker: PromptTracker) -> None:
    assert set(tracker.settle(["u0"], {"u3"}, PENDING)) == {"u0", "u1", "u2"}
    assert len(tracker) == 1


def test_a_stranger_is_not_settled(tracker: PromptTracker) -> None:
    assert tracker.settle(["somebody"], {"u0", "u1", "u2", "u3"}, PENDING) == {}


def test_what_the_engine_has_forgotten_is_dropped(tracker: PromptTracker) -> None:
    assert set(tracker.settle(["u0", "u1"], {"u2", "u3"}, {"a1": PENDING["a1"]})) == {"u1"}
    assert len(tracker) == 2


def test_a_prompt_that_is_out_already_is_found_while_the_engine_knows_it(
    tracker: PromptTracker,
) -> None:
    assert tracker.find("u1", PENDING) is PENDING["a1"]
    assert tracker.find("u1", {}) is None
    assert tracker.find("new", PENDING) is None


def test_saved_and_loaded_it_goes_on(tracker: PromptTracker) -> None:
    other = PromptTracker()
    other.load_state_dict(tracker.state_dict())
    assert other.settle(["u3"], {"u0", "u1", "u2"}, PENDING).keys() == {"u3"}
    assert other.state_dict() == {"u0": "a0", "u1": "a1", "u2": "a2"}


def test_a_broken_state_is_refused() -> None:
    with pytest.raises(ValueError, match="valid string"):
        PromptTracker().load_state_dict({"u0": 3})

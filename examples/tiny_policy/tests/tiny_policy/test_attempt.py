from __future__ import annotations

import pytest
from evoprompt_tiny.attempt import Attempt
from evoprompt_tiny.template import END, call_phrases

from evoprompt.types import Assignment, Candidate, Question, Trajectory, Turn

OPENING, CLOSING = call_phrases("look", "at")
CALLED = Turn(f"{OPENING}left{CLOSING}{END}", "17")
OF_FORM = ("malformed call", "out of turns", "wordy answer")


def attempt(*turns: Turn) -> Attempt:
    question = Question("q", "How many?", ("17",))
    asked = Assignment("a", question, Candidate("c", {"i": ""}), 1, "g")
    return Attempt(Trajectory(asked, 0.0, turns=turns), CLOSING)


@pytest.mark.parametrize(
    ("last", "called", "wrong", "diagnosis"),
    [
        (f"17{END}", False, False, ""),
        (f"71{END}", False, True, ""),
        (f"There are 17.{END}", False, False, "wordy answer"),
        (f"{OPENING}17{CLOSING}{END}", True, False, "out of turns"),
        (f'{OPENING}17"}}\n{END}', True, False, "malformed call"),
    ],
)
def test_the_last_turn_says_how_it_ended(
    last: str, called: bool, wrong: bool, diagnosis: str
) -> None:
    found = attempt(CALLED, Turn(last))
    assert (found.called, found.wrong) == (called, wrong)
    assert found.of_form == {name: name == diagnosis for name in OF_FORM}


def test_calls_are_all_turns_but_the_last() -> None:
    found = attempt(CALLED, CALLED, Turn("17"))
    assert list(found.calls) == [CALLED, CALLED]
    assert found.said == CALLED.action * 2

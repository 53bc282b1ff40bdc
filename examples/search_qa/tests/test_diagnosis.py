from __future__ import annotations

import pytest
from evoprompt_search_qa.diagnosis import diagnose

from evoprompt.types import Assignment, Candidate, Question, Trajectory, Turn

SINGLE = Question("q1", "what is the mayor of ulm ?", ("bo",))
NESTED = Question("q2", "what is the spouse of the mayor of ulm ?", ("al",))


def failed(question: Question, *turns: Turn) -> Trajectory:
    assignment = Assignment("a0", question, Candidate("c0", {"instruction": "x"}), 1, "g0")
    return Trajectory(assignment, 0.0, turns=turns)


def search(shown: str) -> Turn:
    return Turn("<search> mayor of ulm </search>", f"<information> {shown} </information>")


MAYOR = search("the mayor of ulm is bo .")
SPOUSE = search("the spouse of bo is al .")
NOTHING = search("the river of ulm is danube .")


@pytest.mark.parametrize(
    ("trajectory", "found"),
    [
        (failed(SINGLE, Turn("<answer> cy </answer>")), ["no search"]),
        (failed(NESTED, MAYOR, Turn("<answer> bo </answer>")), ["single search"]),
        (failed(SINGLE, NOTHING, Turn("<answer> cy </answer>")), ["answer not found"]),
        (failed(NESTED, MAYOR, NOTHING, Turn("<answer> bo </answer>")), ["answer not found"]),
        (failed(SINGLE, MAYOR, Turn("<answer> ulm </answer>")), ["evidence misread"]),
        (failed(SINGLE, MAYOR, Turn("bo </answer>")), ["malformed tags"]),
        (failed(SINGLE, MAYOR, Turn("<answer> it is bo </answer>")), ["wordy answer"]),
        (
            failed(NESTED, *[MAYOR] * 4, Turn("<search> x </search>")),
            ["answer not found", "out of turns"],
        ),
        (failed(NESTED, MAYOR, Turn("bo")), ["single search", "malformed tags"]),
        (failed(NESTED, MAYOR, SPOUSE, Turn("<answer> al </answer>")), []),
        (failed(SINGLE), []),
    ],
)
def test_a_failure_is_named_by_what_was_said_and_shown(
    trajectory: Trajectory, found: list[str]
) -> None:
    assert diagnose(trajectory) == found

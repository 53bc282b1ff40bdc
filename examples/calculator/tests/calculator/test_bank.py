from __future__ import annotations

import pytest
from evoprompt_calculator.bank import (
    CLOSING,
    OPENING,
    diagnose,
)

from evoprompt.types import Assignment, Candidate, Question, Trajectory, Turn

ONE = Question("q", "Mia has 3 pens. Mia loses 2 of them. How many?", ("1",))
TWO = Question("q", "Mia has 3 pens. Mia finds 5 more. Then 2 times. How many?", ("16",))
DOZEN = Question("q", "Mia has 3 dozen pens. Mia finds 5 more. How many?", ("41",))


def call(expression: str, result: str = "7") -> Turn:
    return Turn(OPENING + expression + CLOSING, f"<tool_response>\n{result}\n</tool_response>")


@pytest.mark.parametrize(
    ("question", "turns", "found"),
    [
        (ONE, [Turn("3")], ["no calculation"]),
        (ONE, [Turn("The answer is 1 pens.")], ["wordy answer"]),
        (ONE, [Turn("The answer is 3 pens.")], ["no calculation", "wordy answer"]),
        (TWO, [call("3+5*2"), Turn("13")], ["single calculation"]),
        (TWO, [call("3+5"), call("8*5"), Turn("40")], ["wrong number"]),
        (ONE, [call("3+2"), Turn("5")], ["wrong number"]),
        (DOZEN, [call("3+5"), Turn("8")], ["unit ignored"]),
        (DOZEN, [call("3*12"), call("36-5"), Turn("31")], ["wrong number"]),
        (ONE, [Turn(OPENING + '3+2"}\n</tool_call>')], ["malformed call"]),
        (ONE, [call("3-2"), call("3-2"), Turn(OPENING + "3-2" + CLOSING)], ["out of turns"]),
        (ONE, [call("3-2"), Turn("1<|im_end|>")], []),
        (ONE, [], []),
    ],
)
def test_failures_are_diagnosed(question: Question, turns: list[Turn], found: list[str]) -> None:
    asked = Assignment("a", question, Candidate("c", {"instruction": ""}), 1, "g")
    assert diagnose(Trajectory(asked, 0.0, turns=tuple(turns))) == found

from __future__ import annotations

import pytest
from evoprompt_sql.bank import (
    CLOSING,
    OPENING,
    diagnose,
)

from evoprompt.types import Assignment, Candidate, Question, Trajectory, Turn

YEAR = Question("q", "How many orders in 2021 are there?", ("17",))
TEA = Question("q", "How many orders of tea are there?", ("17",))
UNKNOWN = "Error: OperationalError: no such column: product"


def call(sql: str, result: str = "9") -> Turn:
    return Turn(OPENING + sql + CLOSING, f"<tool_response>\n{result}\n</tool_response>")


@pytest.mark.parametrize(
    ("question", "turns", "found"),
    [
        (YEAR, [Turn("3")], ["no query"]),
        (YEAR, [Turn("The answer is 17 orders.")], ["wordy answer"]),
        (YEAR, [call("year = 2021"), Turn("9")], ["wrong result"]),
        (YEAR, [call("SELECT COUNT(*) FROM orders"), Turn("9")], ["condition missing"]),
        (TEA, [call("product = 'tea'", UNKNOWN), Turn("0")], ["unknown column"]),
        (TEA, [Turn(OPENING + 'SELECT 1"}\n</tool_call>')], ["malformed call"]),
        (TEA, [call("SELECT 1"), Turn(OPENING + "SELECT 1" + CLOSING)], ["out of turns"]),
        (TEA, [call("SELECT 1"), Turn("17<|im_end|>")], []),
        (TEA, [], []),
    ],
)
def test_failures_are_diagnosed(question: Question, turns: list[Turn], found: list[str]) -> None:
    asked = Assignment("a", question, Candidate("c", {"instruction": ""}), 1, "g")
    assert diagnose(Trajectory(asked, 0.0, turns=tuple(turns))) == found

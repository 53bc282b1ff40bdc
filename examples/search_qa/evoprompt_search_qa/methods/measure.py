"""What is measured of an attempt."""

from __future__ import annotations

from evoprompt_search_qa import scoring
from evoprompt_search_qa.methods.play import Attempt

EXACT_MATCH = "exact_match"


def measure(attempt: Attempt) -> dict[str, float]:
    """All metrics of an attempt that has no ``error``, read from the policy's actions alone.

    The format is valid if every action of the policy asks or answers with all tags closed; what
    a method itself searched for is not the policy's.
    """
    turns, answers = attempt.turns, attempt.question.answers
    spoken = [turn for turn in turns if turn.action]
    return {
        EXACT_MATCH: scoring.exact_match(turns, answers),
        "f1": scoring.f1(turns, answers),
        "substring_match": scoring.substring_match(turns, answers),
        "valid_format": float(scoring.valid_format(spoken)),
        "tool_calls": float(attempt.searches),
    }

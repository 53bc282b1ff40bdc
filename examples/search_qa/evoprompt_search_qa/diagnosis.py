"""Diagnoses of failed episodes, only from their actions and observations."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt.types import Trajectory
from evoprompt_search_qa import protocol, scoring

DIAGNOSES = (
    "no search",
    "single search",
    "answer not found",
    "evidence misread",
    "malformed tags",
    "out of turns",
    "wordy answer",
)
"""All diagnoses, by the names of the bank's remedies."""


def diagnose(trajectory: Trajectory) -> list[str]:
    """Return the diagnoses that apply, keys of ``bank.REMEDIES``; empty if there are none.

    >>> from evoprompt.types import Assignment, Candidate, Question, Turn
    >>> question = Question("q", "what is the mayor of ulm ?", ("bo",))
    >>> assignment = Assignment("a", question, Candidate("c", {"i": ""}), 1, "g")
    >>> diagnose(Trajectory(assignment, 0.0, turns=(Turn("<answer> al </answer>"),)))
    ['no search']
    """
    turns = trajectory.turns
    if not turns:
        return []
    golds = trajectory.question.answers
    answer = protocol.find_answer(turns)
    searches = sum(bool(turn.observation) for turn in turns)
    evidence = f" {scoring.normalise(' '.join(protocol.evidence(turn) for turn in turns))} "
    has_gold = any(f" {scoring.normalise(gold)} " in evidence for gold in golds)
    out_of_turns = protocol.find_query(turns[-1].action) is not None
    nested = trajectory.question.text.count(" of ") > 1
    wordy = scoring.substring_match(turns, golds) > scoring.exact_match(turns, golds)
    applies = (
        searches == 0,
        searches == 1 and not has_gold and nested,
        searches > 0 and not has_gold and not (searches == 1 and nested),
        has_gold and answer is not None and not _names_gold(answer, golds),
        answer is None and not out_of_turns,
        out_of_turns,
        wordy,
    )
    return [name for name, applied in zip(DIAGNOSES, applies, strict=True) if applied]


def _names_gold(answer: str, golds: Sequence[str]) -> bool:
    return any(scoring.normalise(gold) in scoring.normalise(answer) for gold in golds)

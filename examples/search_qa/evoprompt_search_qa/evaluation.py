"""Metrics of an episode."""

from __future__ import annotations

from evoprompt.agents import Episode
from evoprompt.agents.tasks import MainMetric, Score
from evoprompt.types import Question
from evoprompt_search_qa import scoring

EXACT_MATCH = "exact_match"
MAIN_METRIC = MainMetric(EXACT_MATCH, "exact match")
"""Share of the questions that are answered right, by which both tasks compare."""


def measure(episode: Episode, question: Question) -> dict[str, float]:
    """Return all metrics of one episode, read only from the policy's actions.

    The format is valid if every action of the policy is a search or an answer with all tags closed;
    a method's own searches do not count as the policy's.
    """
    turns, answers = episode.turns, question.answers
    spoken = [turn for turn in turns if turn.action]
    return {
        EXACT_MATCH: scoring.exact_match(turns, answers),
        "f1": scoring.f1(turns, answers),
        "substring_match": scoring.substring_match(turns, answers),
        "valid_format": float(scoring.valid_format(spoken)),
        "tool_calls": float(episode.tool_calls),
        "response_tokens": float(sum(episode.policy_mask)),
    }


def score(episode: Episode, question: Question, kind: str) -> Score:
    """Score an episode with all metrics; the reward is the exact match."""
    measures = measure(episode, question)
    return Score(measures[EXACT_MATCH], metrics=measures, kind=kind)

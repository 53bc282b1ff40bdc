"""What is measured of episodes, and its means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from evoprompt.agents import Episode
from evoprompt.tasks import Evaluation, Headline
from evoprompt.types import Question
from evoprompt_search_qa import scoring

EXACT_MATCH = "exact_match"
HEADLINE = Headline(EXACT_MATCH, "exact match")
"""Share of the questions that are answered right, by which both tasks compare."""


def measure(episode: Episode, question: Question) -> dict[str, float]:
    """Everything that is measured of one episode, read from the policy's actions alone.

    The format is valid if every action of the policy asks or answers with all tags closed; what
    a method itself searched for is not the policy's.
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


def means(
    found: Sequence[Mapping[str, float]],
    strata: Sequence[str],
    unscored: float | None = None,
) -> Evaluation:
    """Means of what :func:`measure` found; exact match also by stratum.

    Args:
        found: one mapping per episode, at least one.
        strata: of each the group it belongs to.
        unscored: share of the questions that are not in ``found``; None where all always are.
    """
    exact = [measures[EXACT_MATCH] for measures in found]
    by_stratum: dict[str, list[float]] = {}
    for stratum, value in zip(strata, exact, strict=True):
        by_stratum.setdefault(stratum, []).append(value)
    others = {
        name: fmean(measures[name] for measures in found)
        for name in found[0]
        if name != EXACT_MATCH
    }
    return Evaluation(
        value=fmean(exact),
        by_stratum={name: fmean(by_stratum[name]) for name in sorted(by_stratum)},
        metrics=others if unscored is None else {**others, "unscored": unscored},
    )

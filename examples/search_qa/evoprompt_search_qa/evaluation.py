"""What is measured of episodes, and its means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from evoprompt.agents import Episode
from evoprompt.tasks import Evaluation
from evoprompt.types import Question
from evoprompt_search_qa import scoring

EXACT_MATCH = "exact_match"


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


def means(found: Sequence[Mapping[str, float]], strata: Sequence[str]) -> Evaluation:
    """Means of what :func:`measure` found; exact match also by stratum.

    Args:
        found: one mapping an episode, at least one.
        strata: of each the group it belongs to.
    """
    exact = [measures["exact_match"] for measures in found]
    by_stratum: dict[str, list[float]] = {}
    for stratum, value in zip(strata, exact, strict=True):
        by_stratum.setdefault(stratum, []).append(value)
    return {
        "exact_match": fmean(exact),
        **{f"exact_match/{name}": fmean(by_stratum[name]) for name in sorted(by_stratum)},
        **{
            name: fmean(measures[name] for measures in found)
            for name in found[0]
            if name != "exact_match"
        },
    }

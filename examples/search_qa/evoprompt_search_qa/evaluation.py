"""Greedy evaluation of a policy under an instruction."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from evoprompt.tasks import Evaluation
from evoprompt.types import Question
from evoprompt_search_qa import protocol, scoring
from evoprompt_search_qa.agent import Episode, SearchAgent


def evaluate(agent: SearchAgent, instruction: str, questions: Sequence[Question]) -> Evaluation:
    """Means over ``questions``; exact match also by number of hops, as ``exact_match/1``."""
    prompts = [protocol.plain_prompt(instruction, question.text) for question in questions]
    episodes = agent.run(prompts, greedy=True)
    exact = [
        scoring.exact_match(episode.turns, question.answers)
        for episode, question in zip(episodes, questions, strict=True)
    ]
    by_hops: dict[str, list[float]] = {}
    for question, value in zip(questions, exact, strict=True):
        by_hops.setdefault(str(question.row["hops"]), []).append(value)
    return {
        "exact_match": fmean(exact),
        **{f"exact_match/{hops}": fmean(by_hops[hops]) for hops in sorted(by_hops)},
        "f1": _mean(scoring.f1, episodes, questions),
        "substring_match": _mean(scoring.substring_match, episodes, questions),
        "valid_format": fmean(scoring.valid_format(episode.turns) for episode in episodes),
        "tool_calls": fmean(episode.searches for episode in episodes),
        "response_tokens": fmean(sum(episode.policy_mask) for episode in episodes),
    }


def _mean(
    metric: scoring.Metric, episodes: Sequence[Episode], questions: Sequence[Question]
) -> float:
    pairs = zip(episodes, questions, strict=True)
    return fmean(metric(episode.turns, question.answers) for episode, question in pairs)

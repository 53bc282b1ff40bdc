"""Greedy evaluation of a tiny policy under an instruction."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt.agents.tasks import Evaluation
from evoprompt.types import Question
from evoprompt_search_qa import protocol
from evoprompt_search_qa.evaluation import HEADLINE, score
from evoprompt_search_qa.tiny.agent import SearchAgent


def evaluate(agent: SearchAgent, instruction: str, questions: Sequence[Question]) -> Evaluation:
    """Means over ``questions``; the strata are the numbers of hops."""
    prompts = [protocol.plain_prompt(instruction, question.text) for question in questions]
    episodes = agent.run(prompts, greedy=True)
    found = [
        score(episode, question, str(question.row["hops"]))
        for episode, question in zip(episodes, questions, strict=True)
    ]
    return Evaluation.of(found, HEADLINE)

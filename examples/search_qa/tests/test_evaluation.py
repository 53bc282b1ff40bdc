from __future__ import annotations

import pytest
from evoprompt_search_qa.evaluation import measure, score

from evoprompt.agents import Episode
from evoprompt.types import Question, Turn


def test_everything_is_measured_of_what_the_policy_wrote() -> None:
    episode = Episode(
        prompt_ids=[1, 2],
        completion_ids=[3, 4, 5, 6],
        policy_mask=[1, 1, 0, 1],
        turns=[
            Turn("<search> rivers </search>", "<information> the Rhine </information>"),
            Turn("<answer> the Rhine river </answer>"),
        ],
        end="answered",
    )
    assert measure(episode, Question("q", "which river ?", ("Rhine",))) == {
        "exact_match": 0.0,
        "f1": pytest.approx(2 / 3),
        "substring_match": 1.0,
        "valid_format": 1.0,
        "tool_calls": 1.0,
        "response_tokens": 3.0,
    }


def test_the_reward_is_the_exact_match() -> None:
    episode = Episode([1], [2], [1], turns=[Turn("<answer> Rhine </answer>")], end="answered")
    found = score(episode, Question("q", "which river ?", ("Rhine",)), "2")
    assert (found.reward, found.metrics["exact_match"], found.stratum) == (1.0, 1.0, "2")

from __future__ import annotations

import pytest
from evoprompt_search_qa.evaluation import means, measure

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


def test_wholeare_over_all_and_exact_match_also_by_stratum() -> None:
    found = [{"exact_match": right, "f1": 0.5 * right} for right in (1.0, 0.0, 1.0, 0.0)]
    whole = means(found, ["2", "1", "1", "1"])
    assert whole.value == 0.5
    assert list(whole.by_stratum.items()) == [("1", pytest.approx(1 / 3)), ("2", 1.0)]
    assert whole.metrics == {"f1": 0.25}
    assert means(found, ["1"] * 4, unscored=0.2).metrics == {"f1": 0.25, "unscored": 0.2}

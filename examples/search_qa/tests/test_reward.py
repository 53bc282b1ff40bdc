from __future__ import annotations

from evoprompt_search_qa.reward import exact_match

from evoprompt.agents import Episode
from evoprompt.types import Turn


def test_a_broken_tool_is_no_reward() -> None:
    right = Episode([1], turns=[Turn("<answer> a </answer>")], end="answered")
    wrong = Episode([1], turns=[Turn("<answer> b </answer>")], end="answered")
    broken = Episode([1], turns=[Turn("<search> q </search>")], end="failed")
    assert exact_match([right, wrong, broken], [["a"]] * 3) == [1.0, 0.0, None]

"""The numbers of docs/results-house-rules.md, from the replies that were recorded."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from statistics import fmean, stdev

import pytest
from evoprompt_sql.house import HouseRules, HouseSettings

from evoprompt.agents import Episode

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs" / "results-house-rules.md").read_text(encoding="utf-8")
ROWS = [
    json.loads(line)
    for line in (ROOT / "examples/sql/results/house-rules.jsonl").read_text("utf-8").splitlines()
]
SHOWN = re.findall(r"^\| shop (\d+), ([a-z -]+?) \| (-?\.\d+) ± (\.\d+) \|", PAGE, re.MULTILINE)


@cache
def rewards(shop: int, arm: str) -> dict[str, float]:
    """The reward of every reply, by question, computed again."""
    task = HouseRules(HouseSettings(shop=shop, test=120))
    questions = {one.id: one for one in task.questions("test")}
    return {
        row["question"]: task.score(
            Episode([], answer=row["said"]), questions[row["question"]]
        ).reward
        for row in ROWS
        if (row["shop"], row["arm"]) == (shop, arm)
    }


def test_every_recorded_reward_is_what_the_task_says_of_the_reply() -> None:
    for row in ROWS:
        again = rewards(row["shop"], row["arm"])[row["question"]]
        assert again == row["reward"], row


@pytest.mark.parametrize(("shop", "what", "mean", "half"), SHOWN)
def test_the_number_shown_is_that_of_the_replies(
    shop: str, what: str, mean: str, half: str
) -> None:
    first, _, second = what.partition(" - ")
    found = rewards(int(shop), first)
    beside = rewards(int(shop), second) if second else dict.fromkeys(found, 0.0)
    assert found.keys() == beside.keys()
    differences = [found[question] - beside[question] for question in found]
    interval = 1.96 * stdev(differences) / len(differences) ** 0.5
    assert f"{fmean(differences):.3f} ± {interval:.3f}" == f"{float(mean):.3f} ± {float(half):.3f}"


def test_the_page_shows_every_arm() -> None:
    assert {(int(shop), what) for shop, what, *_ in SHOWN} >= {
        (row["shop"], row["arm"]) for row in ROWS
    }

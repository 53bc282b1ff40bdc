from __future__ import annotations

from pathlib import Path

import pytest
from evoprompt_sql.house import EASY, RULED, HouseRules, HouseSettings, Rules
from evoprompt_tiny.task import KIND

from evoprompt.agents import Episode
from evoprompt.agents.tasks import Score
from evoprompt.experiments.config import load
from evoprompt.experiments.testing import TaskSuite
from evoprompt.support.errors import InputError
from evoprompt.types import Question

SMALL = HouseSettings(train=40, validation=20, test=20)


class TestHouseRules(TaskSuite):
    def build(self) -> HouseRules:
        return HouseRules(SMALL)


def task(shop: int) -> HouseRules:
    return HouseRules(SMALL.model_copy(update={"shop": shop}))


def scored(task: HouseRules, answer: str, question: Question) -> Score:
    return task.score(Episode([], answer=answer), question)


def test_seeds_draw_two_or_three_of_five_rules() -> None:
    drawn = [Rules.draw(seed) for seed in range(60)]
    usual = Rules()
    held = [
        {name for name in Rules.__slots__ if getattr(one, name) != getattr(usual, name)}
        for one in drawn
    ]
    assert {len(one) for one in held} == {2, 3}
    assert set.union(*held) == set(Rules.__slots__)
    assert Rules.draw(5) == Rules.draw(5)


@pytest.mark.parametrize("name", ["small.yaml", "house.yaml", "trained.yaml"])
def test_a_shop_has_as_many_questions_as_a_run_file_asks_for(name: str) -> None:
    settings = dict(load(Path(__file__).parents[2] / name).task)
    assert settings.pop("name") == "house-rules"
    chosen = HouseSettings.model_validate(settings)
    questions = HouseRules(chosen).splits
    assert {split: len(rows) for split, rows in questions.items()} == chosen.sizes


def test_more_questions_than_a_shop_has_are_refused() -> None:
    message = r"train 1000, and shop 1 has only \d+ different .*; lower task\.train"
    with pytest.raises(InputError, match=message):
        _ = HouseRules(HouseSettings(train=1000)).splits


@pytest.mark.parametrize("shop", range(6))
def test_who_knows_the_rules_is_right_and_who_does_not_only_where_none_matters(shop: int) -> None:
    of_shop = task(shop)
    for question in of_shop.questions("train"):
        knowing = scored(of_shop, f"```sql\n{question.row['sql']};\n```", question)
        assert (knowing.reward, knowing.feedback) == (1.0, "")
        naive = scored(of_shop, str(question.row["naive"]), question)
        assert naive.reward == (question.row[KIND] == EASY)


def test_a_quarter_of_the_questions_is_easy() -> None:
    kinds = [question.row[KIND] for question in task(1).questions("train")]
    assert (kinds.count(EASY), kinds.count(RULED)) == (10, 30)


def test_a_failure_shows_what_was_found_what_is_right_and_a_row_that_must_not_count() -> None:
    shop = next(number for number in range(99) if Rules.draw(number).never)
    of_shop = task(shop)
    question = next(
        question for question in of_shop.questions("train") if question.row[KIND] == RULED
    )
    told = scored(of_shop, "SELECT 1 + 1", question).feedback
    assert "found: 2. Right is: " + question.answers[0] in told
    assert "that counts: " in told
    must_not = told.partition("must not count: ")[2]
    assert must_not.endswith(f"{of_shop.rules.never}.")


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("There are many.", "syntax error"),
        ("SELECT id FROM orders", "found: 1\n2\n3"),
        ("DELETE FROM orders", "not authorized"),
        ("", "found: no rows"),
    ],
)
def test_what_is_no_query_for_one_number_is_wrong_and_says_why(answer: str, why: str) -> None:
    of_shop = task(1)
    found = scored(of_shop, answer, of_shop.questions("train")[0])
    assert found.reward == 0
    assert why in found.feedback

from __future__ import annotations

import pytest
from evoprompt_sql.task import PRETRAINING_SHOPS, Sql, SqlSettings
from pydantic import ValidationError

from evoprompt.agents import Episode
from evoprompt.errors import InputError
from evoprompt.testing import TaskSuite
from evoprompt.types import Turn

SMALL = SqlSettings(train=20, validation=10, test=10)


class TestSql(TaskSuite):
    def build(self) -> Sql:
        return Sql(SMALL)


@pytest.fixture(scope="module")
def task() -> Sql:
    return Sql(SMALL)


@pytest.mark.parametrize(
    ("answer", "reward"), [("{}", 1.0), ("{}.0", 0.0), ("The answer is {} orders.", 0.0), ("", 0.0)]
)
def test_only_the_number_alone_counts(task: Sql, answer: str, reward: float) -> None:
    question = task.questions("test")[0]
    said = answer.format(question.answers[0]) or None
    episode = Episode([1], turns=[Turn(said or "")], end="answered", answer=said)
    score = task.score(episode, question)
    assert (score.reward, score.metrics["accuracy"]) == (reward, reward)
    assert score.stratum in ("one table", "two tables", "three tables")
    assert bool(score.feedback) is (reward == 0.0)


def test_feedback_says_what_was_expected_and_what_came(task: Sql) -> None:
    question = task.questions("test")[0]
    episode = Episode([1], end="out of turns")
    assert task.score(episode, question).feedback == (
        f"expected {question.answers[0]}, got no answer: out of turns"
    )


def test_the_tool_is_called_by_the_name_that_the_policy_is_shown(task: Sql) -> None:
    (tool,) = task.tools
    assert tool.__name__ == "query"
    assert tool("SELECT COUNT(*) FROM products") == "40"


def test_an_unknown_split_is_an_error_that_names_the_others(task: Sql) -> None:
    with pytest.raises(InputError, match="one of test, validation, train"):
        task.questions("dev")


def test_shops_of_pretraining_are_refused() -> None:
    with pytest.raises(ValidationError, match="required: another seed"):
        SqlSettings(shop=PRETRAINING_SHOPS.start)

from __future__ import annotations

import pytest
from evoprompt_sql.bank import (
    BANK,
    DESCRIPTION_BANK,
    GOOD_IDEAS,
    SEED_IDEAS,
    WRONG_DESCRIPTION,
)
from evoprompt_sql.task import PRETRAINING_SHOPS, Sql, SqlSettings
from evoprompt_tiny.instructions import compose
from pydantic import ValidationError

from evoprompt.experiments.testing import TaskSuite

SMALL = SqlSettings(train=20, validation=10, test=10)


class TestSql(TaskSuite):
    def build(self) -> Sql:
        return Sql(SMALL)


class TestSqlWithAWrongDescription(TaskSuite):
    def build(self) -> Sql:
        return Sql(SMALL.model_copy(update={"wrong_description": True}))


@pytest.fixture(scope="module")
def task() -> Sql:
    return Sql(SMALL)


def test_the_tool_is_called_by_the_name_that_the_policy_is_shown(task: Sql) -> None:
    (tool,) = task.tools
    assert tool.__name__ == "query"
    assert tool("SELECT COUNT(*) FROM products") == "40"


def test_shops_of_pretraining_are_refused() -> None:
    with pytest.raises(ValidationError, match="required: another seed"):
        SqlSettings(shop=PRETRAINING_SHOPS.start)


def test_a_wrong_description_is_where_the_tool_starts_if_that_is_chosen() -> None:
    task = Sql(SMALL.model_copy(update={"wrong_description": True}))
    assert task.seeds == [
        {"instruction": compose(BANK, GOOD_IDEAS), "tool:query": WRONG_DESCRIPTION}
    ]
    assert task.bank is DESCRIPTION_BANK
    assert DESCRIPTION_BANK.component == "tool:query"


def test_the_usual_description_does_not_evolve(task: Sql) -> None:
    assert task.seeds == (compose(BANK, SEED_IDEAS),)
    assert not task.evolving_tools

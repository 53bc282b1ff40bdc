from __future__ import annotations

import pytest
from evoprompt_sql.bank import (
    BANK,
    DESCRIPTION_BANK,
    GOOD_IDEAS,
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

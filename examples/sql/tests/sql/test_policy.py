from __future__ import annotations

from evoprompt_sql.bank import (
    BANK,
    DESCRIPTION_BANK,
    GOOD_IDEAS,
    SEED_IDEAS,
    WRONG_DESCRIPTION,
)
from evoprompt_sql.pretrain import demonstrations, tokenizer
from evoprompt_sql.task import WEIGHTS, Sql, SqlSettings
from evoprompt_tiny.instructions import compose
from evoprompt_tiny.pretrain import Draw
from evoprompt_tiny.testing import PolicySuite, solved
from transformers import PreTrainedTokenizerFast

from evoprompt.types import INSTRUCTION

TASK = Sql(SqlSettings(shop=11, validation=80))
RIGHT = DESCRIPTION_BANK.sentences["ids-in-orders"][0]


class TestPolicy(PolicySuite):
    weights = WEIGHTS
    banks = (BANK, DESCRIPTION_BANK)
    digest = "2034536995d08570"

    def build_tokenizer(self) -> PreTrainedTokenizerFast:
        return tokenizer()

    def build_draw(self, tokenizer: PreTrainedTokenizerFast) -> Draw:
        return demonstrations(tokenizer)


def solved_under(description: str) -> float:
    """Share of questions solved with a good instruction and that description of the tool."""
    good = {INSTRUCTION: compose(BANK, GOOD_IDEAS), DESCRIPTION_BANK.component: description}
    return solved(TASK, WEIGHTS, good)


def test_what_the_policy_does_depends_on_the_instruction() -> None:
    assert solved(TASK, WEIGHTS, compose(BANK, SEED_IDEAS)) < 0.2
    assert solved(TASK, WEIGHTS, compose(BANK, GOOD_IDEAS)) > 0.6


def test_what_the_policy_does_depends_on_the_description_of_the_tool() -> None:
    assert solved_under(WRONG_DESCRIPTION) < 0.45
    assert solved_under(RIGHT) > 0.6
    assert solved_under(f"{WRONG_DESCRIPTION} {RIGHT}") > 0.6

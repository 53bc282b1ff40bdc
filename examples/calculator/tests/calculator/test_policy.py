from __future__ import annotations

from evoprompt_calculator.bank import BANK, GOOD_IDEAS, SEED_IDEAS
from evoprompt_calculator.pretrain import demonstrations, tokenizer
from evoprompt_calculator.task import WEIGHTS, Calculator, CalculatorSettings
from evoprompt_tiny.instructions import compose
from evoprompt_tiny.pretrain import Draw
from evoprompt_tiny.testing import PolicySuite, solved
from transformers import PreTrainedTokenizerFast

TASK = Calculator(CalculatorSettings(world=11, validation=80))


class TestPolicy(PolicySuite):
    weights = WEIGHTS
    banks = (BANK,)
    digest = "a2047976435b7333"

    def build_tokenizer(self) -> PreTrainedTokenizerFast:
        return tokenizer()

    def build_draw(self, tokenizer: PreTrainedTokenizerFast) -> Draw:
        return demonstrations(tokenizer)


def test_what_the_policy_does_depends_on_the_instruction() -> None:
    assert solved(TASK, WEIGHTS, compose(BANK, SEED_IDEAS)) < 0.2
    assert solved(TASK, WEIGHTS, compose(BANK, GOOD_IDEAS)) > 0.7

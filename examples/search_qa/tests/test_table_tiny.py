"""The miniature Table 1: its configuration says what the methods themselves would say."""

from __future__ import annotations

from pathlib import Path

from evoprompt_search_qa import bank
from evoprompt_search_qa.methods.registry import METHODS
from evoprompt_search_qa.methods.tiny import TINY

from evoprompt.runs.config import load

CONFIG = Path(__file__).parents[1] / "table-tiny.yaml"


def test_it_has_a_row_for_every_method_with_the_method_s_own_instruction() -> None:
    config = load(CONFIG)
    prompted = {
        str(config.host_of(name)["method"]): arm.instructions
        for name, arm in config.arms.items()
        if config.host_of(name)["name"] == "prompted" and name != "agent-by-hand"
    }
    seed = bank.compose(bank.SEED_IDEAS)
    assert set(prompted) == set(METHODS)
    for method, given in prompted.items():
        assert (given or (seed,)) == (TINY.instructions[method],)
    assert config.arms["agent-by-hand"].instructions == (bank.compose(bank.GOOD_IDEAS),)


def test_what_is_compared_costs_the_same() -> None:
    config = load(CONFIG)
    for name, arm in config.arms.items():
        before = config.budget_of(arm.after) if arm.after else 0
        if name not in {other.after for other in config.arms.values()}:
            assert config.budget_of(name) + before == config.budget
    assert config.seeds == (0, 1, 2)

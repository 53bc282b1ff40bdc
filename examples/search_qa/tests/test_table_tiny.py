"""The miniature Table 1: its configuration says what the methods themselves would say."""

from __future__ import annotations

from pathlib import Path

import pytest
from evoprompt_search_qa import bank
from evoprompt_search_qa.harness.table import Table
from evoprompt_search_qa.methods.registry import METHODS
from evoprompt_search_qa.methods.tiny import TINY

from evoprompt.experiments.cli import main
from evoprompt.experiments.config import load

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


def test_hosts_of_every_kind_make_one_table(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    arms = ("rag", "sft", "grpo-no-tool", "rejection")
    only = [word for arm in arms for word in ("--arm", arm)]
    smaller = ("--set", "smoke.budget=80", "--set", "smoke.evaluate_every=80")
    commands: tuple[list[str], ...] = (
        ["run", str(CONFIG), "--smoke", "--output", run, *only, *smaller],
        ["search-qa", "table", run],
    )
    for command in commands:
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert ended.value.code == 0
    table = Table.model_validate_json((tmp_path / "run" / "table.json").read_text())
    assert table.columns == ("1-hop", "2-hop", "3-hop", "average")
    assert [row.name for row in table.rows] == list(arms)
    values = {row.name: [cell.value or 0.0 for cell in row.cells] for row in table.rows}
    assert values["rag"][0] > 0.8
    assert values["rag"][1] < 0.2
    assert values["grpo-no-tool"] == [0.0] * 4

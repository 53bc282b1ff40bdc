"""The miniature Table 1: what is compared costs the same, and the methods answer as they did."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evoprompt.experiments.cli import main
from evoprompt.experiments.config import load

CONFIG = Path(__file__).parents[1] / "table-tiny.yaml"


def test_what_is_compared_costs_the_same() -> None:
    config = load(CONFIG)
    for name, arm in config.arms.items():
        before = config.budget_of(arm.after) if arm.after else 0
        if name not in {other.after for other in config.arms.values()}:
            assert config.budget_of(name) + before == config.budget
    assert config.seeds == (0, 1, 2)


def test_the_methods_of_the_tiny_policy(tmp_path: Path) -> None:
    out = tmp_path / "out"
    tiny = str(CONFIG.with_name("tiny.yaml"))
    with pytest.raises(SystemExit) as ended:
        main(["eval", tiny, "--output", str(out), "--methods", "all", "--limit", "8"])
    assert ended.value.code == 0
    table = json.loads((out / "table.json").read_text())
    assert table["columns"] == ["1", "2", "3", "average"]
    found = {name: [cell["value"] for cell in cells] for name, cells in table["rows"].items()}
    assert found["Direct"] == found["Chain of thought"] == [0.0] * 4
    assert found["RAG"] == found["IRCoT"] == pytest.approx([1.0, 0.0, 0.0, 1 / 3])
    assert min(found["Search-o1"]) > 0.3
    assert found["Agent"][1] < 0.2
    assert table["calls"]["RAG"] == 1.0
    assert table["calls"]["Direct"] == 0.0

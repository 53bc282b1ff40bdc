"""The searches for words on a frozen policy end within their rollouts, with a text of the task."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.words_first import main

CONFIG = Path(__file__).parents[2] / "examples" / "calculator" / "order.yaml"


@pytest.mark.parametrize("search", ["optimize", "gepa"])
def test_a_search_prints_its_text_and_keeps_its_budget(
    search: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = ["--budget", "40", "--validation", "10", "--set", "task.test=20"]
    monkeypatch.setattr("sys.argv", ["words_first", str(CONFIG), search, *numbers])
    main()
    printed = capsys.readouterr()
    assert "calculator" in printed.out
    count = int(printed.err.rpartition(": ")[2].split()[0])
    iteration = 2 * 3 + 10  # of GEPA: parent and child on three questions, and a validation
    assert 10 < count <= 40 + iteration

"""The searches for words on a frozen policy end within their rollouts, with a text of the task."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.words_first import main

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIG = EXAMPLES / "calculator" / "order.yaml"


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


def test_an_arm_without_a_proposer_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first_arm_is_static = EXAMPLES / "search_qa" / "tiny.yaml"
    monkeypatch.setattr("sys.argv", ["words_first", str(first_arm_is_static), "optimize"])
    with pytest.raises(SystemExit):
        main()
    assert "arm 'static' has no proposer" in capsys.readouterr().err

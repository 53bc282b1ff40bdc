"""``evoprompt demo`` runs the recipe that comes with the package."""

from __future__ import annotations

from pathlib import Path

import pytest
from evoprompt_search_qa.demo import RECIPE

from evoprompt.experiments.cli import main


def test_it_takes_the_options_of_run_and_writes_where_it_is_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(["demo", "--dry-run", "--arm", "coevolve", "--set", "budget=1234"])
    said = capsys.readouterr().out
    assert ended.value.code == 0
    assert "nothing is missing" in said
    assert "1,234" in said


def test_its_recipe_is_that_of_the_example() -> None:
    example = Path(__file__).parents[1] / "tiny.yaml"
    assert RECIPE.read_text(encoding="utf-8") == example.read_text(encoding="utf-8")

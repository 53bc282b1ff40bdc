from __future__ import annotations

from pathlib import Path

from evoprompt_search_qa.commands import app
from typer.testing import CliRunner


def test_pretraining_writes_a_policy(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["pretrain", "--output", str(tmp_path), "--steps", "2"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "model.safetensors").is_file()
    assert f"wrote {tmp_path}" in result.output.replace("\n", "")


def test_impossible_numbers_are_refused() -> None:
    assert CliRunner().invoke(app, ["pretrain", "--steps", "0"]).exit_code == 2

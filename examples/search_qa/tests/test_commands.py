from __future__ import annotations

from pathlib import Path

import pytest
from evoprompt_search_qa.commands import app
from typer.testing import CliRunner

from evoprompt.errors import InputError


def test_pretraining_writes_a_policy(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["pretrain", "--output", str(tmp_path), "--steps", "2"])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "model.safetensors").is_file()
    assert f"wrote {tmp_path}" in result.output.replace("\n", "")


def test_a_dry_pretraining_trains_nothing(tmp_path: Path) -> None:
    output = tmp_path / "policy"
    ended = CliRunner().invoke(app, ["pretrain", "--output", str(output), "--dry-run"])
    assert ended.exit_code == 0, ended.output
    assert "policy: tiny, " in ended.output
    assert not output.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--size", "smal", "--output", "x"], "did you mean 'small'"),
        (["--size", "small"], "the folder of the shipped policy"),
    ],
)
def test_what_cannot_be_made_is_refused(arguments: list[str], said: str) -> None:
    ended = CliRunner().invoke(app, ["pretrain", *arguments])
    assert isinstance(ended.exception, InputError)
    assert said in str(ended.exception)


def test_impossible_numbers_are_refused() -> None:
    assert CliRunner().invoke(app, ["pretrain", "--steps", "0"]).exit_code == 2

"""Every command of the example refuses every wrong path in one line and with exit code 2."""

from __future__ import annotations

from pathlib import Path

import pytest
from wrong_paths import Option, leaves, path_parameters, require_refusals

PATHS: dict[str, dict[str, Option]] = {
    "data prepare": {"output": Option("output", ("--source", "{}/questions"))},
    "pretrain": {"output": Option("output", ("--steps", "1"))},
}


def test_every_command_and_every_path_that_it_takes_has_a_row() -> None:
    found = {
        typed.removeprefix("search-qa "): path_parameters(command)
        for typed, command in leaves().items()
        if typed.startswith("search-qa ")
    }
    assert found == {typed: set(options) for typed, options in PATHS.items()}


@pytest.mark.parametrize(
    ("typed", "name"), [(typed, name) for typed, options in PATHS.items() for name in options]
)
def test_a_wrong_path_is_refused_in_one_line(
    typed: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    questions = tmp_path / "questions"
    questions.mkdir()
    require_refusals(capsys, f"search-qa {typed}", name, PATHS[typed][name], tmp_path)

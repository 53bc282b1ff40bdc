"""A damaged file of a checkpoint is named in one line, whoever wrote it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from bytewise import bytewise
from command_line import text_of
from safetensors.torch import save_file

from evoprompt.agents.recipe import Recipe
from evoprompt.support.errors import InputError, StateError
from evoprompt.support.storage import RECIPE_FILE, STATE_FILE, load_state, save_state
from evoprompt.support.trainer_files import require_readable

RECIPE = Recipe(
    candidate="c0", components={"instruction": "Be brief."}, placement="append", template=None
)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A checkpoint with weights, tokenizer, optimizer and evoprompt's files."""
    folder = tmp_path / "checkpoint-1"
    bytewise().save_pretrained(folder)
    save_file({"w": torch.zeros(64)}, folder / "model.safetensors")
    torch.save({"w": torch.zeros(64)}, folder / "optimizer.pt")
    (folder / "config.json").write_text("{}")
    save_state(folder / RECIPE_FILE, RECIPE.model_dump(mode="json"))
    save_state(folder / STATE_FILE, {"step": 7, "weights": [0.5, 0.25]})
    return folder


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def nested(file: Path) -> None:
    file.write_text("[" * 100_000)


def emptied(file: Path) -> None:
    file.write_text("")


def replaced(file: Path) -> None:
    file.write_text("{}")


@pytest.mark.parametrize("damage", [cut_short, nested, emptied])
@pytest.mark.parametrize(
    "name",
    ["config.json", "tokenizer_config.json", "model.safetensors", "optimizer.pt", RECIPE_FILE],
)
def test_export_names_the_damaged_file_in_one_line(
    checkpoint: Path,
    name: str,
    damage: Callable[[Path], None],
) -> None:
    damage(checkpoint / name)
    text = text_of("export", checkpoint, checkpoint.parent / "out", code=2)
    assert "Traceback" not in text
    assert name in "".join(text.split())
    assert not (checkpoint.parent / "out").exists()


def test_export_names_a_tokenizer_of_another_form(checkpoint: Path) -> None:
    for file in checkpoint.glob("*token*.json"):
        replaced(file)
    text = text_of("export", checkpoint, checkpoint.parent / "out", code=2)
    assert "Traceback" not in text
    assert "tokenizer in" in " ".join(text.split())


def test_a_checkpoint_that_is_whole_is_readable(checkpoint: Path) -> None:
    require_readable(checkpoint, "")
    assert Recipe.read(checkpoint) == RECIPE
    assert load_state(checkpoint / STATE_FILE) == {"step": 7, "weights": [0.5, 0.25]}


def test_a_number_that_was_changed_is_found_by_the_checksum(checkpoint: Path) -> None:
    state = checkpoint / STATE_FILE
    state.write_text(state.read_text().replace("0.25", "0.26"))
    with pytest.raises(StateError, match=rf"{STATE_FILE} .*do not match its checksum"):
        load_state(state)
    recipe = checkpoint / RECIPE_FILE
    recipe.write_text(recipe.read_text().replace("brief", "short"))
    with pytest.raises(InputError, match=rf"{RECIPE_FILE} is damaged .*checksum"):
        Recipe.read(checkpoint)


def test_a_file_without_a_checksum_is_read(checkpoint: Path) -> None:
    (checkpoint / STATE_FILE).write_text(json.dumps({"step": 8}))
    assert load_state(checkpoint / STATE_FILE) == {"step": 8}

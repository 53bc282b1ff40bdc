from __future__ import annotations

from pathlib import Path

import pytest

from evoprompt.agents.recipe import Recipe
from evoprompt.experiments.export import export
from evoprompt.experiments.export.card import tool_parser
from evoprompt.experiments.export.source import checkpoint_of
from evoprompt.support.errors import InputError
from evoprompt.support.storage import RECIPE_FILE

RECIPE = Recipe(
    candidate="c0", components={"instruction": "Be brief."}, placement="append", template="{{ 1 }}"
)


def saved(folder: Path) -> Path:
    """A checkpoint without weights."""
    folder.mkdir(parents=True)
    (folder / RECIPE_FILE).write_text(RECIPE.model_dump_json())
    return folder


def test_of_a_trainers_output_it_is_the_newest_checkpoint_that_can_be_exported(
    tmp_path: Path,
) -> None:
    for name in ("checkpoint-9", "checkpoint-10"):
        saved(tmp_path / name)
    (tmp_path / "checkpoint-11").mkdir()
    assert checkpoint_of(tmp_path) == tmp_path / "checkpoint-10"
    assert checkpoint_of(tmp_path / "checkpoint-9") == tmp_path / "checkpoint-9"


def test_what_cannot_be_exported_is_named_with_what_would_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can be exported; required: a run, a checkpoint or"):
        checkpoint_of(tmp_path)
    saved(tmp_path / "checkpoint-1")
    with pytest.raises(InputError, match=r"holds no weights; required: .*verl\.model_merger"):
        export(tmp_path, tmp_path / "out")
    assert not list(tmp_path.glob("*out*"))
    with pytest.raises(InputError, match="holds something; required: a new or empty folder"):
        export(tmp_path, tmp_path)
    optimization = tmp_path / "optimized"
    optimization.mkdir()
    (optimization / "settings.yaml").write_text("x: 1\n")
    with pytest.raises(InputError, match=r"trains no weights to export; .* evoprompt best"):
        checkpoint_of(optimization)


@pytest.mark.parametrize(
    ("template", "parser"),
    [("<tool_call>\n{", "hermes"), ("<tool_call><function=", "qwen3_coder"), ("tools", None)],
)
def test_the_parser_of_tool_calls_is_read_off_the_template(
    template: str, parser: str | None
) -> None:
    assert tool_parser(template) == parser

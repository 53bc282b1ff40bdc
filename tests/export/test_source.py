from __future__ import annotations

from pathlib import Path

import pytest

from evoprompt.errors import InputError
from evoprompt.experiments.export.delivery import deliver
from evoprompt.experiments.export.folder import write_artefact
from evoprompt.experiments.export.recipe import Recipe
from evoprompt.experiments.export.serving import tool_parser
from evoprompt.experiments.export.shards import merge_shards
from evoprompt.experiments.export.source import export_of

RECIPE = Recipe(
    candidate="c0", components={"instruction": "Be brief."}, placement="append", template="{{ 1 }}"
)


def test_of_a_trainers_output_it_is_the_newest_whole_checkpoint(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    (saved / "model.safetensors").write_text("weights")
    for name in ("checkpoint-9", "checkpoint-10"):
        write_artefact(tmp_path / name / "export", saved, RECIPE, [])
    (tmp_path / "checkpoint-11").mkdir()
    assert export_of(tmp_path) == tmp_path / "checkpoint-10" / "export"
    assert export_of(tmp_path / "checkpoint-9") == tmp_path / "checkpoint-9" / "export"


def test_a_folder_without_an_export_is_named_with_what_would_do(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no export; required: a run, a checkpoint or"):
        export_of(tmp_path)


def test_nothing_that_is_there_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(InputError, match="holds something; required: a new or empty folder"):
        deliver(tmp_path, tmp_path, None, None, merge=False)


def test_an_export_without_weights_is_not_delivered(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    write_artefact(tmp_path / "checkpoint-1" / "export", saved, RECIPE, [])
    with pytest.raises(InputError, match="holds no weights, and there are none beside it"):
        deliver(tmp_path, tmp_path / "out", None, None, merge=False)
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*"))


def test_the_weights_that_verl_saved_whole_need_no_merger(tmp_path: Path) -> None:
    saved = tmp_path / "huggingface"
    saved.mkdir()
    with pytest.raises(InputError, match="holds neither weights nor shards"):
        merge_shards(tmp_path, tmp_path / "merged")
    (saved / "model-00001-of-00002.safetensors").write_text("weights")
    assert merge_shards(tmp_path, tmp_path / "merged") == saved


def test_a_trainers_own_files_are_left_behind(tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    saved.mkdir()
    for name in ("config.json", "optimizer.pt", "rng_state_0.pth", "trainer_state.json"):
        (saved / name).write_text("{}")
    write_artefact(tmp_path / "out", saved, RECIPE, [])
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        *("config.json", "chat_template.jinja", "instruction.txt", "pool.json"),
        *("evoprompt.json", "README.md"),
    }


@pytest.mark.parametrize(
    ("template", "parser"),
    [("<tool_call>\n{", "hermes"), ("<tool_call><function=", "qwen3_coder"), ("tools", None)],
)
def test_the_parser_of_tool_calls_is_read_off_the_template(
    template: str, parser: str | None
) -> None:
    assert tool_parser(template) == parser


def test_an_optimization_is_said_to_have_no_weights(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text("x: 1\n")
    with pytest.raises(InputError, match=r"trains no weights to export; .* evoprompt best"):
        export_of(tmp_path)

"""The files of an export.

::

    FOLDER/
      config.json model.safetensors ...  as ``transformers`` saved them; or adapter_*, for LoRA
      tokenizer.json ...                 likewise
      chat_template.jinja                places the instruction by itself
      instruction.txt                    the best instruction
      tools.json                         what the policy is shown of its tools, where it has some
      pool.json                          all candidates, with lineage and weights
      evoprompt.json                     how the policy was asked
      README.md                          the model card, with the command that serves it
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from evoprompt.errors import InputError
from evoprompt.experiments.export.card import card
from evoprompt.experiments.export.pool import POOL, Entry, pool_of
from evoprompt.experiments.export.recipe import RECIPE, Recipe
from evoprompt.experiments.export.template import template_of
from evoprompt.storage import require_folder, write_whole

EXPORT = "export"
"""Name of the export's folder in a checkpoint."""

_TEMPLATE = "chat_template.jinja"
_OURS = (RECIPE, _TEMPLATE, "instruction.txt", "tools.json", POOL, "README.md")
_LEFT = (  # what a trainer needs to go on, and nobody else
    "optimizer*", "scheduler*", "scaler*", "rng_state*", "trainer_state.json", "training_args.bin",
    "evoprompt_*", "model_world_size_*", "optim_world_size_*", "extra_state_*", "fsdp_config.json",
    "zero_to_fp32.py", "latest", "chat_template.json", ".*",
)  # fmt: skip
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "adapter_model.bin")
_HOLDS_TEMPLATE = ("tokenizer_config.json", "processor_config.json", "preprocessor_config.json")


def write_artefact(
    folder: Path, saved: Path, recipe: Recipe, events: Iterable[Mapping[str, Any]]
) -> None:
    """Makes an export beside what a trainer saved; its large files are the same ones on the disk.

    Args:
        folder: to write; on the disk of ``saved`` its files are linked, else copied.
        saved: the trainer's folder, as ``transformers`` writes it.
        recipe: how the policy was asked.
        events: of the training so far.
    """
    pool = pool_of(everything := list(events))
    folder.mkdir(parents=True, exist_ok=True)
    take_files(saved, folder)
    _write_ours(folder, recipe, pool, everything)


def take_files(saved: Path, folder: Path) -> None:
    """Brings a model's files into ``folder``, but for what only a trainer needs."""
    for file in sorted(saved.iterdir()):
        target = folder / file.name
        if not file.is_file() or file.name in _OURS or any(fnmatch(file.name, p) for p in _LEFT):
            continue
        if file.name in _HOLDS_TEMPLATE:
            _without_template(file, target)
        else:
            _link(file, target)


def _write_ours(
    folder: Path, recipe: Recipe, pool: list[Entry], events: list[Mapping[str, Any]]
) -> None:
    write_whole(folder / _TEMPLATE, template_of(recipe))
    write_whole(folder / "instruction.txt", recipe.best.instruction)
    if recipe.tools:
        write_whole(folder / "tools.json", json.dumps(recipe.schemas, indent=2, ensure_ascii=False))
    written = [entry.model_dump(mode="json") for entry in pool]
    write_whole(folder / POOL, json.dumps(written, indent=2, ensure_ascii=False))
    write_whole(folder / "README.md", card(folder, recipe, pool, events))
    write_whole(folder / RECIPE, recipe.model_dump_json(indent=2))  # last: it says that all is here


def has_weights(folder: Path) -> bool:
    """Whether ``folder`` holds weights as ``transformers`` loads them."""
    return any(any(folder.glob(pattern)) for pattern in _WEIGHTS)


def copy_export(source: Path, folder: Path) -> None:
    """Copies an export; nothing in ``folder`` shares a file with a checkpoint.

    Raises:
        InputError: ``folder`` holds something already.
    """
    require_new(folder)
    shutil.copytree(source, folder, dirs_exist_ok=True)


def require_new(folder: Path) -> None:
    """Nothing, if ``folder`` can be written afresh.

    Raises:
        InputError: it is a file, or not empty.
    """
    require_folder(folder, "the export")
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(f"{folder} holds something; required: a new or empty folder; name another")


def _link(file: Path, target: Path) -> None:
    """``file`` under a second name, or a copy where the disk knows no links."""
    target.unlink(missing_ok=True)
    try:
        os.link(file, target)
    except OSError:
        shutil.copy2(file, target)


def _without_template(file: Path, target: Path) -> None:
    settings = json.loads(file.read_text(encoding="utf-8"))
    settings.pop("chat_template", None)
    write_whole(target, json.dumps(settings, indent=2, ensure_ascii=False))

"""From a run or a checkpoint to a folder that stands alone."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

from evoprompt.errors import InputError
from evoprompt.experiments.export.folder import copy_export, has_weights, require_new, take_files
from evoprompt.experiments.export.merging import merged
from evoprompt.experiments.export.recipe import Recipe
from evoprompt.experiments.export.serving import serve_line
from evoprompt.experiments.export.shards import merge_shards
from evoprompt.experiments.export.source import export_of


def deliver(
    source: Path, folder: Path, arm: str | None, seed: int | None, *, merge: bool
) -> list[str]:
    """Writes the export of ``source`` to ``folder``; returns lines to tell.

    Args:
        source: see :func:`~evoprompt.experiments.export.source.export_of`.
        folder: new or empty.
        arm: of a run.
        seed: of a run.
        merge: whether LoRA weights are merged into their base model.

    Raises:
        InputError: there is nothing to export, ``folder`` holds something, or the export does not
            ask as the training did.
    """
    require_new(folder)
    found = export_of(source, arm, seed)
    recipe = Recipe.read(found)
    scratch = folder.with_name(f".{folder.name}.partial")
    try:
        copy_export(found, scratch)
        if not has_weights(scratch):
            take_files(merge_shards(_actor(found), scratch / "merged"), scratch)
            shutil.rmtree(scratch / "merged", ignore_errors=True)
        if merge and (whole := merged(scratch)) != scratch:
            for file in scratch.glob("adapter_*"):
                file.unlink()
            take_files(whole, scratch)
            shutil.rmtree(whole)
        lines = [] if find_spec("transformers") is None else _checked(scratch, recipe)
        folder.parent.mkdir(parents=True, exist_ok=True)
        if folder.is_dir():
            folder.rmdir()
        scratch.rename(folder)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    lines = lines or ["not checked, as transformers is not installed: whether it asks as trained"]
    what = f"{folder}: candidate {recipe.candidate}, step {recipe.step}"
    return [what, *lines, "", serve_line(folder, recipe, folder)]


def _actor(found: Path) -> Path:
    """Where a checkpoint of veRL keeps its shards."""
    actor = found.parent / "actor"
    if not actor.is_dir():
        raise InputError(
            f"{found} holds no weights, and there are none beside it; required: a checkpoint with "
            "weights as transformers saves them (FSDP: state dict type FULL_STATE_DICT), or shards "
            "of veRL"
        )
    return actor


def _checked(folder: Path, recipe: Recipe) -> list[str]:
    from evoprompt.experiments.export.check import require_as_trained  # imports transformers

    require_as_trained(folder, recipe)
    return ["checked: it asks a question by the very tokens of the training"]

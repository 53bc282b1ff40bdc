"""Selection of the checkpoint in a path."""

from __future__ import annotations

from pathlib import Path

from evoprompt.experiments.best import best_trial
from evoprompt.experiments.directory import RunDirectory
from evoprompt.optimizer.folder import is_begun
from evoprompt.support.errors import InputError
from evoprompt.support.storage import RECIPE_FILE, checkpoints

PREFIXES = ("checkpoint-", "global_step_")
"""Prefixes of checkpoints of TRL and veRL, before the number of the step."""


def saved_under(root: Path) -> list[Path]:
    """Return the checkpoints of TRL or veRL in ``root`` or its ``checkpoints``, the newest last."""
    folders = (root / "checkpoints", root)
    return [
        checkpoint
        for folder in folders
        for prefix in PREFIXES
        for checkpoint in checkpoints(folder, prefix)
    ]


def checkpoint_of(path: Path, arm: str | None = None, seed: int | None = None) -> Path:
    """Return the folder in ``path`` with weights and the recipe of their prompts.

    Args:
        path: a run, a trial of one, a checkpoint, the output folder of a trainer that an engine
            was attached to, or an export.
        arm: of a run; by default that of the trial with the best validation.
        seed: of a run, likewise.

    Raises:
        InputError: there is no such folder.
    """
    root = path
    if (path / "config.yaml").is_file():
        directory = RunDirectory.open(path)
        root = directory.trial(best_trial(directory, arm, seed).trial).root
    for folder in (root, root / "policy", *reversed(saved_under(root))):
        if (folder / RECIPE_FILE).is_file():
            return folder
    if is_begun(path):
        raise InputError(
            f"{path} holds an optimization, which trains no weights to export; required: a "
            "training; evoprompt best prints the instruction that was found"
        )
    raise InputError(
        f"{path} holds nothing that can be exported; required: a run, a checkpoint or the output "
        "folder of a trainer that an engine was attached to, whose prompts a function of "
        f"evoprompt.hosting.prompts places (it has {RECIPE_FILE}), or an export; save a checkpoint "
        "first, or take the instruction from evoprompt best"
    )

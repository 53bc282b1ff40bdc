"""Where the export of a path lies: of a run, a checkpoint, a trainer's output, or itself."""

from __future__ import annotations

from pathlib import Path

from evoprompt.errors import InputError
from evoprompt.experiments.best import best_trial
from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.export.folder import EXPORT
from evoprompt.experiments.export.recipe import RECIPE
from evoprompt.optimizer.folder import is_begun
from evoprompt.storage import checkpoints

PREFIXES = ("checkpoint-", "global_step_")
"""How TRL and veRL name their checkpoints, before the number of the step."""


def saved_under(root: Path) -> list[Path]:
    """The checkpoints of TRL or veRL in ``root`` or its folder ``checkpoints``, the newest last."""
    places = (root / "checkpoints", root)
    return [one for place in places for prefix in PREFIXES for one in checkpoints(place, prefix)]


def export_of(path: Path, arm: str | None = None, seed: int | None = None) -> Path:
    """The folder of the export that ``path`` means.

    Args:
        path: a run, a trial of one, a checkpoint, the output folder of a trainer that an engine
            was attached to, or an export.
        arm: of a run; by default that of the trial which did best on validation questions.
        seed: of a run, likewise.

    Raises:
        InputError: there is none.
    """
    root = path
    if (path / "config.yaml").is_file():
        directory = RunDirectory.open(path)
        trial, _ = best_trial(directory, arm, seed)
        root = directory.trial(trial).root
    for folder in (root, root / EXPORT):
        if (folder / RECIPE).is_file():
            return folder
    for saved in reversed(saved_under(root)):
        if (saved / EXPORT / RECIPE).is_file():
            return saved / EXPORT
    if is_begun(path):
        raise InputError(
            f"{path} holds an optimization, which trains no weights to export; required: a "
            "training; evoprompt best prints the instruction that was found"
        )
    raise InputError(
        f"{path} holds no export; required: a run, a checkpoint or the output folder of a trainer "
        "that an engine was attached to, saved by this version of evoprompt, or an export; save a "
        "checkpoint first, or call attachment.export(folder)"
    )

"""Whether all trials of a run have room on the disk, with what each leaves behind."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from evoprompt.agents.tasks import Need, Room
from evoprompt.experiments import requirements
from evoprompt.experiments.directory import TrialDirectory
from evoprompt.experiments.requirements import GIB


def room_for(
    trials: Sequence[tuple[TrialDirectory, Room]], root: Path, keep_checkpoints: bool
) -> Need | None:
    """Whether there is room for what is left of these trials.

    Of trials that train at the same time, only one is taken to save at a time; where checkpoints
    are removed, those of one trial are counted.

    Args:
        trials: where each lies and what it takes; none where that is not known.
        root: folder of the run.
        keep_checkpoints: whether those of finished trials stay.

    Returns:
        What is needed and what is free; None where nothing is known, or nothing is left to do.
    """
    left = [
        (room, _size(files.checkpoints)) for files, room in trials if not files.result.is_file()
    ]
    if not left:
        return None
    policies = sum(room.policy for room, _ in left)
    saving = max(room.saving for room, _ in left)
    checkpoints = [max(room.checkpoints - there, 0.0) for room, there in left]
    kept, lean = policies + sum(checkpoints) + saving, policies + max(checkpoints) + saving
    found = requirements.disk(root, kept if keep_checkpoints else lean)
    text, remedy = found.text, found.remedy
    if len(left) > 1:
        text = f"{found.text}, for {len(left)} trials"
        if remedy and keep_checkpoints:
            remedy += f", or set keep_checkpoints=false, with which it is {lean:,.1f} GiB"
    return Need(found.subject, text, remedy)


def _size(folder: Path) -> float:
    """GiB that the files under ``folder`` take, those with several names once."""
    taken: dict[tuple[int, int], int] = {}
    for file in folder.rglob("*"):
        try:
            found = file.lstat()
        except FileNotFoundError:  # a trial that is still running has replaced it
            continue
        taken[found.st_dev, found.st_ino] = found.st_blocks * 512
    return sum(taken.values()) / GIB

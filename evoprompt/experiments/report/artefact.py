"""What a checkpoint or an export tells of the training that it comes from."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from evoprompt.agents.recipe import Recipe
from evoprompt.errors import InputError
from evoprompt.experiments.export.source import checkpoint_of, pool_at
from evoprompt.experiments.history import POOL, Entry
from evoprompt.experiments.report.history import TrialHistory
from evoprompt.experiments.report.records import Life, ProposalRecord, Weight
from evoprompt.storage import STATE_FILE, load_state
from evoprompt.types import legible


class Saved(NamedTuple):
    """The events of a training up to a checkpoint.

    Attributes:
        log: file of the events.
        events: how many of them there were at the checkpoint.
    """

    log: Path
    events: int


def saved_events(path: Path, names: tuple[str, ...]) -> Saved | None:
    """The events of the training that saved ``path``; None where it is no checkpoint of ours.

    Args:
        path: a folder that may be a checkpoint.
        names: that a file of events may have, beside the checkpoint or its folder ``checkpoints``.

    Raises:
        StateError: the checkpoint's state is damaged.
    """
    if not (path / STATE_FILE).is_file():
        return None
    count = load_state(path / STATE_FILE).get("events")
    beside, further = path.resolve().parents[:2]
    above = (beside, further) if beside.name == "checkpoints" else (beside,)
    logs = [folder / name for folder in above for name in names if (folder / name).is_file()]
    return Saved(logs[0], count) if logs and isinstance(count, int) else None


def read_pool(path: Path) -> tuple[Recipe, TrialHistory]:
    """What an export knows: how the policy is asked, and all candidates with their last weights.

    Args:
        path: an export, or a checkpoint or a trainer's output folder that has one.

    Raises:
        InputError: there is none, or it is damaged.
    """
    folder = checkpoint_of(path)
    recipe, file = Recipe.read(folder), folder / POOL
    entries = pool_at(folder, recipe)
    known: set[str] = set()
    for entry in entries:  # so that nobody is its own ancestor
        if entry.id in known or not known.issuperset(entry.parents):
            raise InputError(
                f"{file} is damaged (candidate {entry.id!r} is there twice, or before a parent of "
                "it); required: the file as it was written; export again"
            )
        known.add(entry.id)
    history = TrialHistory("run", 0, best=recipe.candidate)
    for entry in entries:
        was_drawn = entry.alive or entry.weight is not None
        if was_drawn:
            history.lives[entry.id] = _life(entry, recipe.step)
        if entry.proposer != "seed":
            history.proposals.append(
                ProposalRecord(
                    *(entry.born, entry.id, entry.components, entry.parents, entry.proposer),
                    rationale=entry.rationale,
                    admitted=was_drawn,
                )
            )
    return recipe, history


def _life(entry: Entry, step: int) -> Life:
    return Life(
        entry.id,
        legible(entry.components),
        entry.parents,
        entry.born,
        None if entry.alive else step,
        entry.proposer,
        entry.rationale,
        weights=[] if entry.weight is None else [Weight(step, entry.weight, None)],
        components=entry.components,
    )

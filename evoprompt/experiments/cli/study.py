"""The study of a run, on the command line."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from evoprompt.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from evoprompt.experiments.directory import RunDirectory
    from evoprompt.experiments.study import Study


def build_study(directory: RunDirectory) -> Study | None:
    """The study that the configuration asks for; None if it asks for none.

    Raises:
        InputError: Optuna is missing, or the run is not one for a study.
    """
    section = directory.config.study
    if section is None:
        return None
    if find_spec("optuna") is None:
        raise InputError(
            "a study needs optuna, which is not installed; required: the extra study; "
            'pip install "evoprompt[study]"'
        )
    from evoprompt.experiments.study import Study
    from evoprompt.plugins import build

    return Study(directory, section, build("task", directory.config.task).headline)


def show_study(study: Study | None, console: Console) -> None:
    """Prints the best arm, and how to see whether it is more than luck."""
    best = study.best() if study is not None else None
    if best is None:
        return
    arm, value, settings = best
    given = " ".join(f"--set {path}={value}" for path, value in settings.items())
    console.print(
        f"best of the study on validation: {arm} with {value:.3f}; the best of many is partly "
        f"lucky: confirm it with seeds that it has not seen: {given} --seed 1 --seeds 5",
        style="bold",
        soft_wrap=True,
    )

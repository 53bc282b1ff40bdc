"""What this package brings to evoprompt: commands, and the task ``reading``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evoprompt.hookspecs import hookimpl
from evoprompt.plugins.component import BuildContext, Component
from evoprompt_smollm2.reading import Reading, ReadingSettings

if TYPE_CHECKING:
    import typer


def _build(settings: ReadingSettings, context: BuildContext) -> Reading:
    return Reading(settings)


@hookimpl
def evoprompt_components() -> Sequence[Component[ReadingSettings]]:
    """The task."""
    return [
        Component(
            "task",
            "reading",
            _build,
            ReadingSettings,
            "Short answers to real questions, read from pieces of text in the prompt",
        )
    ]


@hookimpl
def evoprompt_commands() -> Sequence[typer.Typer]:
    """The command groups ``model`` and ``reading``."""
    from evoprompt_smollm2.commands import model, reading

    return [model, reading]

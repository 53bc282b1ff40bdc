"""What this package brings to evoprompt: commands, the task ``reading``, and recorded proposals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evoprompt.hookspecs import hookimpl
from evoprompt.plugins.component import BuildContext, Component
from evoprompt_smollm2.reading import Reading, ReadingSettings
from evoprompt_smollm2.recorded import Recorded, RecordedSettings, Recording

if TYPE_CHECKING:
    import typer


def _build(settings: ReadingSettings, context: BuildContext) -> Reading:
    return Reading(settings)


def _recorded(settings: RecordedSettings, context: BuildContext) -> Recorded:
    return Recorded(Recording.read(settings.file))


@hookimpl
def evoprompt_components() -> Sequence[Component[ReadingSettings] | Component[RecordedSettings]]:
    """The task, and a proposer that needs no language model."""
    return [
        Component(
            "task",
            "reading",
            _build,
            ReadingSettings,
            "Short answers to real questions, read from pieces of text in the prompt",
        ),
        Component(
            "proposer",
            "recorded",
            _recorded,
            RecordedSettings,
            "Proposes texts that a better model wrote once, without reading failures; no LLM",
        ),
    ]


@hookimpl
def evoprompt_commands() -> Sequence[typer.Typer]:
    """The command groups ``model`` and ``reading``."""
    from evoprompt_smollm2.commands import model, reading

    return [model, reading]

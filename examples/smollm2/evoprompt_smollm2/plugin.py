"""What this package brings to evoprompt: commands, and the task ``reading``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evoprompt.hookspecs import hookimpl
from evoprompt.roles import Component
from evoprompt_smollm2.reading import Reading

if TYPE_CHECKING:
    import typer


@hookimpl
def evoprompt_components() -> Sequence[type[Component]]:
    """The task."""
    return [Reading]


@hookimpl
def evoprompt_commands() -> Sequence[typer.Typer]:
    """The command groups ``model`` and ``reading``."""
    from evoprompt_smollm2.commands import model, reading

    return [model, reading]

"""Plugin of this distribution: the command that makes the model's folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evoprompt.hookspecs import hookimpl

if TYPE_CHECKING:
    import typer


@hookimpl
def evoprompt_commands() -> Sequence[typer.Typer]:
    """Return the command group ``model``."""
    from evoprompt_smollm2.commands import model

    return [model]

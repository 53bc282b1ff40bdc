"""Plugin of this distribution: its commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evoprompt.hookspecs import hookimpl

if TYPE_CHECKING:
    import typer


@hookimpl
def evoprompt_commands() -> Sequence[typer.Typer]:
    """Return the command group ``retriever``."""
    from evoprompt_retrieval.commands import app

    return [app]

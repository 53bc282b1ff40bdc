"""Plugin of this distribution: two tasks and their commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evoprompt.hookspecs import hookimpl

if TYPE_CHECKING:
    import typer

    from evoprompt.components import Component


@hookimpl
def evoprompt_components() -> Sequence[type[Component] | tuple[str, type[Component]]]:
    """Return the tasks."""
    from evoprompt.plugins import named
    from evoprompt_search_qa.open.task import OpenQa
    from evoprompt_search_qa.tiny.task import SearchQa

    return [SearchQa, named("search-qa-open", OpenQa)]


@hookimpl
def evoprompt_commands() -> Sequence[typer.Typer]:
    """Return the command group ``search-qa``, and ``demo``."""
    from evoprompt_search_qa import demo
    from evoprompt_search_qa.commands import app

    return [app, demo.app]

"""What this package brings to evoprompt: the task ``search-qa`` and its commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evoprompt.components import BuildContext, Component
from evoprompt.hookspecs import hookimpl
from evoprompt_search_qa.task import SearchQa, SearchQaSettings

if TYPE_CHECKING:
    import typer


def _build(settings: SearchQaSettings, context: BuildContext) -> SearchQa:
    del context
    return SearchQa(settings)


@hookimpl
def evoprompt_components() -> Sequence[Component[SearchQaSettings]]:
    """The task."""
    return [
        Component(
            role="task",
            name="search-qa",
            build=_build,
            settings=SearchQaSettings,
            description="Multi-hop questions over a synthetic knowledge base, with a search tool.",
        )
    ]


@hookimpl
def evoprompt_commands() -> Sequence[typer.Typer]:
    """The command group ``search-qa``."""
    from evoprompt_search_qa.commands import app

    return [app]

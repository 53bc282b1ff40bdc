"""What this package brings to evoprompt: two tasks and their commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evoprompt.hookspecs import hookimpl
from evoprompt.plugins.component import AnyComponent, BuildContext, Component
from evoprompt_search_qa.open.task import OpenQa, OpenQaSettings
from evoprompt_search_qa.tiny.task import SearchQa, SearchQaSettings

if TYPE_CHECKING:
    import typer


def _build(settings: SearchQaSettings, context: BuildContext) -> SearchQa:
    return SearchQa(settings)


def _build_open(settings: OpenQaSettings, context: BuildContext) -> OpenQa:
    return OpenQa(settings)


@hookimpl
def evoprompt_components() -> Sequence[AnyComponent]:
    """The tasks."""
    return [
        Component(
            "task",
            "search-qa",
            _build,
            SearchQaSettings,
            "Multi-hop questions over a synthetic knowledge base, with a search tool",
        ),
        Component(
            "task",
            "search-qa-open",
            _build_open,
            OpenQaSettings,
            "Open questions, a search server, and any causal language model",
        ),
    ]


@hookimpl
def evoprompt_commands() -> Sequence[typer.Typer]:
    """The command group ``search-qa``, and ``demo``."""
    from evoprompt_search_qa import demo
    from evoprompt_search_qa.commands import app

    return [app, demo.app]

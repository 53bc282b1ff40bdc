"""What this package brings to evoprompt: two tasks and their commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evoprompt.hookspecs import hookimpl
from evoprompt.plugins.component import BuildContext, Component
from evoprompt_search_qa.open.task import OpenQa, OpenQaSettings
from evoprompt_search_qa.tiny.task import SearchQa, SearchQaSettings

if TYPE_CHECKING:
    import typer

    from evoprompt.attachment import Attachment, AttachRequest


def _build(settings: SearchQaSettings, context: BuildContext) -> SearchQa:
    del context
    return SearchQa(settings)


def _build_open(settings: OpenQaSettings, context: BuildContext) -> OpenQa:
    del context
    return OpenQa(settings)


@hookimpl
def evoprompt_components() -> Sequence[Component[SearchQaSettings] | Component[OpenQaSettings]]:
    """The tasks."""
    return [
        Component(
            role="task",
            name="search-qa",
            build=_build,
            settings=SearchQaSettings,
            description="Multi-hop questions over a synthetic knowledge base, with a search tool.",
        ),
        Component(
            role="task",
            name="search-qa-open",
            build=_build_open,
            settings=OpenQaSettings,
            description="Open questions, a search server, and any causal language model.",
        ),
    ]


@hookimpl
def evoprompt_attach(request: AttachRequest) -> Attachment | None:
    """Binds the engine to the hosts of ``training/``; None for any other trainer."""
    if "evoprompt_search_qa.training.offline" not in sys.modules:
        return None
    from evoprompt_search_qa.training.offline import attach

    return attach(request)


@hookimpl
def evoprompt_commands() -> Sequence[typer.Typer]:
    """The command group ``search-qa``."""
    from evoprompt_search_qa.commands import app

    return [app]

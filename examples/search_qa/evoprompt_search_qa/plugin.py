"""What this package brings to evoprompt: two tasks, hosts and their commands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from evoprompt.hookspecs import hookimpl
from evoprompt.plugins.component import AnyComponent, BuildContext, Component
from evoprompt_search_qa.hosts import OfflineHost
from evoprompt_search_qa.open.task import OpenQa, OpenQaSettings
from evoprompt_search_qa.tiny.task import SearchQa, SearchQaSettings
from evoprompt_search_qa.training.settings import FitSettings, OfflineSettings, RejectionSettings

if TYPE_CHECKING:
    import typer

    from evoprompt.attachment import Attachment, AttachRequest


def _build(settings: SearchQaSettings, context: BuildContext) -> SearchQa:
    return SearchQa(settings)


def _build_open(settings: OpenQaSettings, context: BuildContext) -> OpenQa:
    return OpenQa(settings)


def _offline(name: str) -> Callable[[OfflineSettings, BuildContext], OfflineHost]:
    return lambda settings, context: OfflineHost(name, settings)


@hookimpl
def evoprompt_components() -> Sequence[AnyComponent]:
    """The tasks and the hosts."""
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
        Component(
            "host",
            "prompted",
            _offline("prompted"),
            OfflineSettings,
            "Tests an inference method of search-qa as it is, untrained",
        ),
        Component(
            "host",
            "sft",
            _offline("sft"),
            FitSettings,
            "Supervised training on questions and answers of search-qa, without a tool",
        ),
        Component(
            "host",
            "rejection",
            _offline("rejection"),
            RejectionSettings,
            "Supervised training on the own rollouts of search-qa that were right",
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
    """The command group ``search-qa``, and ``demo``."""
    from evoprompt_search_qa import demo
    from evoprompt_search_qa.commands import app

    return [app, demo.app]

"""What this package brings to evoprompt: two tasks, hosts and their commands."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evoprompt.hookspecs import hookimpl
from evoprompt.plugins import named
from evoprompt.roles import Component
from evoprompt_search_qa.hosts import Prompted, Rejection, Sft
from evoprompt_search_qa.open.task import OpenQa
from evoprompt_search_qa.tiny.task import SearchQa

if TYPE_CHECKING:
    import typer

    from evoprompt.attachment import Attachment, AttachRequest


@hookimpl
def evoprompt_components() -> Sequence[type[Component] | tuple[str, type[Component]]]:
    """The tasks and the hosts."""
    return [SearchQa, named("search-qa-open", OpenQa), Prompted, Sft, Rejection]


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

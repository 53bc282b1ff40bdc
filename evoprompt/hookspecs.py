"""The hooks (pluggy) by which evoprompt finds things. Built-ins register through the same ones.

A plugin is a distribution with an entry point in the group ``evoprompt`` that names a module; the
module's functions decorated with :data:`hookimpl` are called by keyword with the arguments below,
of which it may take any subset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pluggy

from evoprompt.support.calls import PLUGIN_GROUP

if TYPE_CHECKING:
    import typer

    from evoprompt.components import Component
    from evoprompt.log.events import Event

hookspec = pluggy.HookspecMarker(PLUGIN_GROUP)
hookimpl = pluggy.HookimplMarker(PLUGIN_GROUP)


@hookspec
def evoprompt_components() -> Sequence[  # type: ignore[empty-body]
    type[Component] | tuple[str, type[Component]]
]:
    """Return the components of the plugin: classes of proposers, selectors, attributors, tasks, ...

    A component has the name of its class, ``WindowMean`` is ``window-mean``; ``evoprompt.named``
    sets another name.
    """


@hookspec(firstresult=True)
def evoprompt_attach(request: object) -> object:
    """Bind ``request.engine`` to ``request.trainer``; return None for an unknown trainer.

    The request is an ``evoprompt.AttachRequest``, what is returned an ``evoprompt.Attachment``.
    Recognise a trainer through ``sys.modules`` and ``isinstance``; never import the host to find
    out. The first plugin that returns an attachment wins.
    """


@hookspec
def evoprompt_event(event: Event) -> None:
    """Receive every event of a run as it happens, inside the training loop: be quick."""


@hookspec
def evoprompt_commands() -> Sequence[typer.Typer]:  # type: ignore[empty-body]
    """Return command groups for the command line, each a named Typer app.

    An app with a single command of its own name is added as that command.
    """

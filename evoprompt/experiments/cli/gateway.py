"""``evoprompt gateway``: instructions for agents that own their prompt, placed on the way."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Annotated

import typer


def gateway(
    config: Annotated[Path, typer.Argument(help="A YAML file.", metavar="CONFIG")],
) -> None:
    """Stand between agents and a model, and choose the instruction of each conversation.

    CONFIG holds the settings of a gateway beside instructions, engine and seed. Ends with Ctrl-C or
    SIGTERM and prints the best instruction; the same command goes on, open conversations included.
    """
    from evoprompt.experiments.proxy import gateway_of
    from evoprompt.gateway.server import TOKEN
    from evoprompt.support.text import printable

    ended = threading.Event()
    with gateway_of(config) as found:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        is_given = found.token == os.environ.get(TOKEN)
        token = f"in {TOKEN}" if is_given else found.token
        typer.echo(f"agents may call {found.url}", err=True)
        typer.echo(f"trainers show the API key {token}", err=True)
        ended.wait()
    typer.echo(printable(found.engine.best.text))

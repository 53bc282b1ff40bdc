"""``evoprompt gateway``: places instructions in requests of agents that own their prompt."""

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

    stop_event = threading.Event()
    with gateway_of(config) as running_gateway:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: stop_event.set())
        is_given = running_gateway.token == os.environ.get(TOKEN)
        token = f"in {TOKEN}" if is_given else running_gateway.token
        typer.echo(f"agents may call {running_gateway.url}", err=True)
        typer.echo(f"trainers show the API key {token}", err=True)
        stop_event.wait()
    typer.echo(printable(running_gateway.engine.best.text))

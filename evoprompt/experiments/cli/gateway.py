"""``evoprompt gateway``: places instructions in requests of agents that own their prompt."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Annotated

import typer

from evoprompt.support.text import printable

_PAUSE = 0.1  # seconds between two looks for a signal
_PATIENCE = 4.0  # seconds for requests and a proposer under way


def gateway(
    config: Annotated[Path, typer.Argument(help="A YAML file.", metavar="CONFIG")],
) -> None:
    """Stand between agents and a model, and choose the instruction of each conversation.

    CONFIG holds the settings of a gateway beside instructions, engine and seed. Ends with Ctrl-C or
    SIGTERM, within five seconds, and prints the best instruction; a second one ends it immediately.
    The same command goes on, open conversations included.
    """
    from evoprompt.experiments.proxy import gateway_of
    from evoprompt.gateway.server import TOKEN
    from evoprompt.lm.keys import key_variable

    received_signals: list[int] = []

    def receive(number: int, frame: object) -> None:
        """Record a signal; it takes no lock, because a second signal may interrupt it."""
        del frame
        received_signals.append(number)
        if len(received_signals) > 1:
            os._exit(128 + number)

    def leave() -> None:
        typer.echo("ended while a proposer or a request was under way; nothing is lost", err=True)
        typer.echo(printable(running_gateway.engine.best.text))
        sys.stdout.flush()
        os._exit(0)

    with gateway_of(config) as running_gateway:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, receive)
        is_given = running_gateway.token == os.environ.get(TOKEN)
        token = f"in {TOKEN}" if is_given else running_gateway.token
        typer.echo(f"agents may call {running_gateway.url}", err=True)
        typer.echo(f"trainers show the API key {token}", err=True)
        variable = key_variable(running_gateway.settings.upstream, running_gateway.settings.key)
        upstream_key = (
            "no key; the setting key names the variable of one"
            if variable is None
            else f"the key in {variable}{'' if os.environ.get(variable) else ', which is not set'}"
        )
        typer.echo(f"the upstream gets {upstream_key}", err=True)
        while not received_signals:
            time.sleep(_PAUSE)
        late = threading.Timer(_PATIENCE, leave)  # the journal holds everything
        late.daemon = True
        late.start()
    typer.echo(printable(running_gateway.engine.best.text))

"""``evoprompt watch``: the report of runs while they go on."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from evoprompt.errors import InputError
from evoprompt.experiments.cli.report import require_extra


def watch(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Folders of runs, optimizations or attached trainings, or files of events.",
            metavar="RUN...",
        ),
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="To listen at; 0 takes any that is free.")
    ] = 8731,
) -> None:
    """Serve the report of one or more runs to this machine, and follow them.

    A run may be stopped, killed and resumed meanwhile. Several runs are drawn side by side.
    Nothing is written to their folders. Ctrl-C ends it.
    """
    require_extra()
    from evoprompt.experiments.report.live import LivePage, LiveServer

    page = LivePage(runs)
    page.page()
    try:
        server = LiveServer(page, port)
    except OSError as error:
        raise InputError(
            f"port {port} cannot be used ({error.strerror}); required: one that is free; choose "
            "another --port, or 0 for any"
        ) from error
    typer.echo(f"{server.address} follows {', '.join(map(str, runs))}; Ctrl-C ends it")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a service is ended so
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("ended; the runs go on")

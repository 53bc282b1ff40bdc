"""``evoprompt watch``: the report of a run while it goes on."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Annotated

import typer

from evoprompt.experiments.cli.report import require_extra
from evoprompt.support.errors import InputError
from evoprompt.support.storage import LOCK, is_temporary

_PATIENCE = 0.5  # seconds between two checks for a run


def watch(
    run: Annotated[
        Path,
        typer.Argument(
            help="A run, an optimization, or the log_dir of an attached training.", metavar="RUN"
        ),
    ],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="To listen at; 0 takes any that is free.")
    ] = 8731,
) -> None:
    """Serve the report of a run to this machine, and follow it.

    The run may be stopped, killed and resumed meanwhile, and need not have begun. Nothing is
    written to its folder. Ctrl-C ends it.
    """
    require_extra()
    from evoprompt.experiments.report.live import LivePage, LiveServer

    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a service manager sends SIGTERM
    try:
        if _is_empty(run):
            typer.echo(f"{run} holds no run yet; waits for one; Ctrl-C ends it")
        while _is_empty(run):
            time.sleep(_PATIENCE)
    except KeyboardInterrupt:
        typer.echo("ended; no run has begun")
        return
    page = LivePage(run)
    page.page()
    try:
        server = LiveServer(page, port)
    except OSError as error:
        raise InputError(
            f"port {port} cannot be used ({error.strerror}); required: one that is free; choose "
            "another --port, or 0 for any"
        ) from error
    typer.echo(f"{server.address} follows {run}; Ctrl-C ends it")
    with server:
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("ended; the run goes on")


def _is_empty(run: Path) -> bool:
    """Return whether ``run`` has no file of a run yet: a run that begins has its lock first."""
    if not run.exists():  # below a file, or at the end of a broken link, no run can begin
        return not (run.is_symlink() or any(parent.is_file() for parent in run.parents))
    return run.is_dir() and all(file.name == LOCK or is_temporary(file) for file in run.iterdir())

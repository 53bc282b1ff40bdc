"""The command ``evoprompt``, called as a shell would."""

from __future__ import annotations

from evoprompt.experiments.cli import main


def evoprompt(*arguments: object) -> int:
    """Runs the command and returns its exit code."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0

"""The command ``evoprompt``, called as a shell would."""

from __future__ import annotations

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

from evoprompt.experiments.cli import main


def evoprompt(*arguments: object) -> int:
    """Runs the command and returns its exit code."""
    try:
        main([str(argument) for argument in arguments])
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def stdout_of(*arguments: object, code: int = 0) -> str:
    """Runs the command, which must succeed, or end with ``code``, and returns what it printed."""
    with redirect_stdout(StringIO()) as out:
        assert evoprompt(*arguments) == code
    return out.getvalue()


def stderr_of(*arguments: object, code: int = 2) -> str:
    """Runs the command, which must end with ``code``, and returns its standard error."""
    with redirect_stderr(StringIO()) as err:
        ended = evoprompt(*arguments)
    assert ended == code, err.getvalue()
    return err.getvalue()


def text_of(*arguments: object, code: int) -> str:
    """Runs the command, which must end with ``code``, and returns all that it wrote."""
    with redirect_stdout(StringIO()) as text, redirect_stderr(text):
        ended = evoprompt(*arguments)
    assert ended == code, text.getvalue()
    return text.getvalue()

"""Command line: one file per command, and the commands of plugins."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from evoprompt.experiments.cli import (
    best,
    distill,
    doctor,
    evaluate,
    export,
    gateway,
    new,
    optimize,
    plugins,
    pool,
    replay,
    report,
    run,
    simplify,
    watch,
)
from evoprompt.support.credentials import masked
from evoprompt.support.errors import EvopromptError, InputError, PluginError, UnwritableError
from evoprompt.support.text import format_error, printable

PANELS: Mapping[str, Mapping[str, Callable[..., None]]] = {
    "Start": {
        "doctor": doctor.doctor,
        "run": run.run,
        "optimize": optimize.optimize,
        "gateway": gateway.gateway,
    },
    "Look": {
        "watch": watch.watch,
        "report": report.report,
        "best": best.best,
        "eval": evaluate.evaluate,
        "replay": replay.replay,
    },
    "Use": {
        "simplify": simplify.simplify,
        "distill": distill.distill,
        "export": export.export,
    },
    "Extend": {"new": new.new, "plugins": plugins.plugins},
}
"""Our commands, by the heading that the help lists them under."""

COMMANDS = {name: command for commands in PANELS.values() for name, command in commands.items()}

GROUPS: Mapping[str, typer.Typer] = {"pool": pool.app}

_PLUGIN_PANEL = "Of examples and plugins"

_WRONG_PATH = {"ENOENT", "EEXIST", "EISDIR", "ENOTDIR", "ENAMETOOLONG", "ELOOP"}
_UNWRITABLE = {"ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EACCES", "EPERM"}


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Exit codes: 0 for success, 1 if a run failed, 2 for bad input, 3 if a dry run reports that this
    machine lacks something, 130 after Ctrl-C.

    Args:
        arguments: words after ``evoprompt``; by default those of this process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    _prepare_streams()
    try:
        if any("\0" in word for word in words):
            raise InputError("an argument holds a NUL character; required: text; correct it")
        build_app(words)(args=words, prog_name="evoprompt")
    except SystemExit as end:
        if not isinstance(end.__context__, BrokenPipeError):  # the reader, such as head, has ended
            _flush_output()
            raise
    except UnwritableError as error:
        _refuse(str(error), error, 1)
    except EvopromptError as error:
        _refuse(str(error), error)
    except (UnicodeError, RecursionError) as error:
        required = "required: files of text, in their original form"
        _refuse(f"{format_error(error)}; {required}", error)
    except OSError as error:
        name = errno.errorcode.get(error.errno or 0)
        if name in _WRONG_PATH:
            required = "required: another path; check it"
            _refuse(f"{error.filename}: {error.strerror}; {required}", error)
        if name not in _UNWRITABLE:
            raise
        _refuse(
            f"{error.filename or 'a file'} cannot be written: {error.strerror}; required: room and "
            "the right to write; the files written before are whole, a run goes on with --resume",
            error,
            1,
        )


def _prepare_streams() -> None:
    """Make output that is closed or that a code page cannot show no error.

    Characters outside of the code page are written as escapes.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _flush_output() -> None:
    """Write what the buffer holds; a reader that has ended is no error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse(reason: str, error: Exception, code: int = 2) -> NoReturn:
    typer.secho("error: ", fg="red", nl=False, err=True)
    typer.echo(printable(masked(" ".join(reason.split()))), err=True)
    raise SystemExit(code) from error


def build_app(arguments: Sequence[str]) -> typer.Typer:
    """Return the commands; plugins are loaded only if ``arguments`` do not name a built-in one.

    Raises:
        PluginError: a plugin's command takes the name of a built-in one.
    """
    app = typer.Typer(
        help="Co-evolve an agent's instructions with its policy while it is trained.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",  # which fills paragraphs
    )
    app.callback()(_options)
    for heading, commands in PANELS.items():
        for name, command in commands.items():
            app.command(name, rich_help_panel=heading)(command)
    for group in GROUPS.values():
        app.add_typer(group, rich_help_panel="Use")
    built_in = {*COMMANDS, *GROUPS}
    if next((word for word in arguments if not word.startswith("-")), None) not in built_in:
        from evoprompt.plugins import command_groups

        for group in command_groups():
            if group.info.name in built_in:
                raise PluginError(
                    f"a plugin brings the command {group.info.name!r}; required: a name that "
                    "evoprompt does not use itself; rename the command group"
                )
            if [command.name for command in group.registered_commands] == [group.info.name]:
                group.registered_commands[0].rich_help_panel = _PLUGIN_PANEL
                app.registered_commands += group.registered_commands
            else:
                app.add_typer(group, rich_help_panel=_PLUGIN_PANEL)
    return app


def _show_version(is_set: bool) -> None:
    if is_set:
        from importlib.metadata import version

        typer.echo(f"evoprompt {version('evoprompt')}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", callback=_show_version, is_eager=True
        ),
    ] = False,
) -> None:
    del version

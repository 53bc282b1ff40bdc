"""Every command with every kind of wrong path: one line, exit code 2, no traceback, no hang."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, get_args, get_type_hints

import pytest
import typer
from command_line import evoprompt
from counted import counted

from evoprompt.experiments.cli import build_app

MOST_CALLS = 20_000_000
"""Of functions that a refusal may make, the imports of the command included."""

LONG = "x" * 5_000
NUL = "a\0b"


@dataclass(frozen=True)
class Option:
    """A path that a command takes.

    Attributes:
        role: ``file`` or ``folder`` to read, ``either`` of them; ``awaited``, a folder that may be
            there later; ``output``, a folder to write, or ``written``, a file.
        others: what else to type so that it is this path that is wrong; ``{}`` is a folder with
            what the test has prepared.
        before: what to type before the path.
        content: whether what is in the file is looked at; ``any`` where every file will do.
    """

    role: str
    others: Sequence[str] = ()
    content: str = "looked at"
    before: Sequence[str] = ()


class Command(Protocol):
    """What this needs of click's command, which newer versions of Typer bring along themselves."""

    callback: Any
    params: Sequence[Any]


def leaves() -> dict[str, Command]:
    """Every command by what is typed, plugins' included."""
    return dict(_leaves(typer.main.get_command(build_app(())), ()))


def _leaves(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, Command]]:
    if not hasattr(command, "commands"):
        yield " ".join(words), command
        return
    for name, below in command.commands.items():
        yield from _leaves(below, (*words, name))


def path_parameters(command: Command) -> set[str]:
    """The names of the parameters that are paths."""
    hints = get_type_hints(inspect.unwrap(command.callback))
    return {name for name, hint in hints.items() if hint is Path or Path in get_args(hint)}


def flag(command: Command, name: str) -> list[str]:
    """What is typed before the value of a parameter: nothing for an argument."""
    (found,) = [one for one in command.params if one.name == name]
    return [] if found.param_type_name == "argument" else [found.opts[0]]


def wrong(option: Option, folder: Path) -> dict[str, str]:
    """The wrong paths for an option, by what is wrong with them."""
    file = folder / "some.txt"
    file.write_text("text\n", encoding="utf-8")
    loop = folder / "loop"
    loop.symlink_to(loop)
    found = {"NUL": NUL, "long": LONG, "below a file": str(file / "below"), "loop": str(loop)}
    if option.role == "output":
        return {**found, "a file": str(file)}
    if option.role == "written":
        return {**found, "a folder": str(folder)}
    if option.role == "awaited":
        return {**found, "a file": str(file)}
    found["missing"] = str(folder / "missing")
    if option.role == "folder":
        return {**found, "a file": str(file), "an empty folder": str(_folder(folder / "empty"))}
    found["a folder"] = str(_folder(folder / "folder"))
    unreadable = folder / "unreadable.txt"  # also for root: reading ends in an input/output error
    unreadable.symlink_to("/proc/self/mem")
    found["unreadable"] = str(unreadable)
    if option.content != "any":
        for name, content in {
            "empty": b"",
            "binary": bytes(range(256)),
            "cut UTF-8": "caf\u00e9".encode()[:-1],
        }.items():
            (folder / name).write_bytes(content)
            found[name] = str(folder / name)
    return found


def _folder(path: Path) -> Path:
    path.mkdir()
    return path


def require_refusals(
    capsys: pytest.CaptureFixture[str], typed: str, name: str, option: Option, folder: Path
) -> None:
    """Fails unless ``typed`` refuses every wrong path for the parameter ``name``."""
    command = leaves()[typed]
    others = [one.format(folder) for one in option.others]
    before = [one.format(folder) for one in option.before]
    faults = []
    for what, path in wrong(option, _folder(folder / "wrong")).items():
        capsys.readouterr()
        given = [*typed.split(), *before, *flag(command, name), path, *others]
        with counted() as work:
            try:
                code: object = evoprompt(*given)
            except Exception as error:  # all are told together
                code = f"{type(error).__name__}: {error}"[:200]
        out, err = capsys.readouterr()
        lines = [line for line in err.splitlines() if not line.startswith("left out: ")]
        if code != 2 or len(lines) != 1 or not lines[0].startswith("error: ") or "Traceback" in out:
            faults.append(f"{what}: ended with {code} and said {err[-500:]!r}")
        if work.calls > MOST_CALLS:
            faults.append(f"{what}: took {work.calls:,} calls")
        if what != "NUL" and Path(path).name[:100] not in err:
            faults.append(f"{what}: does not name the path but says {err[-500:]!r}")
        if len(err) > 12_000 or not err.replace("\n", "").isprintable():
            faults.append(f"{what}: said {len(err)} characters")
    assert not faults, "\n".join([f"{typed} {name}", *faults])

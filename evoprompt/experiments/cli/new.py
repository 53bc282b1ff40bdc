"""``evoprompt new``: writes the folder of a task to begin with."""

from __future__ import annotations

import keyword
import re
from enum import StrEnum
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Annotated

import typer


class Kind(StrEnum):
    """What can be begun."""

    TASK = "task"


def new(
    kind: Annotated[Kind, typer.Argument(help="What to begin.")],
    name: Annotated[str, typer.Argument(help="Its name, such as word-count.", metavar="NAME")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", show_default="NAME", help="Folder to write.")
    ] = None,
) -> None:
    """Write a folder that installs and trains: a module, a configuration, a test, a README."""
    from evoprompt.errors import InputError
    from evoprompt.storage import require_folder

    del kind  # there is only one so far
    module = _module(name)
    folder = Path(name) if output is None else output
    require_folder(folder, "--output")
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            f"{folder} is not empty; required: a new or empty folder; choose another --output"
        )
    words = {
        "name": name,
        "module": module,
        "task": "".join(word.capitalize() for word in (*name.split("-"), "task")),
    }
    targets = {
        "pyproject.toml": "pyproject.toml",
        "module.py": f"{module}.py",
        "run.yaml": f"{name}.yaml",
        "test.py": f"test_{module}.py",
        "README.md": "README.md",
    }
    folder.mkdir(parents=True, exist_ok=True)
    for template, target in targets.items():
        text = (
            files("evoprompt.experiments.templates")
            .joinpath("task", f"{template}.txt")
            .read_text("utf-8")
        )
        (folder / target).write_text(Template(text).substitute(words), encoding="utf-8")
        typer.echo(str(folder / target))
    typer.echo(
        f"begin with: pip install -e {folder} && evoprompt run {folder / name}.yaml --dry-run"
    )


def _module(name: str) -> str:
    """The name of the module of a task."""
    from evoprompt.errors import InputError
    from evoprompt.plugins import plugins

    module, taken = name.replace("-", "_"), ""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or keyword.iskeyword(module):
        raise InputError(
            f"the name is {name!r}; required: lower-case words and digits joined by hyphens, a "
            "letter first, and no keyword of Python, such as word-count"
        )
    if find_spec(module) is not None:
        taken = f"there is a module {module} already"
    elif name in {one.name for one in plugins().components("task")}:
        taken = "a task of that name is installed"
    if taken:
        raise InputError(
            f"the name is {name!r}, and {taken}; required: a name of its own; choose another"
        )
    return module

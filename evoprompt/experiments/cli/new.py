"""``evoprompt new``: writes the folder of a task, or of a component, to begin with."""

from __future__ import annotations

import keyword
import re
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import Annotated

import typer

from evoprompt.support.errors import InputError
from evoprompt.support.storage import require_folder


class Kind(StrEnum):
    """Kind of folder to write."""

    TASK = "task"
    PROPOSER = "proposer"
    SELECTOR = "selector"
    ATTRIBUTOR = "attributor"
    VERIFIER = "verifier"


def new(
    kind: Annotated[Kind, typer.Argument(help="Kind of folder.")],
    name: Annotated[str, typer.Argument(help="Its name, such as word-count.", metavar="NAME")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", show_default="NAME", help="Folder to write.")
    ] = None,
) -> None:
    """Write a folder that installs and passes its tests: a module, a test, a pyproject.toml.

    That of a task trains, too, with a configuration and a README.
    """
    module = _module(name, kind)
    folder = Path(name) if output is None else output
    require_folder(folder, "--output")
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            f"{folder} is not empty; required: a new or empty folder; choose another --output"
        )
    words = {
        "name": name,
        "module": module,
        "kind": kind.value,
        "component": "".join(word.capitalize() for word in (*name.split("-"), kind.value)),
        "suite": f"{kind.value.capitalize()}Suite",
    }
    targets = {"module": f"{module}.py", "run": f"{name}.yaml", "test": f"test_{module}.py"}
    folder.mkdir(parents=True, exist_ok=True)
    templates = Path(__file__).parents[1] / "templates"
    parts = [kind.value] if kind is Kind.TASK else ["component", kind.value]
    for template in sorted(file for part in parts for file in (templates / part).glob("*.txt")):
        target = folder / targets.get(template.name.partition(".")[0], template.stem)
        target.write_text(Template(template.read_text("utf-8")).substitute(words), encoding="utf-8")
        typer.echo(str(target))
    use = f"run {folder / name}.yaml --dry-run" if kind is Kind.TASK else f"plugins --check {name}"
    typer.echo(f"begin with: pip install -e {folder} && evoprompt {use}")


def _module(name: str, kind: Kind) -> str:
    """Return the name of the module of ``name``."""
    from evoprompt.plugins import plugins

    module, fault = name.replace("-", "_"), ""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name) or keyword.iskeyword(module):
        fault = "which no module can have"
    elif find_spec(module) is not None:
        fault = f"and there is a module {module} already"
    elif name in {component.name for component in plugins().components(kind.value)}:
        fault = f"and a {kind.value} of that name is installed"
    if fault:
        raise InputError(
            f"the name is {name!r}, {fault}; required: lower-case words and digits joined by "
            "hyphens, a letter first, that is not in use, such as word-count"
        )
    return module

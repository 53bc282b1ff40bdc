"""`import evoprompt` costs next to nothing and keeps its names, whatever else is imported."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import evoprompt

HEAVY = {"torch", "transformers", "trl", "verl", "ray", "dspy", "litellm", "numpy", "pydantic"}


MOST_MODULES = 60
"""Python's own included, of which an interpreter may have loaded some already."""


def run_python(program: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300
    )
    return finished.stdout


def test_importing_the_package_loads_few_modules_beyond_those_of_python() -> None:
    loaded = run_python(
        "import sys; before = set(sys.modules); import evoprompt; "
        "print(*sorted(set(sys.modules) - before))"
    ).split()
    assert HEAVY.isdisjoint(loaded)
    assert len(loaded) < MOST_MODULES, loaded
    assert [name for name in loaded if name.startswith("evoprompt.")] == []


@pytest.mark.slow
def test_no_module_of_the_core_loads_a_host_or_an_lm_library() -> None:
    """Listing the installed components does not, either."""
    modules = [
        "engine",
        "hosting.attachment",
        "plugins",
        "builtins",
        "testing",
        "log.events",
        "agents.tasks",
    ]
    loaded = run_python(
        f"import {', '.join(f'evoprompt.{module}' for module in modules)}, sys; "
        "from evoprompt.plugins import plugins; assert plugins().components(); "
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    assert (HEAVY - {"numpy", "pydantic"}).isdisjoint(loaded.split())


def test_every_public_name_is_there() -> None:
    assert all(getattr(evoprompt, name) is not None for name in evoprompt.__all__)
    assert {*evoprompt.__all__} <= {*dir(evoprompt)}


def test_type_checkers_see_the_same_names_as_the_interpreter() -> None:
    tree = ast.parse(Path(evoprompt.__file__).read_text(encoding="utf-8"))
    typed = {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("evoprompt.")
        for alias in node.names
    }
    assert typed == {*evoprompt.__all__, "CoEvolve", "Gateway"}  # which need extras


def test_no_submodule_hides_a_public_name() -> None:
    package = Path(evoprompt.__file__).parent
    modules = {path.stem for path in package.iterdir() if not path.name.startswith("_")}
    assert modules.isdisjoint(evoprompt.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'atach'"):
        _ = evoprompt.atach  # type: ignore[attr-defined]


PACKAGE = Path(__file__).parent.parent / "evoprompt"
ALONE = """
import importlib, sys
for name in sys.argv[1:]:
    for loaded in [loaded for loaded in sys.modules if loaded.split(".")[0] == "evoprompt"]:
        del sys.modules[loaded]
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:  # of an extra that is not installed here
        assert not error.name.startswith("evoprompt"), (name, error)
"""


@pytest.mark.slow
@pytest.mark.nightly
def test_every_module_of_the_core_can_be_imported_first() -> None:
    paths = sorted(path.relative_to(PACKAGE.parent) for path in PACKAGE.rglob("*.py"))
    names = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths]
    names = [name for name in names if name != "evoprompt.__main__" and "templates" not in name]
    assert len(names) > 100
    done = subprocess.run([sys.executable, "-c", ALONE, *names], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

"""No file of the package imports itself by way of others, and none knows a task or a trainer."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import evoprompt_retrieval

FOLDER = Path(evoprompt_retrieval.__file__).parent
PREFIX = "evoprompt_retrieval."


def imported(path: Path) -> Iterator[str]:
    """Every module that a file names in an import, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = str(node.module)
            yield from (f"{module}.{alias.name}" for alias in node.names)
            yield module


FOUND = {path.stem: set(imported(path)) for path in FOLDER.glob("*.py")}


def test_there_is_no_circle_also_not_through_imports_inside_functions() -> None:
    names = {
        name: {
            module.removeprefix(PREFIX)
            for module in modules
            if module.startswith(PREFIX) and module.removeprefix(PREFIX) in FOUND
        }
        for name, modules in FOUND.items()
    }
    order = list(TopologicalSorter(names).static_order())
    assert order.index("index") < order.index("dense") < order.index("backends")


def test_none_knows_a_task_or_a_trainer() -> None:
    tops = {module.partition(".")[0] for modules in FOUND.values() for module in modules}
    assert {top for top in tops if top.startswith("evoprompt")} == {
        "evoprompt",
        "evoprompt_retrieval",
    }
    assert not tops & {"trl", "verl", "ray"}

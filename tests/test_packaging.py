"""What the code imports is declared, in the extra it belongs to; what is declared is pinned."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
OURS = {
    "evoprompt": ROOT,
    "evoprompt-search-qa": ROOT / "examples/search_qa",
    "evoprompt-gepa": ROOT / "plugins/evoprompt-gepa",
    "evoprompt-hello": ROOT / "plugins/evoprompt-hello",
}
CODE = {
    "evoprompt": "evoprompt[lm,report]",
    "adapters/evoprompt_trl": "evoprompt[trl]",
    "adapters/evoprompt_verl": "evoprompt[verl]",
    "adapters/hydra_plugins": "evoprompt[verl]",
    "examples/search_qa/evoprompt_search_qa": "evoprompt-search-qa[retrieval,verl]",
    "plugins/evoprompt-gepa/evoprompt_gepa": "evoprompt-gepa",
}
TESTS = ("tests", "examples/search_qa/tests", "plugins", "benchmarks")
CONSTRAINTS = {
    "constraints.txt": ("evoprompt[dev]", "evoprompt-search-qa[retrieval,verl]", "evoprompt-gepa"),
    "constraints-trl-vllm.txt": ("evoprompt[trl-vllm]", "evoprompt-search-qa[retrieval]"),
    "constraints-verl-vllm.txt": ("evoprompt[verl-vllm]", "evoprompt-search-qa[retrieval,verl]"),
}


def declared(requirement: Requirement) -> Iterator[str]:
    """Every distribution that a requirement of ours names, through our own extras."""
    name = canonicalize_name(requirement.name)
    yield name
    if name not in OURS:
        return
    text = (OURS[name] / "pyproject.toml").read_text(encoding="utf-8")
    project = tomllib.loads(text)["project"]
    extras = project.get("optional-dependencies", {})
    for wanted in (*project["dependencies"], *(w for e in requirement.extras for w in extras[e])):
        yield from declared(Requirement(wanted))


def imported(folder: Path) -> set[str]:
    """Top-level modules that the files of a folder import when they are run."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        for node in nodes:
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                found.add(str(node.module).partition(".")[0])
    return found


@cache
def owners() -> Mapping[str, list[str]]:
    return packages_distributions()


def undeclared(modules: set[str], requirements: tuple[str, ...]) -> set[str]:
    known = {name for text in requirements for name in declared(Requirement(text))}
    found = {m: {canonicalize_name(name) for name in owners().get(m, ())} for m in modules}
    return {m for m, names in found.items() if names and not names & (known | OURS.keys())}


@pytest.mark.parametrize(("folder", "requirement"), CODE.items())
def test_what_the_code_imports_is_declared_by_its_extra(folder: str, requirement: str) -> None:
    modules = imported(ROOT / folder)
    assert modules
    assert undeclared(modules, (requirement,)) == set()


@pytest.mark.parametrize("folder", TESTS)
def test_what_tests_import_comes_with_the_development_environment(folder: str) -> None:
    assert undeclared(imported(ROOT / folder), CONSTRAINTS["constraints.txt"]) == set()


@pytest.mark.parametrize(("file", "requirements"), CONSTRAINTS.items())
def test_whatever_is_declared_is_pinned(file: str, requirements: tuple[str, ...]) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    pins = [Requirement(line) for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"==[\w.!+]+", str(pin.specifier)) for pin in pins), "not one version"
    assert all(pin.url is None for pin in pins), "an address"
    names = {canonicalize_name(pin.name) for pin in pins}
    wanted = {name for text in requirements for name in declared(Requirement(text))}
    assert wanted - OURS.keys() <= names, "run .ci/constraints"

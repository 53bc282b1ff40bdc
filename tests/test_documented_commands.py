"""Every command line that a page, a run file or a message shows is one that the program takes.

It is parsed here, and executed in test_executed_commands.py: the names of its commands and options
are known, every option has its value, and every argument has a place.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import typer
from printed import FENCE, ROOT, commands_of, pages

from evoprompt.experiments.cli import build_app

_QUOTED = re.compile(r"('|``?)evoprompt ([a-z-]+(?: [^'`]*)?)\1")

COMMANDS = sorted(
    {
        (str(path.relative_to(ROOT)), command)
        for path in pages()
        for command in commands_of(path)
        if "CHANGELOG" not in path.name
    }
)


@pytest.fixture(scope="module")
def root() -> Any:
    return typer.main.get_command(build_app(()))


def leaf_of(root: Any, words: Sequence[str]) -> tuple[Any, list[str]]:
    """Return the command that ``words`` name, and the rest of them."""
    command, left = root, list(words)
    while hasattr(command, "commands") and left and left[0][0] not in "-.":
        assert left[0] in command.commands, f"no command {left[0]}"
        command = command.commands[left.pop(0)]
    return command, left


def require_known(root: Any, words: Sequence[str]) -> None:
    """Require that the program takes ``words`` as they stand."""
    command, arguments = leaf_of(root, words)
    context = command.context_class(command)
    values, left, _ = command.make_parser(context).parse_args(list(arguments))
    if not hasattr(command, "commands"):
        assert not left, f"too many arguments: {left}"
    missing = [
        each.name
        for each in command.params
        if each.required and isinstance(values.get(each.name), None | Enum)  # click's UNSET
    ]
    assert not missing, f"without {missing}"


def test_there_are_pages_and_commands() -> None:
    assert len(COMMANDS) > 150
    assert {"README.md", "docs/running.md", "docs/own-documents.md"} <= {
        page for page, _ in COMMANDS
    }


@pytest.mark.parametrize(("page", "command"), COMMANDS)
def test_a_command_of_a_page_is_one_that_the_program_takes(
    root: Any, page: str, command: str
) -> None:
    require_known(root, shlex.split(command))


def text_of(node: ast.AST) -> str | None:
    """Return a text of the source; what is filled in is a word."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "X" for part in node.values)
    return None


def named_commands() -> Iterator[tuple[str, str]]:
    """Yield the commands that messages, docstrings and inline code of pages name in quotes."""
    for folder in ("evoprompt", "adapters", "plugins", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            if "tests" not in path.parts:
                tree = ast.parse(path.read_text(encoding="utf-8"))
                texts = [text for node in ast.walk(tree) if (text := text_of(node))]
                yield from _quoted(path, " ".join("\n".join(texts).split()))
    for path in pages():
        if path.suffix == ".md" and path.name != "CHANGELOG.md":  # which names what is gone
            yield from _quoted(path, " ".join(FENCE.sub("", path.read_text("utf-8")).split()))


def _quoted(path: Path, text: str) -> Iterator[tuple[str, str]]:
    for match in _QUOTED.finditer(text):
        yield str(path.relative_to(ROOT)), match[2]


NAMED = sorted(set(named_commands()))


@pytest.mark.parametrize(("place", "command"), NAMED)
def test_a_command_that_is_named_in_passing_has_these_options(
    root: Any, place: str, command: str
) -> None:
    leaf, left = leaf_of(root, command.split())
    known = {name for each in leaf.params for name in (*each.opts, *each.secondary_opts)}
    assert [word for word in left if word.startswith("--") and word not in {*known, "--help"}] == []


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("runn tiny.yaml", "no command runn"),
        ("run tiny.yaml more.yaml", "too many arguments"),
        ("run --dry-run", "without"),
        ("search-qa data prepare", "without"),
    ],
)
def test_what_the_program_does_not_take_is_found(root: Any, command: str, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        require_known(root, command.split())
    with pytest.raises(Exception, match="--dry-runn"):
        require_known(root, ["run", "tiny.yaml", "--dry-runn"])

"""Command lines that pages, run files and templates show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^([ ]*)```(\w*)[^\n]*\n(.*?)^\1```$", re.M | re.S)
_START = re.compile(r"(?:^|&& |\$ |-m |# +|[A-Z_]+=\S+ )evoprompt (?=[a-z-])")
_END = re.compile(r"\s(?:#|&&|\|\||\||>|2>|;|&$)")


def pages() -> Iterator[Path]:
    """Yield pages and run files that a user reads, without notes and lists of results."""
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "plugins/**/*.md"):
        yield from (p for p in ROOT.glob(pattern) if "notes" not in p.parts and p.is_file())
    for pattern in ("examples/**/*.yaml", "docs/tutorials/*.py", "containers/*"):
        yield from (path for path in ROOT.glob(pattern) if path.is_file())
    yield from (ROOT / "evoprompt/experiments/templates").rglob("*.txt")


def lines_of(path: Path) -> Iterator[str]:
    """Yield the lines of commands of a page: those in blocks, and comments of a run file."""
    text = path.read_text(encoding="utf-8").replace("$name", "word-count")
    if is_markdown(path):
        text = "\n".join(
            block for _, language, block in FENCE.findall(text) if language in ("console", "bash")
        )
    yield from re.sub(r"\\\n#?", " ", text).splitlines()


def is_markdown(path: Path) -> bool:
    """Return whether a page has its commands in blocks."""
    return path.suffix == ".md" or path.name.endswith(".md.txt")


def commands_of(path: Path) -> list[str]:
    """Return the words after ``evoprompt`` of the commands of a page, in its order."""
    return [
        _END.split(line[match.end() :])[0].strip()
        for line in lines_of(path)
        for match in _START.finditer(line.partition("  # ")[0])
    ]


def other_commands_of(path: Path) -> list[str]:
    """Return the other commands in the blocks of a page."""
    lines = [line.partition("  # ")[0] for line in lines_of(path)] if is_markdown(path) else []
    return [
        " ".join(line.removeprefix("$ ").split())
        for line in lines
        if line.strip() and not line.startswith("#") and not _START.search(line)
    ]

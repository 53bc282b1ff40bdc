"""Measures the house: code lines and files of each part, and who imports whom.

    python .ci/house.py                            prints the table
    python .ci/house.py docs/images/imports.dot    also draws the parts, for dot -Tsvg

Code lines are without blanks, comments and docstrings.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterator
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
PARTS = {
    "core": "evoprompt",
    "testing": "evoprompt/testing",
    "agents": "evoprompt/agents",
    "optimizer": "evoprompt/optimizer",
    "experiments": "evoprompt/experiments",
    "adapters": "adapters",
    "plugins": "plugins",
    "examples": "examples",
    "benchmarks": "benchmarks",
}
LAYERS = ("testing", "agents", "optimizer", "experiments")
METHOD = ("types.py", "roles.py", "engine.py", "generation.py")
ROLES = {"Population", "Selector", "Attributor", "Proposer", "Verifier", "Component"}


def code_lines(path: Path) -> int:
    """Lines that hold code."""
    source = path.read_text(encoding="utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NOTHING:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        text = node.value if isinstance(node, ast.Expr) else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            lines -= set(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return len(lines)


_NOTHING = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def files_of(part: str) -> list[Path]:
    """The Python files of a part, tests and other parts left out."""
    others = [ROOT / PARTS[name] for name in LAYERS if name != part] if part == "core" else []
    return [
        path
        for path in sorted((ROOT / PARTS[part]).rglob("*.py"))
        if "tests" not in path.relative_to(ROOT).parts
        and not any(path.is_relative_to(other) for other in others)
    ]


def asked_for_roles(path: Path) -> int:
    """How often the code asks whether something is of a role."""
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    calls = (n for n in nodes if isinstance(n, ast.Call) and len(n.args) > 1)
    return sum(
        isinstance(call.func, ast.Name)
        and call.func.id == "isinstance"
        and any(isinstance(n, ast.Name) and n.id in ROLES for n in ast.walk(call.args[1]))
        for call in calls
    )


def imports() -> set[tuple[str, str]]:
    """Which part of the core, layer or adapter imports which other one."""
    packages = ("evoprompt", "evoprompt_tinker", "evoprompt_trl", "evoprompt_verl")
    graph = grimp.build_graph(*packages, cache_dir=None)
    found = set()
    for module in graph.modules - {"evoprompt"}:
        for other in graph.find_modules_directly_imported_by(module) - {"evoprompt"}:
            pair = (_part(module), _part(other))
            if pair[0] != pair[1] and "testing" not in pair:
                found.add(pair)
    return found


def _part(module: str) -> str:
    top, _, rest = module.partition(".")
    return rest.partition(".")[0] if top == "evoprompt" else top


def ranks() -> dict[str, int]:
    """The layer of each part, from the top, as the contract of import-linter has them."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return {
        name.removeprefix("evoprompt."): number
        for number, layer in enumerate(layers)
        for name in re.split(r" [:|] ", layer)
    }


def drawn(edges: set[tuple[str, str]]) -> Iterator[str]:
    """The parts as a graph of Graphviz, a row for each layer, less what follows from other arrows.

    An arrow upwards is against the rules, and red. What lies in the lowest layer has none.
    """
    rank = ranks()
    lowest = max(rank.values())
    known = {(one, other) for one, other in edges if one in rank and other in rank}
    down = {edge for edge in known if rank[edge[0]] < rank[edge[1]] < lowest}
    yield "digraph imports {"
    yield '  node [shape=box, style=rounded, fontname="Helvetica", fontsize=11]; newrank=true;'
    yield '  nodesep=0.15; ranksep=0.5; edge [color="#7a8ca3", arrowsize=0.6];'
    for number in range(lowest):
        row = "; ".join(f'"{name}"' for name in sorted(rank) if rank[name] == number)
        yield f"  {{ rank=same; {row} }}"
    common = ", ".join(name for name in sorted(rank) if rank[name] == lowest)
    yield f'  label="below all of them: {common}"; fontname="Helvetica"; fontsize=11;'
    for one, other in sorted(down):
        if not any((one, way) in down and _leads(way, other, down) for way in rank if way != other):
            yield f'  "{one}" -> "{other}";'
    for one, other in sorted(edge for edge in known if rank[edge[0]] > rank[edge[1]]):
        yield f'  "{one}" -> "{other}" [color=red, constraint=false];'
    yield "}"


def _leads(one: str, other: str, edges: set[tuple[str, str]]) -> bool:
    seen, open_ = set(), [one]
    while open_:
        name = open_.pop()
        if name == other:
            return True
        if name not in seen:
            seen.add(name)
            open_ += [end for start, end in edges if start == name]
    return False


def main() -> None:
    """Prints the table; draws the parts where a file is named."""
    sys.path[:0] = [str(ROOT), str(ROOT / "adapters")]
    total = 0
    for part in PARTS:
        lines = sum(map(code_lines, files_of(part)))
        total += lines
        print(f"{part:12} {lines:7,} code lines in {len(files_of(part)):4} files")
    tests = [*ROOT.glob("tests/**/*.py"), *ROOT.glob("*/*/tests/**/*.py")]
    raw = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in tests)
    print(f"{'all':12} {total:7,} code lines; tests {raw:,} raw lines")
    method = sum(code_lines(ROOT / "evoprompt" / name) for name in METHOD)
    print(f"{'the method':12} {method:7,} code lines in {', '.join(METHOD)}")
    sources = [path for part in PARTS for path in files_of(part)]
    checked = sum("@runtime_checkable" in path.read_text(encoding="utf-8") for path in sources)
    asked = sum(map(asked_for_roles, sources))
    print(f"runtime-checkable protocols in {checked} files; isinstance on roles: {asked}")
    edges = imports()
    if len(sys.argv) > 1:
        Path(sys.argv[1]).write_text("\n".join(drawn(edges)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

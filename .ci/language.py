"""Language of names and docstrings: counts that must not rise (session ``language`` of nox).

The counts are of the shipped code, tests left out. ``LIMITS`` holds what they are today; lower a
limit with the change that lowers its count. The goals are in the last column of the output.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PARTS = ("evoprompt", "adapters", "plugins")
PERSONS = re.compile(r"\b(who|whom|whose|whoever|nobody|somebody|everybody|others)\b", re.I)
PERSONIFIED = re.compile(
    r"\b(lives?|living|alive|died|dead|dies|told|tells?|said|says?|asked|answered|earns?|earned)\b",
    re.I,
)
QUESTION_STARTS = re.compile(r"(what|whether|who|how)\b", re.I)
NO_NOUN = frozenset(
    """one found said told asked given known own kept shown made earned written others rest wanted
    spent taken lost gone left tried judged each none why most least more about same
    enough""".split()  # noqa: SIM905
)
LIMITS = {  # count: (today, goal)
    "person words per 1,000": (0.5, 0.6),
    "personified words per 1,000": (1.2, 2.0),
    "names without a noun, per cent": (0.2, 0.2),
    "docstrings that begin with a question word, per cent": (0.5, 1.0),
    "class names with several meanings": (0, 0),
}


def modules() -> Iterator[ast.Module]:
    """Yield the syntax trees of the shipped modules."""
    for part in PARTS:
        for path in sorted((ROOT / part).rglob("*.py")):
            if not {"tests", "testing"} & set(path.relative_to(ROOT).parts):
                yield ast.parse(path.read_text(encoding="utf-8"))


def count() -> dict[str, float]:
    """Return the counts, by the names in ``LIMITS``."""
    words = persons = personified = names = without_noun = docstrings = questions = 0
    places: dict[str, int] = defaultdict(int)
    for module in modules():
        for node in ast.walk(module):
            match node:
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                    names += 1
                    without_noun += name in NO_NOUN
                case ast.ClassDef(name=name) if node in module.body:
                    places[name] += 1
            documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
            text = ast.get_docstring(node) if isinstance(node, documented) else None
            if text:
                docstrings += 1
                words += len(text.split())
                persons += len(PERSONS.findall(text))
                personified += len(PERSONIFIED.findall(text))
                questions += bool(QUESTION_STARTS.match(text))
    values = (
        1000 * persons / words,
        1000 * personified / words,
        100 * without_noun / names,
        100 * questions / docstrings,
        sum(number > 1 for number in places.values()),
    )
    return dict(zip(LIMITS, values, strict=True))


def main() -> None:
    """Print the counts; exit with 1 if one of them is above its limit."""
    counts = count()
    for name, value in counts.items():
        limit, goal = LIMITS[name]
        mark = "TOO MANY" if value > limit else ""
        print(f"{name:55} {value:7.2f}  limit {limit:g}, goal {goal:g} {mark}")
    sys.exit(any(value > LIMITS[name][0] for name, value in counts.items()))


if __name__ == "__main__":
    main()

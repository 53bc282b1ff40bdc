"""Fail if modules import each other in a circle, imports for type checkers included.

python .ci/circles.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[1]
PACKAGES = ("evoprompt", "evoprompt_tinker", "evoprompt_trl", "evoprompt_verl")
FACADE = "evoprompt"  # imports everything, when a name is read


def find_circles() -> list[tuple[str, ...]]:
    """Return the shortest circle through each import that is part of one."""
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    circles = []
    for module in sorted(graph.modules - {FACADE}):
        for imported in sorted(graph.find_modules_directly_imported_by(module) - {FACADE}):
            chain = graph.find_shortest_chain(importer=imported, imported=module)
            if chain and FACADE not in chain:
                circles.append((module, *chain))
    return circles


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "adapters")]
    circles = find_circles()
    for circle in circles:
        print(" -> ".join(circle))
    if circles:
        raise SystemExit(
            "modules import each other; required: no circle; move what both need down, or pass it"
        )

"""Which component to rewrite: the one whose rewriting has helped most often, by Thompson's rule."""

from __future__ import annotations

import random
from collections.abc import Iterable


class Credit:
    """Counts for every component how often a rewritten text was accepted.

    Args:
        components: their names, at least one.
    """

    def __init__(self, components: Iterable[str]) -> None:
        self._found = {name: [1.0, 1.0] for name in components}

    def choose(self, rng: random.Random) -> str:
        """A component, drawn as likely as it is to be the most promising one."""
        draws = {name: rng.betavariate(*found) for name, found in self._found.items()}
        return max(draws, key=draws.__getitem__)

    def learn(self, component: str, accepted: bool) -> None:
        """Takes note of one more text; what was long ago counts for less."""
        for found in self._found.values():
            found[:] = (1 + 0.9 * (count - 1) for count in found)
        self._found[component][0 if accepted else 1] += 1

"""Search as a tool that many episodes call at the same time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evoprompt.agents import Broken, Call, Result, ToolCaller

Passages = tuple[str, ...]
SearchMany = Callable[[Sequence[str]], Sequence[Passages | None]]
"""Answers queries in order; None where the tool broke."""


def calling(search: SearchMany, shown: Callable[[Passages], str]) -> ToolCaller:
    """Calls ``search`` and shows the passages by ``shown``."""

    def call(calls: Sequence[Call]) -> list[Result]:
        found = search([str(one.arguments["query"]) for one in calls])
        return [
            Broken("the search tool failed") if passages is None else shown(passages)
            for passages in found
        ]

    return call

"""Search as a tool that many episodes call at the same time, or one among others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from evoprompt.agents import Broken, Call, Result

Passages = tuple[str, ...]
SearchMany = Callable[[Sequence[str]], Sequence[Passages | None]]
"""Answers queries in order; None where the tool broke."""
SearchOne = Callable[[str], Awaitable[Sequence[str]]]
"""Answers a query while the event loop goes on; raises where the tool broke."""


class SearchCaller:
    """Calls a search tool.

    Args:
        search: answers many queries together.
        shown: the passages as the policy is shown them.
        search_one: answers one query among others; by default by ``search``, in a thread.
    """

    def __init__(
        self,
        search: SearchMany,
        shown: Callable[[Sequence[str]], str],
        search_one: SearchOne | None = None,
    ) -> None:
        self._search, self._shown, self._search_one = search, shown, search_one

    def __call__(self, calls: Sequence[Call]) -> list[Result]:
        """The results of ``calls``, in order."""
        found = self._search([str(one.arguments["query"]) for one in calls])
        return [self._result(passages) for passages in found]

    async def one(self, call: Call) -> Result:
        """The result of ``call``.

        Raises:
            Exception: whatever the tool raises: it broke.
        """
        if self._search_one is None:
            return (await asyncio.to_thread(self, [call]))[0]
        return self._result(await self._search_one(str(call.arguments["query"])))

    def _result(self, passages: Sequence[str] | None) -> Result:
        return Broken("the search tool failed") if passages is None else self._shown(passages)

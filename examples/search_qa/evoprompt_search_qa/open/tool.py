"""The search server as the tool of many episodes that search at the same time."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from evoprompt_retrieval.client import RetrievalClient, RetrievalError

from evoprompt_search_qa.tool import Passages

_REMEMBERED = 200_000


class SearchTool:
    """Asks a search server, all queries together, and remembers the latest answers.

    Args:
        url: of the server.
        topk: passages a query.
        attempts: how often a request is tried; eight take about two minutes, enough for a server
            to be started again.
        pause: longest pause before the second attempt, in seconds.
    """

    def __init__(self, url: str, topk: int = 3, *, attempts: int = 8, pause: float = 0.5) -> None:
        self._url, self._topk = url, topk
        self._attempts, self._pause = attempts, pause
        self._known: OrderedDict[str, Passages] = OrderedDict()
        self._joined: tuple[asyncio.AbstractEventLoop, RetrievalClient] | None = None

    def __call__(self, queries: Sequence[str]) -> list[Passages | None]:
        """The best passages for each query, best first; None where the server failed.

        Raises:
            RetrievalError: it failed for every query, so that going on would teach nothing.
        """
        unknown = [query for query in dict.fromkeys(queries) if query not in self._known]
        failed: dict[str, RetrievalError] = {}
        for query, answer in zip(unknown, asyncio.run(self._ask(unknown)), strict=True):
            if isinstance(answer, RetrievalError):
                failed[query] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                self._known[query] = answer
        if queries and all(query in failed for query in queries):
            raise failed[queries[0]]
        found = [self._known.get(query) for query in queries]
        for query in queries:
            if query in self._known:
                self._known.move_to_end(query)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return found

    async def one(self, query: str) -> Passages:
        """The best passages for one query, while others ask theirs in the same event loop.

        Raises:
            RetrievalError: the server failed.
        """
        loop = asyncio.get_running_loop()
        if self._joined is None or self._joined[0] is not loop:
            # One client an event loop: its queries travel together, and answers are kept.
            client = RetrievalClient(
                self._url, topk=self._topk, attempts=self._attempts, pause=self._pause
            )
            self._joined = loop, client
            await client.__aenter__()
        return await self._joined[1].search(query)

    async def _ask(self, queries: Sequence[str]) -> Sequence[Passages | BaseException]:
        # One client per call: nothing of it has to outlive the call or be closed at exit.
        client = RetrievalClient(
            self._url, topk=self._topk, attempts=self._attempts, pause=self._pause
        )
        async with client:
            return await asyncio.gather(*map(client.search, queries), return_exceptions=True)

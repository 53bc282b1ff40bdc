"""The search server as the tool of many episodes that search at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from evoprompt_retrieval.client import RetrievalClient, RetrievalError

from evoprompt_search_qa.tool import Passages


class SearchTool:
    """Asks a search server, all queries together.

    Args:
        url: of the server.
        topk: passages a query.
        attempts: how often a request is tried; eight take about two minutes, enough for a server
            to be started again.
    """

    def __init__(self, url: str, topk: int = 3, *, attempts: int = 8) -> None:
        self._url, self._topk, self._attempts = url, topk, attempts
        self._joined: tuple[asyncio.AbstractEventLoop, RetrievalClient] | None = None

    def __call__(self, queries: Sequence[str]) -> list[Passages | None]:
        """The best passages for each query, best first; None where the server failed.

        Raises:
            RetrievalError: it failed for every query, so that going on would teach nothing.
        """
        answers = asyncio.run(self._ask(queries))
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        for error in failed:
            if len(failed) == len(queries) or not isinstance(error, RetrievalError):
                raise error
        return [None if isinstance(answer, BaseException) else answer for answer in answers]

    async def one(self, query: str) -> Passages:
        """The best passages for one query, while others ask theirs in the same event loop.

        Raises:
            RetrievalError: the server failed.
        """
        loop = asyncio.get_running_loop()
        if self._joined is None or self._joined[0] is not loop:
            # One client an event loop: its queries travel together, and answers are kept.
            self._joined = loop, self._client()
            await self._joined[1].__aenter__()
        return await self._joined[1].search(query)

    async def _ask(self, queries: Sequence[str]) -> Sequence[Passages | BaseException]:
        # One client per call: nothing of it has to outlive the call or be closed at exit.
        async with self._client() as client:
            return await asyncio.gather(*map(client.search, queries), return_exceptions=True)

    def _client(self) -> RetrievalClient:
        return RetrievalClient(self._url, topk=self._topk, attempts=self._attempts)

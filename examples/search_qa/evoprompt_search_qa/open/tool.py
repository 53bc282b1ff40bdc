"""Search server as the tool of many episodes that search at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from evoprompt_retrieval.client import RetrievalClient, RetrievalError

from evoprompt.agents import Broken, Result, ToolCall
from evoprompt_search_qa import protocol


class SearchTool:
    """Caller of a search server, with all queries together.

    Args:
        url: of the server.
        topk: passages a query.
        attempts: number of attempts per request; eight take about two minutes, enough for a restart
            of a server.
    """

    def __init__(self, url: str, topk: int = 3, *, attempts: int = 8) -> None:
        self._url, self._topk, self._attempts = url, topk, attempts
        self._joined: tuple[asyncio.AbstractEventLoop, RetrievalClient] | None = None

    def __call__(self, calls: Sequence[ToolCall]) -> list[Result]:
        """Return the best passages for each query, best first; ``Broken`` if the server failed.

        Raises:
            RetrievalError: it failed for every query, so that training on would be useless.
        """
        answers = asyncio.run(self._search_all(calls))
        failed = [answer for answer in answers if isinstance(answer, BaseException)]
        for error in failed:
            if len(failed) == len(calls) or not isinstance(error, RetrievalError):
                raise error
        return [
            Broken("the search tool failed") if isinstance(answer, BaseException) else answer
            for answer in answers
        ]

    async def one(self, call: ToolCall) -> Result:
        """Return the best passages for one query, among concurrent queries of the event loop.

        Raises:
            RetrievalError: the server failed.
        """
        loop = asyncio.get_running_loop()
        if self._joined is None or self._joined[0] is not loop:
            # One client an event loop: its queries are sent together, and answers are cached.
            self._joined = loop, self._client()
            await self._joined[1].__aenter__()
        return await _search(self._joined[1], call)

    async def _search_all(self, calls: Sequence[ToolCall]) -> Sequence[str | BaseException]:
        # One client per call: nothing of it has to outlive the call or be closed at exit.
        async with self._client() as client:
            searches = (_search(client, call) for call in calls)
            return await asyncio.gather(*searches, return_exceptions=True)

    def _client(self) -> RetrievalClient:
        return RetrievalClient(self._url, topk=self._topk, attempts=self._attempts)


async def _search(client: RetrievalClient, call: ToolCall) -> str:
    return protocol.listed(await client.search(str(call.arguments["query"])))

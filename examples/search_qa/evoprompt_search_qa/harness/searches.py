"""Where the methods of an evaluation search: the tiny world's own search, or a server."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from evoprompt_retrieval.address import flaw

from evoprompt.errors import InputError
from evoprompt_search_qa.harness.sources import HOPS, DataSet
from evoprompt_search_qa.methods.registry import METHODS
from evoprompt_search_qa.tiny.task import SearchQa
from evoprompt_search_qa.tool import SearchMany


def require_address(retriever: str) -> None:
    """Refuses what no search server can be asked at.

    Raises:
        InputError: ``retriever`` is no address.
    """
    if why := flaw(retriever):
        raise InputError(
            f"--retriever is {retriever!r}, which is no address ({why}); required: such as "
            "http://127.0.0.1:8000"
        )


def require_search(
    methods: Sequence[str], data_sets: Sequence[DataSet], retriever: str | None
) -> None:
    """Refuses methods that search for real questions without a server to ask.

    Raises:
        InputError: there are such methods and questions, and ``retriever`` is None.
    """
    searching = [method for method in methods if METHODS[method].searches]
    real = [data.name for data in data_sets if data.name not in HOPS]
    if searching and real and retriever is None:
        raise InputError(
            f"{', '.join(searching)} search for the questions of {', '.join(real)}; required: "
            "--retriever, the address of 'evoprompt retriever serve'"
        )


class Searches:
    """The search tool of each data set; the client of the server is opened once.

    Args:
        url: of the server, None where nothing real is asked.
        topk: passages per search of the server.
        stack: closes the client.
    """

    def __init__(self, url: str | None, topk: int, stack: contextlib.ExitStack) -> None:
        self._url, self._topk = url, topk
        self._stack = stack
        self._server: SearchMany | None = None

    def __call__(self, data: DataSet) -> SearchMany:
        """The search for the questions of ``data``."""
        if data.name not in HOPS and self._url is not None:
            return self._remote(self._url)
        tool = SearchQa().tool("test")
        return lambda queries: [tool.search(query) for query in queries]

    def _remote(self, url: str) -> SearchMany:
        if self._server is None:
            from evoprompt_retrieval.client import BlockingRetriever, RetrievalClient

            client = RetrievalClient(url, topk=self._topk)
            retriever = self._stack.enter_context(BlockingRetriever(client))
            self._server = retriever.many
        return self._server

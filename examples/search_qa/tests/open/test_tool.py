from __future__ import annotations

import pytest
from evoprompt_retrieval.client import RetrievalClient, RetrievalError
from evoprompt_search_qa.open.tool import SearchTool

from evoprompt.agents import Broken, ToolCall


def calls(*queries: str) -> list[ToolCall]:
    return [ToolCall("search", {"query": query}) for query in queries]


def test_queries_are_answered_in_order_by_a_real_server(retriever: str) -> None:
    search = SearchTool(retriever, topk=1)
    found = search(calls("Teo Brand", "Mila Korv", "Teo Brand"))
    names = ['Doc 1(Title: "Teo Brand")', 'Doc 1(Title: "Mila Korv")', 'Doc 1(Title: "Teo Brand")']
    assert [f"{str(shown).partition(')')[0]})" for shown in found] == names
    assert search([]) == []


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What reached the server; it breaks on queries with a "!"."""
    queries: list[str] = []

    async def ask(client: RetrievalClient, query: str) -> tuple[str, ...]:
        queries.append(query)
        if "!" in query:
            raise RetrievalError("down")
        return (query.upper(),)

    monkeypatch.setattr(RetrievalClient, "search", ask)
    return queries


def test_a_query_that_fails_is_told_apart(asked: list[str]) -> None:
    search = SearchTool("http://nowhere")
    first, second, third = search(calls("a", "b!", "a"))
    assert (first, third) == ("Doc 1(Title: A)", "Doc 1(Title: A)")
    assert isinstance(second, Broken)


def test_a_server_that_answers_nobody_is_an_error(asked: list[str]) -> None:
    search = SearchTool("http://nowhere")
    with pytest.raises(RetrievalError, match="down"):
        search(calls("a!", "b!"))

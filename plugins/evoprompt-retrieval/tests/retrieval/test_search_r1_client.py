"""Requests as Search-R1's own client sends them, one after each turn of a batch of rollouts."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import httpx
import pytest
from evoprompt_retrieval.bm25 import Bm25Index
from evoprompt_retrieval.requests import ServerLimits

Serve = Callable[..., AbstractContextManager[str]]


def observations(url: str, queries: Sequence[str], topk: int = 3) -> list[str]:
    """What the client shows: it posts all queries of a turn and reads titles and texts.

    It looks at no status, and at no field that the server might lack.
    """
    body = {"queries": list(queries), "topk": topk, "return_scores": True}
    answer = httpx.post(  # as "requests" writes it: in ASCII, with escapes
        f"{url}/retrieve",
        content=json.dumps(body),
        headers={"Content-Type": "application/json"},
        timeout=60,
        trust_env=False,
    )
    result = answer.json()["result"]
    shown = []
    for hits in result:
        texts = [hit["document"]["contents"].split("\n", 1) for hit in hits]
        shown.append("\n".join(f"{title}: {''.join(text)}" for title, *text in texts))
    assert len(result) == len(queries)
    return shown


def test_every_search_of_a_turn_is_answered_in_order(serve: Serve, bm25: Bm25Index) -> None:
    with serve(bm25) as url:
        found = observations(url, ["Ulm Minster spire", "Black Sea", "Ulm Minster spire"])
    assert found[0] == found[2]
    assert found[0].startswith('"Ulm Minster": Ulm Minster is a church')
    assert found[1].startswith('"Black Sea": ')


def test_a_turn_in_which_nobody_searches_is_answered(serve: Serve, bm25: Bm25Index) -> None:
    with serve(bm25) as url:
        assert observations(url, []) == []


def test_a_topk_of_nothing_is_the_default(serve: Serve, bm25: Bm25Index) -> None:
    with serve(bm25) as url:
        assert observations(url, ["copper"], topk=0) == observations(url, ["copper"])


def test_one_query_that_is_too_long_costs_only_its_own_end(
    serve: Serve, bm25: Bm25Index, caplog: pytest.LogCaptureFixture
) -> None:
    limits = ServerLimits(query_chars=20)
    with serve(bm25, limits) as url:
        found = observations(url, ["Ulm Minster spire Xx" + "and so on " * 5000, "copper"])
        assert found[0].startswith('"Ulm Minster": ')
        assert "Zambia" in found[1]
    assert "1 of 2 queries had more than 20 characters and lost their end" in caplog.text


def test_a_search_for_nothing_and_broken_characters_do_not_fail_the_turn(
    serve: Serve, bm25: Bm25Index
) -> None:
    with serve(bm25) as url:
        assert observations(url, ["", "copper \ud800 mines \udfad\ud83c"])[0] == ""


def test_the_batch_of_a_whole_training_step_is_answered(serve: Serve, bm25: Bm25Index) -> None:
    queries = [f"Who exports copper number {number}?" for number in range(512 * 5)]
    with serve(bm25) as url:
        assert all("Zambia" in shown for shown in observations(url, queries))

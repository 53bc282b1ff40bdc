"""Requests to the search server, read and checked in time linear in their bytes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

DEFAULT_TOPK = 3

_WHOLE = rb"[^\\]+|\\[^u]|\\u(?:[^dD]...|[dD][0-7]..|[dD][89abAB]..\\u[dD][c-fC-F]..)"
_HALVES = re.compile(rb"((?:%s){0,4096})((?!%s)\\u....)?" % (_WHOLE, _WHOLE), re.DOTALL)
"""JSON up to an escape that is half of a surrogate pair, and that escape.

By so many pieces, as each takes memory. The quantifier that keeps none of them, ``*+``, goes
astray here in Python 3.11.2, which is Debian 12's.
"""


class RefusedError(Exception):
    """Refusal of a request, with an HTTP error.

    Attributes:
        status: of HTTP.
        detail: the given value and the requirement.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(status, detail)
        self.status, self.detail = status, detail


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of requests, and of concurrent work.

    Attributes:
        body_bytes: most bytes of a request.
        seconds: longest time for a client to send the body of a request, or to leave a connection
            idle.
        queries: most queries of a request; Search-R1 sends those of a whole training batch.
        query_chars: most characters of a query that are searched for; its end is cut off.
        topk: most passages of a query.
        passages: most passages of a request, that is queries times topk.
        batch: most queries searched at a time.
        waiting: most queries that wait before further ones are refused.
    """

    body_bytes: int = 16 * 1024 * 1024
    seconds: int = 30
    queries: int = 8192
    query_chars: int = 8192
    topk: int = 100
    passages: int = 40_960
    batch: int = 512
    waiting: int = 65_536


class _Body(msgspec.Struct):
    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """Request that can be answered.

    Attributes:
        queries: texts to search for.
        topk: passages per query.
        with_scores: whether every passage comes with its score.
        cut: number of queries that were too long and lost their end.
    """

    queries: Sequence[str]
    topk: int
    with_scores: bool
    cut: int


def parse(body: bytes, limits: ServerLimits) -> SearchRequest:
    """Return the request in the body of ``POST /retrieve``.

    As with Search-R1's server, a request without queries is allowed, and a ``topk`` of 0 is the
    default. One query that is too long does not fail its batch: it is cut.

    Raises:
        RefusedError: the body is no such request, or exceeds a limit.
    """
    request = _decode(body)
    topk = request.topk or DEFAULT_TOPK
    for value, low, high, name in (
        (len(request.queries), 0, limits.queries, "the number of queries"),
        (topk, 1, limits.topk, "topk"),
        (len(request.queries) * topk, 0, limits.passages, "the number of queries times topk"),
    ):
        if not low <= value <= high:
            raise RefusedError(422, f"{name} is {value}; required: {low} to {high}")
    longest = limits.query_chars
    cut = sum(len(query) > longest for query in request.queries)
    queries = [query[:longest] for query in request.queries] if cut else request.queries
    return SearchRequest(queries, topk, request.return_scores, cut)


def _decode(body: bytes) -> _Body:
    try:
        return msgspec.json.decode(body, type=_Body)
    except msgspec.ValidationError as error:
        detail = f"{error}; required: queries (texts), topk, return_scores"
        raise RefusedError(422, detail) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # Policies do write half a character, which must not fail a whole batch.
        whole = _HALVES.sub(lambda match: match[1] + (rb"\ufffd" if match[2] else b""), body)
        if whole != body:
            return _decode(whole)
        raise RefusedError(400, f"the body is not JSON: {error}") from error

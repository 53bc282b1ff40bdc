from __future__ import annotations

import pytest
from evoprompt_retrieval.requests import RefusedError, ServerLimits, parse

LIMITS = ServerLimits(queries=4, query_chars=5, topk=10, passages=15)


def test_a_request_is_read_with_its_defaults() -> None:
    wanted = parse(b'{"queries": ["a", "b"], "unknown": {}}', LIMITS)
    assert (wanted.queries, wanted.topk, wanted.with_scores, wanted.cut) == (
        ["a", "b"],
        3,
        False,
        0,
    )


@pytest.mark.parametrize("topk", [b"0", b"null"])
def test_no_topk_is_the_default(topk: bytes) -> None:
    assert parse(b'{"queries": [], "topk": %s}' % topk, LIMITS).topk == 3


def test_long_queries_are_cut_and_counted() -> None:
    wanted = parse(b'{"queries": ["abcdefg", "abcde", "hijklmn"]}', LIMITS)
    assert (wanted.queries, wanted.cut) == (["abcde", "abcde", "hijkl"], 2)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (rb"\ud83c\udfad", "\U0001f3ad"),
        (rb"\ud83c", "\ufffd"),
        (rb"\udfad\ud83c", "\ufffd\ufffd"),
        (rb"\ud83c\ud83c\udfad", "\ufffd\U0001f3ad"),
        (rb"\ud83c\n", "\ufffd\n"),
        (rb"\\ud8", "\\ud8"),
        (rb"\\\ud83c", "\\\ufffd"),
        (rb"\u0000\ud83c", "\x00\ufffd"),
    ],
)
def test_half_a_character_is_replaced_and_nothing_else(written: bytes, read: str) -> None:
    assert parse(b'{"queries": ["%s"]}' % written, LIMITS).queries == [read]


@pytest.mark.parametrize(
    "body", [b"", b"\xff", b"\\", b'{"queries": ["\\ud8"]}', b'{"queries": ["\xed"]}']
)
def test_what_is_no_json_is_refused_as_such(body: bytes) -> None:
    with pytest.raises(RefusedError) as refused:
        parse(body, LIMITS)
    assert refused.value.status == 400

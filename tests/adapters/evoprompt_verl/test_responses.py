"""A response is taken apart by its mask."""

from __future__ import annotations

from evoprompt_verl.responses import Response

from evoprompt.types import Turn


def decode(ids: list[int]) -> str:
    return "".join(chr(token) for token in ids)


def response(text: str, mask: str) -> Response:
    return Response([ord(letter) for letter in text], [int(digit) for digit in mask])


def test_observations_follow_the_action_that_caused_them() -> None:
    found = response("search(paris)end", "1110000000000111")
    assert found.turns(decode) == (Turn("sea", "rch(paris)"), Turn("end"))


def test_counts_only_what_the_policy_wrote() -> None:
    assert response("aaBBaB", "110010").metrics() == {"response_tokens": 3.0, "tool_calls": 2.0}


def test_a_response_without_a_tool_is_one_turn() -> None:
    found = response("yes", "111")
    assert found.turns(decode) == (Turn("yes"),)
    assert found.metrics()["tool_calls"] == 0.0


def test_text_before_the_first_action_is_kept() -> None:
    assert response("BBaa", "0011").turns(decode) == (Turn("", "BB"), Turn("aa"))


def test_nothing_at_all_is_no_turn() -> None:
    assert response("", "").turns(decode) == ()

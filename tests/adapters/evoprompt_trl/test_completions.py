from __future__ import annotations

import pytest
from evoprompt_trl.completions import Completion
from hypothesis import given
from hypothesis import strategies as st

from evoprompt.types import Turn


def decode(spans: list[list[int]]) -> list[str]:
    return ["".join(chr(token) for token in span) for span in spans]


def completion(text: str, mask: str | None) -> Completion:
    marks = None if mask is None else [mark == "1" for mark in mask]
    return Completion([ord(letter) for letter in text], marks)


@pytest.mark.parametrize(
    ("text", "mask", "turns"),
    [
        ("abc", None, [("abc", "")]),
        ("abc", "111", [("abc", "")]),
        ("abXYcd", "110011", [("ab", "XY"), ("cd", "")]),
        ("aXbYc", "10101", [("a", "X"), ("b", "Y"), ("c", "")]),
        ("aX", "10", [("a", "X")]),
        ("Xa", "01", [("", "X"), ("a", "")]),
    ],
)
def test_turns_follow_the_mask(text: str, mask: str | None, turns: list[tuple[str, str]]) -> None:
    assert completion(text, mask).turns(decode) == tuple(Turn(*turn) for turn in turns)


def test_only_the_policys_tokens_count_as_response() -> None:
    assert completion("abXYcdZ", "1100110").metrics() == {"response_tokens": 4, "tool_calls": 2}


def test_without_a_mask_no_tool_calls_are_claimed() -> None:
    assert completion("abc", None).metrics() == {"response_tokens": 3}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=20))
def test_no_text_is_lost_or_reordered(tokens: list[tuple[str, bool]]) -> None:
    text = "".join(letter for letter, _ in tokens)
    found = Completion([ord(letter) for letter, _ in tokens], [policy for _, policy in tokens])
    turns = found.turns(decode)
    assert "".join(turn.action + turn.observation for turn in turns) == text
    assert sum(bool(turn.observation) for turn in turns) == found.metrics()["tool_calls"]
    assert sum(len(turn.action) for turn in turns) == found.metrics()["response_tokens"]

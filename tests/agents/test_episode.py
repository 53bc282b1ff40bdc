from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoprompt.agents import Action, Episode, split, turns
from evoprompt.types import Turn


def decode(spans: list[list[int]]) -> list[str]:
    return ["".join(map(chr, span)) for span in spans]


@pytest.mark.parametrize(
    ("text", "mask", "found"),
    [
        ("", "", ()),
        ("abc", "111", (Turn("abc"),)),
        ("abXYcd", "110011", (Turn("ab", "XY"), Turn("cd"))),
        ("aX", "10", (Turn("a", "X"),)),
        ("Xa", "01", (Turn("", "X"), Turn("a"))),
    ],
)
def test_turns_follow_the_mask(text: str, mask: str, found: tuple[Turn, ...]) -> None:
    assert turns([ord(letter) for letter in text], [int(one) for one in mask], decode) == found


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans())))
def test_splitting_loses_no_token(pairs: list[tuple[int, bool]]) -> None:
    ids, mask = [token for token, _ in pairs], [own for _, own in pairs]
    joined = [token for said, shown in split(ids, mask) for token in (*said, *shown)]
    assert joined == ids


def test_what_is_said_and_shown_is_kept_token_by_token() -> None:
    episode = Episode([1])
    episode.show([2], "given")
    episode.add_action(Action([3, 4], [-0.5, -1.0]), "said")
    episode.show([5], "shown")
    episode.add_action(Action([6]), "end")
    assert episode.context == [1, 2, 3, 4, 5, 6]
    assert episode.policy_mask == [0, 1, 1, 0, 1]
    assert episode.logprobs == [0.0, -0.5, -1.0, 0.0, 0.0]
    assert episode.turns == [Turn("", "given"), Turn("said", "shown"), Turn("end")]
    assert episode.tool_calls == 2

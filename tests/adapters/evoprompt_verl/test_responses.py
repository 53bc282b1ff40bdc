"""A response is taken apart by its mask."""

from __future__ import annotations

import pytest
import torch
from evoprompt_verl.responses import mask_metrics

from evoprompt.agents import turns
from evoprompt.types import Turn


def taken_apart(text: str, mask: str) -> tuple[Turn, ...]:
    ids = [ord(letter) for letter in text]
    return turns(
        ids,
        [int(digit) for digit in mask],
        lambda spans: ["".join(map(chr, span)) for span in spans],
    )


def metrics(mask: str) -> dict[str, float]:
    return mask_metrics(torch.tensor([int(digit) for digit in mask], dtype=torch.int64))


def test_observations_follow_the_action_that_caused_them() -> None:
    found = taken_apart("search(paris)end", "1110000000000111")
    assert found == (Turn("sea", "rch(paris)"), Turn("end"))


@pytest.mark.parametrize(
    ("mask", "tokens", "calls"),
    [("110010", 3.0, 2.0), ("111", 3.0, 0.0), ("0011", 2.0, 1.0), ("0", 0.0, 1.0), ("", 0.0, 0.0)],
)
def test_counts_only_what_the_policy_wrote(mask: str, tokens: float, calls: float) -> None:
    assert metrics(mask) == {"response_tokens": tokens, "tool_calls": calls}


def test_a_response_without_a_tool_is_one_turn() -> None:
    assert taken_apart("yes", "111") == (Turn("yes"),)


def test_text_before_the_first_action_is_kept() -> None:
    assert taken_apart("BBaa", "0011") == (Turn("", "BB"), Turn("aa"))


def test_nothing_at_all_is_no_turn() -> None:
    assert taken_apart("", "") == ()

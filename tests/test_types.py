"""Records are plain, frozen and picklable."""

from __future__ import annotations

import math
import re

import pytest

from evoprompt.support.errors import InputError
from evoprompt.testing.samples import candidate, question, trajectory
from evoprompt.types import (
    TextLimits,
)


class TestRecords:
    def test_tokens_are_estimated_until_a_tokenizer_is_known(self) -> None:
        count = TextLimits().count_tokens
        assert count("do it in a go") == 5  # words
        assert count("a" * 100) == 20  # bytes, where there are no words


class TestRequireFinite:
    @pytest.mark.parametrize("reward", [None, 0.0, -1e100, 1e100, 1, True])
    def test_takes_numbers_and_none(self, reward: float | None) -> None:
        trajectory(candidate(0), question(0), reward).require_finite()

    @pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, 1e101])
    def test_names_a_reward_that_is_no_usable_number(self, reward: float) -> None:
        broken = trajectory(candidate(0), question(0), reward)
        with pytest.raises(InputError, match=re.escape(f"reward {reward} of assignment 'c0-q0'")):
            broken.require_finite()

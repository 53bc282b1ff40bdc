"""Tokenizers with chat templates of three families."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bytewise import HERMES, bytewise
from transformers import PreTrainedTokenizerFast

MakeTokenizer = Callable[[str | None], PreTrainedTokenizerFast]


@pytest.fixture
def make() -> MakeTokenizer:
    """Makes a tokenizer with a chat template."""
    return bytewise


@pytest.fixture
def hermes() -> PreTrainedTokenizerFast:
    """A tokenizer whose template writes tool calls as Qwen's does."""
    return bytewise(HERMES)

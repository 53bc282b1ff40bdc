"""How the calculator is demonstrated to a model with a tokenizer of its own."""

from __future__ import annotations

import random
from collections.abc import Callable

from evoprompt_calculator import pretrain
from evoprompt_tiny.demonstrations import Example
from transformers import PreTrainedTokenizerBase

from evoprompt.agents import Limits

LIMITS = Limits(calls=5, turn_tokens=64, observation_tokens=64)
"""More than the calculator's own, which are for a tokenizer that has a token for every word."""


def demonstrations(tokenizer: PreTrainedTokenizerBase) -> Callable[[random.Random], Example]:
    """Draws demonstrations of problems that the task never asks.

    The demonstrators are those of the calculator's tiny policy, who follow random instructions: to
    calculate step by step, in one expression or in their heads, to write the number alone or a
    sentence. They make errors, as an instruction or chance has it.
    """
    draw = pretrain.demonstrations(tokenizer, LIMITS)
    return lambda rng: draw(rng, "all")

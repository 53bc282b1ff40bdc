"""What the policy wrote and what the environment answered, taken apart by veRL's response mask.

The mask is 1 where the policy emitted a token, 0 where the environment did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

import torch

from evoprompt.types import Turn

Decode = Callable[[list[int]], str]


def mask_metrics(mask: torch.Tensor) -> dict[str, float]:
    """``response_tokens``, the policy's own, and ``tool_calls``, the observations it got.

    >>> mask_metrics(torch.tensor([1, 1, 0, 0, 1, 0]))
    {'response_tokens': 3.0, 'tool_calls': 2.0}
    """
    begun = int((mask[:1] == 0).sum()) + int((mask[1:] < mask[:-1]).sum())
    return {"response_tokens": float(mask.sum()), "tool_calls": float(begun)}


def turns(ids: Sequence[int], mask: Sequence[int], decode: Decode) -> tuple[Turn, ...]:
    """The actions and the observations that followed them, as text.

    Args:
        ids: tokens that followed the prompt, without padding.
        mask: of the same length.
        decode: text of some token ids.
    """
    found: list[Turn] = []
    for emitted, span in groupby(zip(ids, mask, strict=True), key=lambda pair: pair[1]):
        text = decode([token for token, _ in span])
        if emitted:
            found.append(Turn(text))
        elif found:
            found[-1] = Turn(found[-1].action, text)
        else:
            found.append(Turn("", text))
    return tuple(found)

"""What veRL's response mask tells of a response.

The mask is 1 where the policy emitted a token, 0 where the environment did.
"""

from __future__ import annotations

import torch


def mask_metrics(mask: torch.Tensor) -> dict[str, float]:
    """``response_tokens``, the policy's own, and ``tool_calls``, the observations it got.

    >>> mask_metrics(torch.tensor([1, 1, 0, 0, 1, 0]))
    {'response_tokens': 3.0, 'tool_calls': 2.0}
    """
    begun = int((mask[:1] == 0).sum()) + int((mask[1:] < mask[:-1]).sum())
    return {"response_tokens": float(mask.sum()), "tool_calls": float(begun)}

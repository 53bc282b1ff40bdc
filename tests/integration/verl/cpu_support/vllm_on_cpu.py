"""Test support: keeps vLLM's CPU backend from repacking weights, so that veRL can replace them.

veRL imports it in every process of a run. vLLM's own workers are started by vLLM, which is why it
has to take effect wherever vLLM was imported before.
"""

from __future__ import annotations

import sys
from typing import Any

import torch


def keep_weights_as_they_are() -> None:
    """Lets every linear layer of vLLM multiply with the weights that it was given."""
    from vllm.model_executor.layers import utils

    def plain(layer: Any, remove_weight: bool = False) -> None:
        layer.cpu_linear = torch.nn.functional.linear

    utils.dispatch_cpu_unquantized_gemm = plain


if "vllm" in sys.modules:
    keep_weights_as_they_are()

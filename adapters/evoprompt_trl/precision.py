"""Check whether a device has instructions for bfloat16, or emulates it slowly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from evoprompt_trl.host import TrlTrainer

EMULATED = (
    "this CPU has no instructions for bfloat16 (AMX or AVX-512 BF16) and emulates it: forward and "
    "backward passes of a model of 135 million weights took 4 to 17 times as long as in float32"
)
"""What that costs, measured on one core with AVX2 for 64 and for 800 tokens; torch 2.13."""

_FLAGS = {"amx_bf16", "avx512_bf16", "bf16"}
"""Of x86, x86 and ARM. With AVX-512 alone oneDNN takes bfloat16, too, but converts it."""


def default_device() -> str:
    """Return the default device of a trainer: ``"cuda"`` if there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def native_bf16(device: str | None = None) -> bool:
    """Return whether a device computes in bfloat16 natively, so that it is quicker than float32.

    Args:
        device: type of a torch device; :func:`default_device` if not given. Of devices that are
            neither a CPU nor a CUDA device nothing is known, which counts as native.
    """
    kind = device or default_device()
    if kind == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    if kind != "cpu":
        return True
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False  # nothing else in torch uses the instructions
    capabilities: Mapping[str, Any] = getattr(
        torch.cpu, "get_capabilities", dict
    )()  # not by an older torch
    return any(capabilities.get(name) for name in _FLAGS)


def slow_bf16(trainer: TrlTrainer) -> str:
    """Return a message if a trainer computes in bfloat16 on a device that emulates it.

    TRL computes in bfloat16 by default on every device.
    """
    accelerator = trainer.accelerator
    if native_bf16(accelerator.device.type):
        return ""
    remedies = []
    if accelerator.mixed_precision == "bf16":
        remedies.append("pass bf16=False to the trainer's arguments, as TRL's default is True")
    if any(parameter.dtype == torch.bfloat16 for parameter in trainer.model.parameters()):
        remedies.append("load the model with dtype=torch.float32")
    if not remedies:
        return ""
    return f"training computes in bfloat16, but {EMULATED}; {', and '.join(remedies)}"

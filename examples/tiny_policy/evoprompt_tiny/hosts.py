"""Settings of hosts for tiny policies, on one core."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from evoprompt.agents import Limits

CONTEXT_TOKENS = 512
"""Longest sequence of a tiny policy."""

_GRPO: Mapping[str, JsonValue] = {
    "lr_scheduler_type": "constant",
    "adam_beta2": 0.95,
    "beta": 0.0,
    "loss_type": "dapo",
    "bf16": False,
    "gradient_checkpointing": False,
    "use_cpu": True,
    "logging_steps": 10,
    "dataloader_pin_memory": False,
}


def host_defaults(policy: Path, limits: Limits) -> dict[str, dict[str, JsonValue]]:
    """Return the default settings of a task's configuration, by host.

    Args:
        policy: folder that is shipped with the task.
        limits: of the task.
    """
    usual: dict[str, JsonValue] = {"model": str(policy), "learning_rate": 1e-4}
    verl = {**usual, "prompt_tokens": CONTEXT_TOKENS - limits.response_tokens}
    trl = {**usual, "threads": 1, "at_once": 1024, "arguments": dict(_GRPO)}
    return {"trl": trl, "verl": verl, "verl-cpu": verl}

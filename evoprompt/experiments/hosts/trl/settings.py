"""Settings of the host ``trl``; imports neither TRL nor torch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field, JsonValue, model_validator

from evoprompt.experiments.hosts.settings import HostSettings
from evoprompt.support.errors import InputError

_HALF = ("bfloat16", "float16")


class TrlSettings(HostSettings, frozen=True):
    """Host section of a configuration; ``arguments`` are those of ``trl.GRPOConfig``.

    Attributes:
        updates_per_step: optimizer steps that share a generation batch.
        processes: processes that train together, one per GPU.
        at_once: contexts that transformers continue in one batch; vLLM chooses by itself.
        threads: CPU threads of torch; null leaves them as they are.
    """

    host: ClassVar[str] = "trl"
    example: ClassVar[str] = "Qwen/Qwen2.5-0.5B-Instruct"

    updates_per_step: int = Field(default=1, ge=1)
    processes: int = Field(default=1, ge=1)
    at_once: int = Field(default=64, ge=1)
    threads: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _check_shares(self) -> TrlSettings:
        share = self.processes * self.updates_per_step * (self.micro_batch or 1)
        if self.rollouts_per_step % share:
            raise InputError(
                f"{self.questions_per_step} questions of {self.rollouts_per_question} rollouts are "
                f"{self.rollouts_per_step} per step; required: a multiple of processes * "
                f"micro_batch * updates_per_step = {share}; change one of them"
            )
        if self.arguments.get("fsdp") and not self.uses_vllm:
            raise InputError(
                "arguments has fsdp without use_vllm; required: vLLM, as transformers cannot "
                "sample from weights that are shared out; set use_vllm, or drop fsdp"
            )
        if self.sharded and self.lora:
            raise InputError(
                "lora is set, and arguments shares the weights out (fsdp or deepspeed); required: "
                "whole weights on each GPU, into which adapters are merged when a policy is saved; "
                "drop one of them"
            )
        return self

    @property
    def rollouts_per_pass(self) -> int:
        """Return the rollouts in one forward and backward pass of a process."""
        share = self.rollouts_per_step // (self.processes * self.updates_per_step)
        return self.micro_batch or share

    @property
    def passes(self) -> int:
        """Return the forward and backward passes of a process for each generation batch."""
        return self.rollouts_per_step // (self.processes * self.rollouts_per_pass)

    @property
    def template_variables(self) -> dict[str, JsonValue]:
        """Return the variables of the chat template, such as ``enable_thinking``."""
        variables = self.arguments.get("chat_template_kwargs")
        return dict(variables) if isinstance(variables, Mapping) else {}

    @property
    def optimizer(self) -> str:
        """Return the optimizer's name in ``transformers``; empty for the default."""
        return str(self.arguments.get("optim", ""))

    @property
    def uses_vllm(self) -> bool:
        """Return whether vLLM samples."""
        return bool(self.arguments.get("use_vllm"))

    @property
    def has_reference(self) -> bool:
        """Return whether a copy of the first policy is loaded for the KL term, without adapters."""
        return bool(self.arguments.get("beta", 0.001)) and self.lora is None

    @property
    def loaded_bytes(self) -> int:
        """Return the bytes of a loaded weight; by default TRL loads in single precision."""
        model_kwargs = self.arguments.get("model_init_kwargs")
        return 2 if isinstance(model_kwargs, Mapping) and model_kwargs.get("dtype") in _HALF else 4

    @property
    def sharded(self) -> bool:
        """Return whether weights are sharded over the processes."""
        return bool(self.arguments.get("fsdp") or self.arguments.get("deepspeed"))


def running_processes() -> int:
    """Return the number of processes that the launcher has started; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))

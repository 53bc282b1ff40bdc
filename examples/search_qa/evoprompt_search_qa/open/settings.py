"""How ``search-qa-open`` is trained under TRL: the host section, and TRL's arguments from it."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from evoprompt.agents import Limits, Sampling
from evoprompt.errors import InputError
from evoprompt.tasks import Trial
from evoprompt.validation import explain
from evoprompt_search_qa import protocol


class OpenTrlSettings(BaseModel):
    """The host section of a configuration.

    Attributes:
        learning_rate: of AdamW; 0 freezes the policy, and only the instruction evolves.
        questions_per_step: questions of a generation batch, over all processes.
        rollouts_per_question: G, the size of a group.
        updates_per_step: optimizer steps that share a generation batch.
        micro_batch: rollouts in one forward and backward pass of a process.
        save_every: steps between two checkpoints.
        processes: processes that train together, one a GPU.
        at_once: contexts that transformers continue together; vLLM chooses by itself.
        arguments: further arguments of ``trl.GRPOConfig``, by its own names.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    learning_rate: float = Field(default=1e-6, ge=0, allow_inf_nan=False)
    questions_per_step: int = Field(default=16, ge=1)
    rollouts_per_question: int = Field(default=5, ge=2)
    updates_per_step: int = Field(default=1, ge=1)
    micro_batch: int = Field(default=8, ge=1)
    save_every: int = Field(default=25, ge=1)
    processes: int = Field(default=1, ge=1)
    at_once: int = Field(default=64, ge=1)
    arguments: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def rollouts_per_step(self) -> int:
        """Rollouts of a generation batch, over all processes."""
        return self.questions_per_step * self.rollouts_per_question

    @property
    def passes(self) -> int:
        """Forward and backward passes of a process for each generation batch."""
        return self.rollouts_per_step // (self.processes * self.micro_batch)

    @property
    def uses_vllm(self) -> bool:
        """Whether vLLM samples."""
        return bool(self.arguments.get("use_vllm"))


def validated(given: Mapping[str, JsonValue]) -> OpenTrlSettings:
    """The settings in a host section.

    Raises:
        InputError: a setting is unknown or cannot be used, or the rollouts or the weights cannot
            be shared out so.
    """
    try:
        settings = OpenTrlSettings.model_validate(dict(given))
    except ValidationError as error:
        raise InputError(f"host 'trl': {explain(error, OpenTrlSettings)}") from error
    share = settings.processes * settings.micro_batch * settings.updates_per_step
    if settings.rollouts_per_step % share:
        raise InputError(
            f"host 'trl': {settings.questions_per_step} questions of "
            f"{settings.rollouts_per_question} rollouts are {settings.rollouts_per_step} a step; "
            f"required: a multiple of processes * micro_batch * updates_per_step = {share}; "
            "change one of them"
        )
    if settings.arguments.get("fsdp") and not settings.uses_vllm:
        raise InputError(
            "host 'trl': arguments has fsdp without use_vllm; required: vLLM, as transformers "
            "cannot sample from weights that are shared out; set use_vllm, or drop fsdp"
        )
    return settings


def running_processes() -> int:
    """How many processes the launcher has started; 1 without one."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def arguments(settings: OpenTrlSettings, limits: Limits, prompt_tokens: int, trial: Trial) -> Any:
    """The ``GRPOConfig`` of a trial.

    Raises:
        InputError: TRL does not take an argument, or this machine cannot do what it asks for.
    """
    import torch
    from trl.trainer.grpo_config import GRPOConfig

    steps = math.ceil(trial.budget / settings.rollouts_per_step)
    chosen: dict[str, Any] = {
        "per_device_train_batch_size": settings.micro_batch,
        "per_device_eval_batch_size": settings.micro_batch,
        "gradient_accumulation_steps": settings.passes // settings.updates_per_step,
        "steps_per_generation": settings.passes,
        "num_generations": settings.rollouts_per_question,
        "max_steps": steps * settings.updates_per_step,
        "max_completion_length": limits.response_tokens,
        "vllm_max_model_length": prompt_tokens + limits.response_tokens,
        "learning_rate": settings.learning_rate,
        "temperature": 1.0,
        "top_p": 1.0,
        "beta": 0.001,
        "epsilon": 0.2,
        "loss_type": "grpo",
        "bf16": torch.cuda.is_available(),
        "use_cpu": not torch.cuda.is_available(),
        "gradient_checkpointing": torch.cuda.is_available(),
        "report_to": "none",
        "logging_steps": settings.updates_per_step,
        "save_strategy": "steps",
        "save_steps": settings.save_every * settings.updates_per_step,
        "save_total_limit": 2,
        "disable_tqdm": True,
        "dataloader_pin_memory": torch.cuda.is_available(),
        **settings.arguments,
    }
    if settings.uses_vllm:
        own = chosen.get("generation_kwargs") or {}
        sampling = Sampling(limits.turn_tokens, protocol.SEARCHING.stop)
        chosen["generation_kwargs"] = {**own, **protocol.vllm_arguments(sampling)}
    try:
        return GRPOConfig(output_dir=str(trial.directory), seed=trial.seed, **chosen)
    except (TypeError, ValueError, ImportError) as error:
        raise InputError(
            f"host.arguments is {settings.arguments}; required: arguments that trl.GRPOConfig "
            f"takes on this machine ({error}); change or drop them"
        ) from error

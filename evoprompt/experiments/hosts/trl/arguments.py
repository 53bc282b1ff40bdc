"""TRL's own arguments of a trial."""

from __future__ import annotations

import math
from typing import Any

import torch
from evoprompt_trl.precision import default_device, native_bf16
from transformers import GenerationConfig
from trl.trainer.grpo_config import GRPOConfig

from evoprompt.agents import Limits, Sampling
from evoprompt.agents.tasks import Trial
from evoprompt.experiments.hosts.settings import LoraSettings
from evoprompt.experiments.hosts.trl.generation import ENDING, vllm_arguments
from evoprompt.experiments.hosts.trl.settings import TrlSettings
from evoprompt.support.errors import InputError
from evoprompt.support.validation import nearest

LORA = 'pip install -e ".[trl,lora]"'


def arguments(
    settings: TrlSettings, limits: Limits, sampling: Sampling, trial: Trial
) -> GRPOConfig:
    """Return the ``GRPOConfig`` of a trial.

    Args:
        settings: of the host.
        limits: of an episode.
        sampling: the end of an action.
        trial: its budget, its seed and its folder.

    Raises:
        InputError: TRL does not take an argument, or this machine cannot do what it asks for.
    """
    steps = math.ceil(trial.budget / settings.rollouts_per_step)
    chosen: dict[str, Any] = {
        "per_device_train_batch_size": settings.rollouts_per_pass,
        "per_device_eval_batch_size": settings.rollouts_per_pass,
        "gradient_accumulation_steps": settings.passes // settings.updates_per_step,
        "steps_per_generation": settings.passes,
        "num_generations": settings.rollouts_per_question,
        "max_steps": steps * settings.updates_per_step,
        "max_completion_length": limits.response_tokens,
        "vllm_max_model_length": settings.prompt_tokens + limits.response_tokens,
        "learning_rate": settings.learning_rate,
        "temperature": 1.0,
        "top_p": 1.0,
        "beta": 0.001,
        "epsilon": 0.2,
        "loss_type": "grpo",
        "gradient_checkpointing": torch.cuda.is_available(),
        "report_to": "none",
        "logging_steps": settings.updates_per_step,
        "save_strategy": "steps",
        "save_steps": settings.save_every * settings.updates_per_step,
        "save_total_limit": 2,
        "disable_tqdm": True,
        "dataloader_pin_memory": torch.cuda.is_available(),
        **settings.arguments,
        # For these, null also stands for the machine's default.
        "use_cpu": device_of(settings) == "cpu",
        "bf16": computes_in_bf16(settings),
    }
    if "activation_checkpointing" in GRPOConfig.__dataclass_fields__:  # transformers 5.24
        # The old name is deprecated there, and TRL's own default sets it.
        chosen.setdefault("activation_checkpointing", chosen.pop("gradient_checkpointing"))
    generation_kwargs = chosen.get("generation_kwargs") or {}
    if ending := [name for name in generation_kwargs if name in ENDING]:
        raise InputError(
            f"host.arguments.generation_kwargs has {', '.join(ending)}; required: no "
            "setting of the end or the number of actions, which the task's protocol and "
            "host.turn_tokens define; drop it"
        )
    generation_settings = vars(GenerationConfig())  # type: ignore[no-untyped-call]
    unknown = [name for name in generation_kwargs if name not in generation_settings]
    if unknown and not settings.uses_vllm:
        raise InputError(
            f"host.arguments.generation_kwargs has {', '.join(unknown)}, which transformers would "
            "leave unread; required: settings of its GenerationConfig"
            f"{nearest(unknown[0], generation_settings)}"
        )
    if settings.uses_vllm:
        chosen["generation_kwargs"] = {**generation_kwargs, **vllm_arguments(sampling)}
    try:
        return GRPOConfig(output_dir=str(trial.directory), seed=trial.seed, **chosen)
    except (TypeError, ValueError, ImportError) as error:
        raise InputError(
            f"host.arguments is {settings.arguments}; required: arguments that trl.GRPOConfig "
            f"takes on this machine ({error}); change or drop them"
        ) from error


def adapters(settings: LoraSettings | None) -> Any:
    """Return the configuration of adapters for peft; None if all weights are trained.

    Raises:
        InputError: peft is not installed.
    """
    if settings is None:
        return None
    try:
        from peft import LoraConfig
    except ImportError as error:
        raise InputError(f"peft is not installed; required by host.lora: {LORA}") from error
    return LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        target_modules="all-linear",
        task_type="CAUSAL_LM",
    )


def device_of(settings: TrlSettings) -> str:
    """Return the type of the device that these settings train on."""
    return "cpu" if settings.arguments.get("use_cpu") else default_device()


def computes_in_bf16(settings: TrlSettings) -> bool:
    """Return whether a trial computes in bfloat16, with its weights in float32.

    The settings decide; without a setting, it does if the device has instructions for it.
    """
    bf16 = settings.arguments.get("bf16")
    if bf16 is not None:
        return bool(bf16)
    return not settings.arguments.get("fp16") and native_bf16(device_of(settings))

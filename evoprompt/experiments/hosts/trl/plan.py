"""What training under TRL will do and need, told before any weights are loaded."""

from __future__ import annotations

import heapq

from evoprompt_trl.precision import EMULATED, native_bf16

from evoprompt.agents import Limits, Sampling
from evoprompt.agents.tasks import EpisodeRunner, Plan, Task, Trial, require_questions
from evoprompt.experiments.hosts.training import training_plan
from evoprompt.experiments.hosts.trl.arguments import arguments, computes_in_bf16, device_of
from evoprompt.experiments.hosts.trl.generation import tokenizer_of
from evoprompt.experiments.hosts.trl.settings import TrlSettings
from evoprompt.experiments.requirements import (
    GIB,
    TRAINED_BYTES,
    ModelSize,
    main_memory,
    model,
    model_size,
    require_positions,
)
from evoprompt.types import Candidate

_CHECKPOINT = 4 + 8
"""Bytes that a weight takes in a checkpoint, Adam's moments included."""
_PROCESS = 0.65 * GIB
"""Python with torch, transformers and TRL, as measured before training."""
_MEASURED = 20
"""Of the longest questions, whose prompts are measured."""


def plan(task: Task, settings: TrlSettings, trial: Trial) -> Plan:
    """What ``trial`` would do and need.

    Raises:
        InputError: a setting is wrong, a split has no questions, or the model cannot play the task,
            as far as both are here to tell.
    """
    name, limits = settings.model_of(trial), settings.limits(task)
    size, needs = model_size(name), task.needs()
    sampling, gpus = Sampling(limits.turn_tokens), _gpus(settings)
    told, slow = _precision(settings)
    figures, notices = {"precision": told}, [slow]
    if settings.processes > 1:
        start = f"accelerate launch --num_processes {settings.processes} -m evoprompt run"
        figures["start"] = f"{start} FILE --output DIR"
    if not model(name).missing:
        tokenizer = tokenizer_of(name)
        player = EpisodeRunner(task, tokenizer, limits, settings.template_variables)
        if tokenizer.chat_template is None and not trial.policy:
            notices.append(
                f"{name} has no chat template, so that it is asked in plain text, the instruction "
                "before the question; if it was taught to chat, put its authors' "
                "chat_template.jinja into the folder"
            )
        sampling = player.agent.sampling
        require_positions(name, limits)
        on_cpu = not gpus and device_of(settings) == "cpu"
        if size and size.kept and on_cpu and not any(need.missing for need in needs):
            tokens = _longest_prompt(task, player, settings.prompt_tokens) + limits.response_tokens
            gib, there = _step_gib(settings, limits, size, tokens), main_memory()
            figures["memory of a step"] = (
                f"at most about {gib:,.1f} GiB of main memory, with rows of {tokens:,} tokens"
            )
            if gib >= there:
                notices.append(
                    f"a step may take {gib:,.1f} GiB of main memory, and this machine has "
                    f"{there:,.1f}; lower host.micro_batch, or set "
                    "host.arguments.gradient_checkpointing to true"
                )
    chosen = arguments(settings, limits, sampling, trial)
    share = settings.arguments.get("vllm_gpu_memory_utilization", 0.3)
    fraction = share if settings.uses_vllm and isinstance(share, float) and share < 1 else 0.0
    found = training_plan(
        settings,
        trial,
        limits,
        needs=needs,
        figures=figures,
        size=size,
        gpus=gpus,
        gpu_gib=_gpu_gib(settings, limits, size) / (1 - fraction) if size else None,
        host_gib=_host_gib(settings, size) if size else None,
        checkpoint=_CHECKPOINT,
        checkpoints=chosen.save_total_limit,
        packages={"vllm": 'pip install "evoprompt[trl-vllm]"'} if settings.uses_vllm else {},
        isolated=settings.uses_vllm and settings.arguments.get("vllm_mode") != "server",
        notices=notices,
    )
    if not any(need.missing for need in found.needs):
        require_questions(task)
    return found


def _gpu_gib(settings: TrlSettings, limits: Limits, size: ModelSize) -> float:
    """GiB that training needs on each GPU beside what vLLM is given; an estimate, at most.

    Weights, gradients, Adam's moments and the reference, shared out where they are sharded, and
    the logits of the longest possible responses with their gradient and their softmax.
    """
    shards = settings.processes if settings.sharded else 1
    reference = settings.loaded_bytes if settings.has_reference else 0
    weights = size.parameters * (TRAINED_BYTES + reference) / shards
    logits = settings.rollouts_per_pass * limits.response_tokens * size.vocabulary * 4 * 3
    return (weights + logits) / GIB


def _host_gib(settings: TrlSettings, size: ModelSize) -> float:
    """GiB of main memory that the processes take together while the trainer starts.

    Every process loads the whole policy and the whole reference before they are shared out, and
    turns the policy into single precision when training begins, the reference being gone by then.
    """
    loaded = settings.loaded_bytes
    reference = loaded if settings.has_reference else 0
    trained = 4 if settings.sharded else loaded
    return settings.processes * size.parameters * max(loaded + reference, trained) / GIB


def _step_gib(settings: TrlSettings, limits: Limits, size: ModelSize, tokens: int) -> float:
    """GiB of main memory that a step takes on a CPU, over all processes; at most about.

    Weights with gradients, Adam's moments, as much once more while gradients are added up, and the
    reference; what rows of so many tokens leave for the backward pass; and logits at a temperature,
    the gradients by the sampled token and by the normalizer, and their sum.
    """
    rows = settings.rollouts_per_pass
    weights = size.parameters * settings.loaded_bytes * (5 + settings.has_reference)
    kept = 0 if settings.arguments.get("gradient_checkpointing") else size.kept
    logits = rows * (limits.response_tokens + 1) * size.vocabulary * 4 * 4
    return settings.processes * (weights + rows * tokens * kept * 4 + logits + _PROCESS) / GIB


def _longest_prompt(task: Task, player: EpisodeRunner, most: int) -> int:
    """Tokens of the longest prompt under a seed instruction, and at most ``most``."""
    longest = heapq.nlargest(_MEASURED, task.questions("train"), lambda one: len(one.text))
    lengths = (
        len(player.encode(task.render(player.prompt(question), Candidate.of(seed))))
        for seed in task.seeds
        for question in longest
    )
    return min(max(lengths, default=most), most)


def _precision(settings: TrlSettings) -> tuple[str, str]:
    """The precision of a trial, for people to read, and what is wrong with it; or empty."""
    native, bf16 = native_bf16(device_of(settings)), computes_in_bf16(settings)
    name = "bfloat16" if bf16 else "float16" if settings.arguments.get("fp16") else "float32"
    if name == "float16" or settings.arguments.get("bf16") is not None:
        why = "as host.arguments says"
    else:
        why = f"as the device has {'' if native else 'no '}instructions for bfloat16"
    slow = "" if native or not bf16 else f"it computes in bfloat16, but {EMULATED}; set bf16: false"
    return f"{name}, {why}", slow


def _gpus(settings: TrlSettings) -> int:
    """GPUs that it asks for; a model small enough may be trained on a CPU."""
    on_cpu = settings.arguments.get("use_cpu")
    wanted = settings.uses_vllm or settings.processes > 1 or bool(settings.arguments.get("bf16"))
    return settings.processes if (wanted if on_cpu is None else not on_cpu) else 0

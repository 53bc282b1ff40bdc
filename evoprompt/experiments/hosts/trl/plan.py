"""Plan of a training under TRL, before any weights are loaded."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from trl.trainer.grpo_config import GRPOConfig

from evoprompt.agents import Limits, Sampling
from evoprompt.agents.tasks import EpisodeRunner, Plan, Task, Trial, require_questions
from evoprompt.experiments.hosts.timing import Load, assumed_prompt, cpu_here, gpu_here
from evoprompt.experiments.hosts.training import training_plan
from evoprompt.experiments.hosts.trl.arguments import LORA, arguments
from evoprompt.experiments.hosts.trl.generation import tokenizer_of
from evoprompt.experiments.hosts.trl.settings import TrlSettings
from evoprompt.experiments.requirements import (
    GIB,
    TRAINED_BYTES,
    ModelSize,
    model,
    model_size,
    package,
    positions,
)
from evoprompt.support.errors import InputError
from evoprompt.types import Candidate, Question

_SAVED_8_BIT = 2 * (4 - 1)
"""Bytes a weight that Adam's two moments save if they have eight bits."""

_LIBRARIES_GIB = 0.9
"""GiB of a process with PyTorch, transformers and TRL that trains a model of .2 million weights."""

_COUNTED_PROMPTS = 16

_CHECKPOINT = 4 + 8
"""Bytes that a weight takes in a checkpoint, Adam's moments included."""


def plan(task: Task, settings: TrlSettings, trial: Trial) -> Plan:
    """Return the work and the needs of ``trial``.

    Raises:
        InputError: a setting is wrong, a split has no questions, or the model cannot play the task
            or has no position left for a prompt, as far as both are on this machine.
    """
    name, limits = settings.model_of(trial), settings.limits(task)
    _require_room(task, limits, name)
    size, needs = model_size(name), task.needs()
    sampling, gpus = Sampling(limits.turn_tokens), _gpus(settings)
    prompt_tokens: float = assumed_prompt(settings.prompt_tokens)
    figures: dict[str, str] = {}
    notices: list[str] = []
    if settings.processes > 1:
        start = f"accelerate launch --num_processes {settings.processes} -m evoprompt run"
        figures["start"] = f"{start} FILE --output DIR"
    if not model(name).missing:
        tokenizer = tokenizer_of(name)
        runner = EpisodeRunner(task, tokenizer, limits, settings.template_variables)
        bundled = task.host_defaults.get("trl", {}).get("model")  # the user did not choose it
        if tokenizer.chat_template is None and not trial.policy and name != bundled:
            notices.append(
                f"{name} has no chat template, so its prompts are plain text, the instruction "
                "before the question; if it was trained to chat, put its authors' "
                "chat_template.jinja into the folder"
            )
        sampling = runner.agent.sampling
        questions = [] if any(need.missing for need in needs) else task.questions("train")
        if questions:
            prompt_tokens = _mean_prompt(task, runner, questions[:_COUNTED_PROMPTS])
    chosen = arguments(settings, limits, sampling, trial)
    share = settings.arguments.get("vllm_gpu_memory_utilization", 0.3)
    fraction = share if settings.uses_vllm and isinstance(share, float) and share < 1 else 0.0
    packages = (
        ("vllm", 'pip install -e ".[trl-vllm]"', settings.uses_vllm),
        ("peft", LORA, settings.lora is not None),
        ("bitsandbytes", "pip install bitsandbytes", "bnb" in settings.optimizer),
        ("torchao", "pip install torchao", settings.optimizer == "adamw_torch_8bit"),
    )
    load = None
    if size is not None:
        load = Load(
            size,
            settings.rollouts_per_step,
            settings.processes,
            prompt_tokens,
            limits,
            bool(chosen.beta) + _reads_before_updates(settings, chosen),
            padded=True,
            cache=fraction or 1.0,
            call_seconds=task.call_seconds,
            adapters=settings.lora is not None,
            gpu=gpu_here() if gpus else cpu_here(settings.threads),
        )
    training = training_plan(
        task,
        settings,
        trial,
        limits,
        needs=needs,
        figures=figures,
        size=size,
        gpus=gpus,
        trainers=gpus,
        gpu_gib=_gpu_gib(settings, limits, size) / (1 - fraction) if size else None,
        host_gib=_main_memory(settings, limits, size, gpus) if size else None,
        checkpoint=_CHECKPOINT * (settings.lora.share if settings.lora else 1),
        checkpoints=chosen.save_total_limit,
        packages=[package(name, install) for name, install, used in packages if used],
        isolated=settings.uses_vllm and settings.arguments.get("vllm_mode") != "server",
        notices=notices,
        load=load,
    )
    if not any(need.missing for need in training.needs):
        require_questions(task)
    return training


def _mean_prompt(task: Task, runner: EpisodeRunner, questions: Sequence[Question]) -> float:
    """Return the mean number of tokens of prompts under the task's own instruction."""
    seed = Candidate.of(task.seed_instructions[0])
    return fmean(len(runner.encode(task.render(runner.prompt(each), seed))) for each in questions)


def _main_memory(settings: TrlSettings, limits: Limits, size: ModelSize, gpus: int) -> float:
    """Return the GiB of main memory: of all processes as they start, or of training on a CPU."""
    libraries = settings.processes * _LIBRARIES_GIB
    if gpus:
        return libraries + _host_gib(settings, size)
    return libraries + _gpu_gib(settings, limits, size)


def _require_room(task: Task, limits: Limits, name: str) -> None:
    num_positions, longest = positions(name), limits.response_tokens
    if num_positions is not None and longest >= num_positions:
        raise InputError(
            f"an episode of {type(task).__name__} may take {longest:,} tokens ({limits.calls} "
            f"calls, turn_tokens {limits.turn_tokens}, observation_tokens "
            f"{limits.observation_tokens}), which leaves no room for a prompt in the "
            f"{num_positions:,} positions of {name}; required: less; lower calls, turn_tokens or "
            "observation_tokens in the task's limits (or host.max_calls and host.turn_tokens), or "
            "take a model with more positions"
        )


def _reads_before_updates(settings: TrlSettings, chosen: GRPOConfig) -> bool:
    """Return whether TRL reads all rollouts before the first update, for the old probabilities.

    It does so if several updates share them, and to correct vLLM's probabilities of its samples.
    """
    every = (chosen.steps_per_generation or 1) * chosen.num_iterations
    several = bool(chosen.gradient_accumulation_steps % every)
    return several or (settings.uses_vllm and chosen.vllm_importance_sampling_correction)


def _gpu_gib(settings: TrlSettings, limits: Limits, size: ModelSize) -> float:
    """Return the GiB that training needs on each GPU without vLLM's share; an estimate, at most.

    It counts weights, gradients, Adam's moments and the reference, divided where they are sharded,
    and the logits of the longest possible responses with their gradient and their softmax.
    """
    shards = settings.processes if settings.sharded else 1
    reference = settings.loaded_bytes if settings.has_reference else 0
    moments = _SAVED_8_BIT if "8bit" in settings.optimizer else 0
    weights = size.parameters * (TRAINED_BYTES - moments + reference) / shards
    if settings.lora is not None:
        adapters = settings.lora.share * TRAINED_BYTES
        weights = size.parameters * (settings.loaded_bytes + adapters)
    logits = settings.rollouts_per_pass * limits.response_tokens * size.vocabulary * 4 * 3
    return (weights + logits) / GIB


def _host_gib(settings: TrlSettings, size: ModelSize) -> float:
    """Return the GiB of main memory of all processes while the trainer starts.

    Every process loads the whole policy and the whole reference before they are sharded. It turns
    the policy into single precision when training begins, after the reference was freed.
    """
    loaded = settings.loaded_bytes
    reference = loaded if settings.has_reference else 0
    trained = 4 if settings.sharded else loaded
    return settings.processes * size.parameters * max(loaded + reference, trained) / GIB


def _gpus(settings: TrlSettings) -> int:
    """Return the number of GPUs that it needs; a small model may be trained on a CPU."""
    on_cpu = settings.arguments.get("use_cpu")
    needs_gpu = settings.uses_vllm or settings.processes > 1 or bool(settings.arguments.get("bf16"))
    return settings.processes if (needs_gpu if on_cpu is None else not on_cpu) else 0

"""What training under TRL will do and need, told before any weights are loaded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from evoprompt import requirements
from evoprompt.agents import Limits, Sampling
from evoprompt.requirements import GIB, TRAINED_BYTES, ModelSize, model_size
from evoprompt.tasks import Need, Plan, Player, Task, Trial, require_questions
from evoprompt_trl.trainee.arguments import arguments
from evoprompt_trl.trainee.settings import TrlSettings
from evoprompt_trl.trainee.tokenizer import tokenizer_of

_CHECKPOINTS = 2
_HALF = ("bfloat16", "float16")
_QUICK = 20_000_000
"""Most weights of a model that is built just to see that it can be."""


def plan(task: Task, settings: TrlSettings, trial: Trial) -> Plan:
    """What ``trial`` would do and need.

    Raises:
        InputError: a setting is wrong, a split has no questions, or the model cannot play the task,
            as far as both are here to tell.
    """
    model, limits = settings.model_of(trial), settings.limits(task)
    size = model_size(model)
    needs = (requirements.model(model), *task.needs(), *_needs(settings, limits, trial, size))
    sampling = Sampling(limits.turn_tokens)
    if not needs[0].missing:
        sampling = Player(task, tokenizer_of(model), limits).agent.sampling
    arguments(settings, limits, sampling, trial)
    if not any(need.missing for need in needs):
        require_questions(task)
    colocated = settings.uses_vllm and settings.arguments.get("vllm_mode") != "server"
    quick = size is not None and size.exact and size.parameters < _QUICK
    return Plan(
        tuple(_figures(settings, limits, trial, size)),
        needs,
        heavy=not quick or settings.processes > 1,
        rollouts_per_step=settings.rollouts_per_step,
        isolated=colocated,
    )


def _figures(
    settings: TrlSettings, limits: Limits, trial: Trial, size: ModelSize | None
) -> Iterator[tuple[str, str]]:
    rollouts = settings.rollouts_per_step
    tokens = rollouts * (settings.prompt_tokens + limits.response_tokens)
    yield (
        "start",
        f"accelerate launch --num_processes {settings.processes} -m evoprompt run FILE --output DIR"
        if settings.processes > 1
        else "evoprompt run FILE",
    )
    yield (
        "a step",
        f"{settings.questions_per_step:,} questions x {settings.rollouts_per_question} = "
        f"{rollouts:,} rollouts, {settings.updates_per_step} update(s), at most {tokens:,} tokens, "
        f"{limits.calls * rollouts:,} tool calls",
    )
    yield "steps", f"at most {math.ceil(trial.budget / rollouts):,}, without verification"
    yield (
        "a rollout",
        f"at most {settings.prompt_tokens:,} tokens of prompt and {limits.response_tokens:,} of "
        f"{limits.calls + 1} actions and {limits.calls} observations",
    )
    yield (
        "a process",
        f"{settings.passes:,} passes of {settings.rollouts_per_pass} rollouts per step",
    )
    if size is not None:
        yield "GPU memory", _memory_in_words(settings, limits, size)
        yield "main memory", f"about {host_gib(settings, size):,.1f} GiB at the start"


def gpu_gib(settings: TrlSettings, limits: Limits, size: ModelSize) -> float:
    """GiB that training needs on each GPU beside what vLLM is given; an estimate, at most.

    Weights, gradients, Adam's moments and the reference, shared out where they are sharded, and
    the logits of the longest possible responses with their gradient and their softmax.
    """
    shards = settings.processes if settings.sharded else 1
    reference = _loaded_bytes(settings) if _has_reference(settings) else 0
    weights = size.parameters * (TRAINED_BYTES + reference) / shards
    logits = settings.rollouts_per_pass * limits.response_tokens * size.vocabulary * 4 * 3
    return (weights + logits) / GIB


def host_gib(settings: TrlSettings, size: ModelSize) -> float:
    """GiB of main memory that the processes take together while the trainer starts.

    Every process loads the whole policy and the whole reference before they are shared out, and
    turns the policy into single precision when training begins, the reference being gone by then.
    """
    loaded = _loaded_bytes(settings)
    reference = loaded if _has_reference(settings) else 0
    trained = 4 if settings.sharded else loaded
    return settings.processes * size.parameters * max(loaded + reference, trained) / GIB


def _has_reference(settings: TrlSettings) -> bool:
    return bool(settings.arguments.get("beta", 0.001))


def _loaded_bytes(settings: TrlSettings) -> int:
    """Bytes a weight takes as it is loaded: TRL loads in single precision unless told not to."""
    given = settings.arguments.get("model_init_kwargs")
    return 2 if isinstance(given, Mapping) and given.get("dtype") in _HALF else 4


def _memory_in_words(settings: TrlSettings, limits: Limits, size: ModelSize) -> str:
    gib = gpu_gib(settings, limits, size)
    told = f"about {gib:,.0f} GiB on each GPU for {size.parameters / 1e9:.2f} billion weights"
    if not size.exact:
        told += ", by the model's name"
    share = settings.arguments.get("vllm_gpu_memory_utilization", 0.3)
    return told + (f", and {share} of its memory for vLLM" if settings.uses_vllm else "")


def _needs(
    settings: TrlSettings, limits: Limits, trial: Trial, size: ModelSize | None
) -> Iterator[Need]:
    if _wants_gpu(settings):
        gib = gpu_gib(settings, limits, size) if size is not None else None
        share = settings.arguments.get("vllm_gpu_memory_utilization", 0.3)
        if gib is not None and settings.uses_vllm and isinstance(share, float) and share < 1:
            gib /= 1 - share
        yield requirements.gpus(settings.processes, gib)
    if settings.uses_vllm:
        yield requirements.package("vllm", 'pip install "evoprompt[trl-vllm]"')
    if size is not None:
        kept = size.parameters * (4 + 8) * _CHECKPOINTS + size.parameters * 4
        yield requirements.disk(trial.directory, kept / GIB)
        yield requirements.memory(host_gib(settings, size))


def _wants_gpu(settings: TrlSettings) -> bool:
    """Whether it says so; a model small enough may be trained on a CPU."""
    on_cpu = settings.arguments.get("use_cpu")
    if on_cpu is not None:
        return not on_cpu
    return settings.uses_vllm or settings.processes > 1 or bool(settings.arguments.get("bf16"))

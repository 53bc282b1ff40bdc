"""What training ``search-qa-open`` under TRL will do and need, told before anything is loaded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from evoprompt import requirements
from evoprompt.requirements import GIB, TRAINED_BYTES, ModelSize, model_size
from evoprompt.tasks import Need, Plan, Trial
from evoprompt_search_qa.open.inputs import inputs
from evoprompt_search_qa.open.settings import OpenTrlSettings, arguments, validated
from evoprompt_search_qa.open.task import OpenQa

_CHECKPOINTS = 2
_HALF = ("bfloat16", "float16")


def plan(task: OpenQa, given: Mapping[str, JsonValue], trial: Trial) -> Plan:
    """What ``trial`` would do and need.

    Raises:
        InputError: the host settings are wrong.
    """
    settings = validated(given)
    limits = task.settings.limits
    arguments(settings, limits, task.settings.prompt_tokens, trial)
    size = model_size(str(trial.policy or task.settings.model))
    rollouts = settings.rollouts_per_step
    steps = math.ceil(trial.budget / rollouts)
    tokens = rollouts * (task.settings.prompt_tokens + limits.response_tokens)
    launch = (
        f"accelerate launch --num_processes {settings.processes} -m evoprompt run FILE --output DIR"
        if settings.processes > 1
        else "evoprompt run FILE"
    )
    figures = [
        ("start", launch),
        (
            "a step",
            f"{settings.questions_per_step:,} questions x {settings.rollouts_per_question} = "
            f"{rollouts:,} rollouts, {settings.updates_per_step} update(s), at most "
            f"{tokens:,} tokens, {limits.calls * rollouts:,} searches",
        ),
        ("steps", f"at most {steps:,}, without verification"),
        (
            "a rollout",
            f"at most {task.settings.prompt_tokens:,} tokens of prompt and "
            f"{limits.response_tokens:,} of {limits.calls + 1} actions and {limits.calls} "
            "observations",
        ),
        ("a process", f"{settings.passes:,} passes of {settings.micro_batch} rollouts a step"),
    ]
    if size is not None:
        figures.append(("GPU memory", _memory_in_words(task, settings, size)))
        figures.append(("main memory", f"about {host_gib(settings, size):,.0f} GiB at the start"))
    found = tuple(_needs(task, settings, trial, size))
    colocated = settings.uses_vllm and settings.arguments.get("vllm_mode") != "server"
    return Plan(tuple(figures), found, heavy=True, rollouts_per_step=rollouts, isolated=colocated)


def gpu_gib(task: OpenQa, settings: OpenTrlSettings, size: ModelSize) -> float:
    """GiB that training needs on each GPU beside what vLLM is given; an estimate, at most.

    Weights, gradients, Adam's moments and the reference, shared out where they are sharded, and
    the logits of the longest possible responses with their gradient and their softmax.
    """
    shards = settings.processes if _sharded(settings) else 1
    reference = _loaded_bytes(settings) if settings.arguments.get("beta", 0.001) else 0
    weights = size.parameters * (TRAINED_BYTES + reference) / shards
    logits = settings.micro_batch * task.settings.limits.response_tokens * size.vocabulary * 4 * 3
    return (weights + logits) / GIB


def host_gib(settings: OpenTrlSettings, size: ModelSize) -> float:
    """GiB of main memory that the processes take together while the trainer starts.

    Every process loads the whole policy and the whole reference before they are shared out, and
    turns the policy into single precision when training begins, the reference being gone by then.
    """
    loaded = _loaded_bytes(settings)
    reference = loaded if settings.arguments.get("beta", 0.001) else 0
    trained = 4 if _sharded(settings) else loaded
    return settings.processes * size.parameters * max(loaded + reference, trained) / GIB


def _loaded_bytes(settings: OpenTrlSettings) -> int:
    """Bytes a weight takes as it is loaded: TRL loads in single precision unless told not to."""
    given = settings.arguments.get("model_init_kwargs")
    return 2 if isinstance(given, Mapping) and given.get("dtype") in _HALF else 4


def _memory_in_words(task: OpenQa, settings: OpenTrlSettings, size: ModelSize) -> str:
    billions = f"{size.parameters / 1e9:.2f} billion weights"
    told = f"about {gpu_gib(task, settings, size):,.0f} GiB on each GPU for {billions}"
    if not size.exact:
        told += ", by the model's name"
    share = settings.arguments.get("vllm_gpu_memory_utilization", 0.3)
    return told + (f", and {share} of its memory for vLLM" if settings.uses_vllm else "")


def _needs(
    task: OpenQa, settings: OpenTrlSettings, trial: Trial, size: ModelSize | None
) -> Iterator[Need]:
    if _wants_gpu(settings):
        gib = gpu_gib(task, settings, size) if size is not None else None
        share = settings.arguments.get("vllm_gpu_memory_utilization", 0.3)
        if gib is not None and settings.uses_vllm and isinstance(share, float) and share < 1:
            gib /= 1 - share
        yield requirements.gpus(settings.processes, gib)
    if settings.uses_vllm:
        yield requirements.package("vllm", 'pip install "evoprompt[trl-vllm]"')
    yield from inputs(task, trial)
    if size is not None:
        kept = size.parameters * (4 + 8) * _CHECKPOINTS + size.parameters * 4
        yield requirements.disk(trial.directory, kept / GIB)
        yield requirements.memory(host_gib(settings, size))


def _wants_gpu(settings: OpenTrlSettings) -> bool:
    """Whether it says so; a model small enough may be trained on a CPU."""
    if settings.arguments.get("use_cpu"):
        return False
    return settings.uses_vllm or settings.processes > 1 or bool(settings.arguments.get("bf16"))


def _sharded(settings: OpenTrlSettings) -> bool:
    return bool(settings.arguments.get("fsdp") or settings.arguments.get("deepspeed"))

"""What training ``search-qa-open`` under veRL will do and need, told before anything starts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from evoprompt.config import EngineConfig
from evoprompt.tasks import Need, Plan, Trial
from evoprompt_search_qa import needs
from evoprompt_search_qa.needs import GIB, TRAINED_BYTES, ModelSize
from evoprompt_search_qa.open.inputs import inputs
from evoprompt_search_qa.open.task import OpenQa
from evoprompt_search_qa.verl.configuration import checked
from evoprompt_search_qa.verl.open import OpenVerlSettings, arguments, validated

if TYPE_CHECKING:
    from omegaconf import DictConfig

_SAVED = 3 * (4 + 8 + 4)
"""Bytes of checkpoints a weight takes: two and one being written, each with Adam's moments and a
copy in the format of transformers."""


def plan(task: OpenQa, trial: Trial) -> Plan:
    """What ``trial`` would do and need.

    Raises:
        InputError: the host settings are wrong, veRL or its adapter refuses the configuration, or
            a question has no room under the instruction, as far as model and questions are here
            to be measured.
    """
    settings = validated(trial.host_settings)
    model = str(trial.policy or task.settings.model)
    config = checked(arguments(settings, task.settings, trial, model))
    _check(task, config, model)
    size = needs.model_size(model)
    return Plan(
        tuple(_figures(task, settings, config, trial, size)),
        tuple(_needs(task, settings, config, trial, size)),
        heavy=True,
    )


def _check(task: OpenQa, config: DictConfig, model: str) -> None:
    """What attaching would refuse, found without a trainer to attach to."""
    from evoprompt_verl.preflight import check_trainer

    check_trainer(config, EngineConfig())
    train = needs.questions("train", task.settings.train)
    if needs.model(model).missing or train.missing:
        return
    from evoprompt_verl.room import check_room

    questions = [[{"role": "user", "content": asked.text}] for asked in task.questions("train")]
    check_room(config, task.seed_instructions, task.render, questions)


def _figures(
    task: OpenQa,
    settings: OpenVerlSettings,
    config: DictConfig,
    trial: Trial,
    size: ModelSize | None,
) -> Iterator[tuple[str, str]]:
    limits, prompt = task.settings.limits, task.settings.prompt_tokens
    rollouts = settings.rollouts_per_step
    steps = math.ceil(trial.budget / rollouts)
    longest = prompt + limits.response_tokens
    gpus = settings.nodes * settings.gpus_per_node
    updates = settings.questions_per_step // settings.questions_per_update
    yield "start", "evoprompt run ..., on the head of the Ray cluster if there is one"
    yield (
        "a step",
        f"{settings.questions_per_step:,} questions x {settings.rollouts_per_question} = "
        f"{rollouts:,} rollouts, {updates} update(s), at most {rollouts * longest:,} tokens, "
        f"{limits.searches * rollouts:,} searches",
    )
    yield (
        "steps",
        f"at most {steps:,}, without verification; at most {trial.budget * longest / 1e9:,.1f} "
        "billion tokens in all",
    )
    yield (
        "a rollout",
        f"at most {prompt:,} tokens of prompt and {limits.response_tokens:,} of "
        f"{limits.searches + 1} actions and {limits.searches} observations",
    )
    yield "a GPU", f"{rollouts // gpus:,} rollouts a step, in passes of {settings.micro_batch}"
    if size is not None:
        share = config.actor_rollout_ref.rollout.gpu_memory_utilization
        told = "" if size.exact else ", by the model's name"
        gib = size.parameters * TRAINED_BYTES / gpus / GIB
        yield (
            "GPU memory",
            f"about {gib:,.1f} GiB on each of {gpus} GPUs for "
            f"{size.parameters / 1e9:.2f} billion weights{told}, their gradients and the "
            f"optimizer, besides activations; {share:.0%} of it for vLLM while it samples",
        )


def _needs(
    task: OpenQa,
    settings: OpenVerlSettings,
    config: DictConfig,
    trial: Trial,
    size: ModelSize | None,
) -> Iterator[Need]:
    from omegaconf import OmegaConf

    yield needs.gpus(settings.gpus_per_node, None)
    if config.actor_rollout_ref.rollout.name == "vllm":
        yield needs.package("vllm", 'pip install "evoprompt[verl-vllm]"')
    attention = "actor_rollout_ref.model.override_config.attn_implementation"
    if OmegaConf.select(config, attention, default="flash_attention_2") == "flash_attention_2":
        yield needs.package(
            "flash_attn",
            f"pip install flash-attn --no-build-isolation, or set +{attention}: sdpa in "
            "host.arguments",
        )
    yield from inputs(task, trial)
    if size is not None:
        yield needs.disk(trial.directory, size.parameters * _SAVED / GIB)

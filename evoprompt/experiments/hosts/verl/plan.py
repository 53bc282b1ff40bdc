"""Plan of a training under veRL, before anything starts."""

from __future__ import annotations

from evoprompt_verl.preflight import check_trainer
from evoprompt_verl.prompt_budget import check_room, tokenizer_of
from omegaconf import DictConfig, OmegaConf

from evoprompt.agents import Limits
from evoprompt.agents.tasks import EpisodeRunner, Need, Plan, Task, Trial, require_questions
from evoprompt.config import EngineConfig
from evoprompt.experiments.hosts.timing import Load, assumed_prompt, gpu_here
from evoprompt.experiments.hosts.training import training_plan
from evoprompt.experiments.hosts.verl.arguments import arguments
from evoprompt.experiments.hosts.verl.configuration import checked
from evoprompt.experiments.hosts.verl.settings import VerlHostSettings
from evoprompt.experiments.requirements import (
    GIB,
    TRAINED_BYTES,
    ModelSize,
    flash_attention,
    model,
    model_size,
    package,
    ties_embeddings,
)
from evoprompt.support.errors import InputError

_ATTENTION = "actor_rollout_ref.model.override_config.attn_implementation"
_FLASH = "flash_attention_2"

_WRITTEN = 4 + 4
"""Bytes that a weight takes in a checkpoint, and in the copy there in the format of transformers.
"""

_MOMENTS = 8
"""Bytes of Adam's moments for a trained weight in a checkpoint."""


def plan(task: Task, settings: VerlHostSettings, trial: Trial) -> Plan:
    """Return the work and the needs of ``trial``.

    Args:
        task: what to train on.
        settings: of the host.
        trial: the trial.

    Raises:
        InputError: veRL or its adapter refuses the configuration, or a question has no room under
            the instruction, as far as model and questions are on this machine.
    """
    name, limits = settings.model_of(trial), settings.limits(task)
    config = checked(arguments(settings, limits, trial))
    check_trainer(config, EngineConfig())
    needs = task.needs()
    if not any(need.missing for need in (*needs, model(name))):
        tools = playable(task, limits, config).schemas
        prompts = [
            [{"role": "user", "content": question.text}] for question in task.questions("train")
        ]
        check_room(config, task.seed_instructions, task.render, prompts, tools)
    size = model_size(name)
    load = None
    if size is not None:
        load = Load(
            size,
            settings.rollouts_per_step,
            settings.nodes * settings.gpus_per_node,
            assumed_prompt(settings.prompt_tokens),
            limits,
            1 + (settings.kl > 0),
            padded=not config.actor_rollout_ref.model.use_remove_padding,
            cache=float(config.actor_rollout_ref.rollout.gpu_memory_utilization),
            call_seconds=task.call_seconds,
            adapters=bool(config.actor_rollout_ref.model.lora_rank),
            span=_pass_tokens(settings, limits, config) if _reads_all(config) else 0,
            gpu=gpu_here(),
        )
    return training_plan(
        task,
        settings,
        trial,
        limits,
        needs=needs,
        size=size,
        gpus=settings.gpus_per_node,
        trainers=settings.nodes * settings.gpus_per_node,
        gpu_gib=gpu_gib(settings, limits, config, size) if size else None,
        host_gib=host_gib(settings, size, name) if size is not None else None,
        checkpoint=_WRITTEN + _MOMENTS * (settings.lora.share if settings.lora else 1),
        checkpoints=config.trainer.max_actor_ckpt_to_keep,
        packages=_packages(config),
        load=load,
    )


def playable(task: Task, limits: Limits, config: DictConfig) -> EpisodeRunner:
    """Return a runner of episodes of ``task`` with the model, which has to be on this machine.

    Args:
        task: what to play.
        limits: of an episode.
        config: of veRL.

    Raises:
        InputError: the tokenizer does not suit the task's protocol or tools, a split has no
            question, or the rollout engine cannot end actions where the protocol does.
    """
    variables = dict(config.data.get("apply_chat_template_kwargs") or {})
    runner = EpisodeRunner(task, tokenizer_of(config), limits, variables)
    engine = config.actor_rollout_ref.rollout.name
    if engine in ("sglang", "trtllm"):
        raise InputError(
            f"actor_rollout_ref.rollout.name is {engine}, which veRL runs without a tokenizer, so "
            "that it ends no action at a text, and TensorRT-LLM without a limit of an action; "
            "required: vllm"
        )
    require_questions(task)
    return runner


def gpu_gib(
    settings: VerlHostSettings, limits: Limits, config: DictConfig, size: ModelSize
) -> float:
    """Return the GiB that a GPU must have; an estimate, at most.

    While it trains, this is a share of weights, gradients and Adam's moments, and the logits of the
    longest possible pass with the tensors computed from them. While it samples, it is that share,
    unless it waits in main memory, beside vLLM, which needs its own weights within its part.
    """
    share = float(config.actor_rollout_ref.rollout.gpu_memory_utilization)
    actor = config.actor_rollout_ref.actor
    trained = 4 + settings.lora.share * TRAINED_BYTES if settings.lora else TRAINED_BYTES
    resident = size.parameters * trained / (settings.nodes * settings.gpus_per_node)
    tokens = _pass_tokens(settings, limits, config)
    logits = tokens * size.vocabulary * _logit_bytes(actor)
    masks = 3 * tokens**2 if _reads_all(config) else 0  # as truth values, and in half precision
    moved = actor.fsdp_config.param_offload and actor.fsdp_config.optimizer_offload
    sampling = 0.0 if moved else resident / (1 - share)
    return max(resident + logits + masks, sampling, 2 * size.parameters / share) / GIB


def _pass_tokens(settings: VerlHostSettings, limits: Limits, config: DictConfig) -> int:
    """Return the most tokens of a pass of a GPU."""
    actor = config.actor_rollout_ref.actor
    tokens = settings.rollouts_per_pass * (settings.prompt_tokens + limits.response_tokens)
    return min(tokens, actor.ppo_max_token_len_per_gpu) if actor.use_dynamic_bsz else tokens


def _logit_bytes(actor: DictConfig) -> int:
    """Return the bytes of a logit at worst, itself and its gradient included, two each.

    A bonus for entropy has a gradient of its own. Measured on veRL 0.9.1: its backward pass stores
    nothing more if torch compiles it, as by default; else 2 bytes, and 8 if it runs by chunks.
    Without a bonus the entropy is computed nevertheless, from two copies unless by chunks.
    """
    engine, bonus = actor.fsdp_config, bool(actor.entropy_coeff)
    chunked = engine.entropy_from_logits_with_chunking
    if engine.use_torch_compile:
        return 6 if bonus else 4
    if bonus:
        return 14 if chunked else 8
    return 4 if chunked else 6


def host_gib(settings: VerlHostSettings, size: ModelSize, model: str) -> float:
    """Return the GiB that a machine must have while models load; an estimate.

    Under veRL, every process loads the policy in four bytes a weight if the model ties its input
    and output embeddings, as Qwen2.5-3B does; otherwise one process does, as with Qwen2.5-7B. The
    reference waits there afterwards, two bytes a weight, divided over machines, and with
    ``offload`` the policy with Adam's moments.
    """
    loaded = settings.gpus_per_node if ties_embeddings(model) else 1
    reference = 2 / settings.nodes if settings.kl > 0 and settings.lora is None else 0
    waiting = (4 + _MOMENTS) / settings.nodes if settings.offload else 0
    return size.parameters * (max(4 * loaded, waiting) + reference) / GIB


def _packages(config: DictConfig) -> list[Need]:
    """Return the needs of libraries by the configuration."""
    needs = []
    if config.actor_rollout_ref.rollout.name == "vllm":
        needs.append(package("vllm", 'pip install -e ".[verl-vllm]"'))
    if not _reads_all(config):
        needs.append(flash_attention(f"set +{_ATTENTION}: sdpa in host.arguments"))
    return needs


def _reads_all(config: DictConfig) -> bool:
    """Return whether attention is computed over a whole pass, and not within each rollout."""
    return bool(OmegaConf.select(config, _ATTENTION, default=_FLASH) != _FLASH)

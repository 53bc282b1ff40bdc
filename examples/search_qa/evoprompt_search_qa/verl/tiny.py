"""The tiny task on veRL: real Ray, FSDP, TransferQueue and agent loops, on CPUs."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import evoprompt_verl_cpu as cpu
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from evoprompt.errors import InputError
from evoprompt.render import system_message
from evoprompt.tasks import Trial
from evoprompt.validation import explain
from evoprompt_search_qa import protocol
from evoprompt_search_qa.tiny.task import SearchQa
from evoprompt_search_qa.verl.configuration import Setting, checked

if TYPE_CHECKING:
    from evoprompt_search_qa.verl.trainee import VerlTrainee

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message.role == 'system' %}{{ message.content }} "
    f"{{% else %}}{protocol.QUESTION} {{{{ message.content }}}} {{% endif %}}"
    "{% endfor %}"
    f"{{% if add_generation_prompt %}}{protocol.RESPONSE}{{% endif %}}"
)
"""Renders instruction and question as ``protocol.plain_prompt`` does; veRL speaks in messages."""

_QUIET_AND_SMALL = {"OMP_NUM_THREADS": "1", "VERL_LOGGING_LEVEL": "ERROR", "TQDM_DISABLE": "1"}
"""Many processes share few cores; and the run has its own display, which others would tear."""

_LOOP = "evoprompt_search_qa.verl.tiny_loop.TinyLoop"

CONTEXT_TOKENS = 512
"""Positions of the shipped policy."""


class VerlSettings(BaseModel):
    """The host section of a configuration; the numbers are those of the host ``trl``.

    Attributes:
        learning_rate: of AdamW, constant; 0 freezes the policy, and only the instruction evolves.
        questions_per_step: questions of a training step.
        rollouts_per_question: G, the size of a group.
        save_every: steps between two checkpoints.
        arguments: further settings of veRL, by its own names.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    learning_rate: float = Field(default=1e-4, ge=0, allow_inf_nan=False)
    questions_per_step: int = Field(default=16, ge=1)
    rollouts_per_question: int = Field(default=5, ge=2)
    save_every: int = Field(default=25, ge=1)
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


def prepare(task: SearchQa, given: Mapping[str, JsonValue], trial: Trial) -> VerlTrainee:
    """The tiny policy in veRL's trainer, ready to be trained.

    Raises:
        InputError: the host settings are wrong.
    """
    # Read when veRL is imported, here and in every process that Ray starts from here.
    os.environ.update({**cpu.environment(), **_QUIET_AND_SMALL, **os.environ})
    settings = _validated(given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of engines that are not installed
        config = checked(tiny(settings, trial, trial.policy or task.settings.policy))
        # Only after veRL is known to be there.
        from evoprompt_search_qa.verl.trainee import Setup, VerlTrainee

    worlds = task.settings.world, task.settings.transfer_world
    home, abroad = (f"search-world-{world}" for world in worlds)
    setup = Setup(
        config=config,
        save_every=settings.save_every,
        loops=[
            {"name": name, "_target_": _LOOP, "world": world, "scale": task.settings.scale}
            for name, world in zip((home, abroad), worlds, strict=True)
        ],
        agent=lambda split: abroad if split == "transfer" else home,
        questions=task.questions,
        source=lambda question: "search-qa",
        stratum=lambda question: str(question.row["hops"]),
        render=system_message,
    )
    return VerlTrainee(setup, trial)


def tiny(settings: VerlSettings, trial: Trial, policy: Path) -> Mapping[str, Setting]:
    """GRPO of a tiny policy on CPUs, as close to the host ``trl`` as veRL comes.

    Both normalise the advantage in a group, average the loss over the tokens of the step, clip at
    0.2, take no KL penalty and make one update a step with the same AdamW.
    """
    rollouts = settings.questions_per_step * settings.rollouts_per_question
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    return {
        "algorithm.adv_estimator": "grpo",
        "algorithm.norm_adv_by_std_in_grpo": True,
        "data.train_files": str(trial.directory / "train.parquet"),
        "data.val_files": str(trial.directory / "validation.parquet"),
        "data.train_batch_size": settings.questions_per_step,
        "data.max_prompt_length": CONTEXT_TOKENS - protocol.TINY_LIMITS.response_tokens,
        "data.max_response_length": protocol.TINY_LIMITS.response_tokens,
        "data.shuffle": True,
        "data.seed": trial.seed,
        "data.dataloader_num_workers": 0,
        "actor_rollout_ref.model.path": str(policy),
        "actor_rollout_ref.model.custom_chat_template": CHAT_TEMPLATE,
        "actor_rollout_ref.model.use_remove_padding": False,
        "actor_rollout_ref.model.enable_gradient_checkpointing": False,
        "+actor_rollout_ref.model.override_config.attn_implementation": "sdpa",
        f"{actor}.strategy": "fsdp2",
        f"{actor}.fsdp_config.strategy": "fsdp2",
        f"{actor}.fsdp_config.seed": trial.seed,
        f"{actor}.fsdp_config.model_dtype": "fp32",
        f"{actor}.fsdp_config.use_torch_compile": False,
        f"+{actor}.fsdp_config.mixed_precision.param_dtype": "fp32",
        f"{actor}.use_torch_compile": False,
        f"{actor}.optim.lr": settings.learning_rate,
        f"{actor}.optim.lr_scheduler_type": "constant",
        f"{actor}.optim.betas": [0.9, 0.95],
        f"{actor}.optim.weight_decay": 0.0,
        f"{actor}.optim.clip_grad": 1.0,
        f"{actor}.clip_ratio": 0.2,
        f"{actor}.loss_agg_mode": "token-mean",
        f"{actor}.use_kl_loss": False,
        f"{actor}.ppo_mini_batch_size": settings.questions_per_step,
        f"{actor}.ppo_micro_batch_size_per_gpu": rollouts,
        f"{actor}.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        f"{actor}.checkpoint.load_contents": ["model", "optimizer", "extra"],
        f"{rollout}.name": cpu.ROLLOUT,
        f"{rollout}.n": settings.rollouts_per_question,
        f"{rollout}.seed": trial.seed,
        f"{rollout}.load_format": "auto",
        f"{rollout}.tensor_model_parallel_size": 1,
        f"{rollout}.log_prob_micro_batch_size_per_gpu": rollouts,
        f"{rollout}.val_kwargs.do_sample": True,
        f"{rollout}.val_kwargs.temperature": 1.0,
        f"{rollout}.agent.num_workers": 1,
        f"{rollout}.agent.agent_loop_config_path": str(trial.directory / "agent_loops.yaml"),
        "reward.num_workers": 0,  # the agent loop scores its episodes itself
        "transfer_queue.backend.SimpleStorage.num_data_storage_units": 1,
        "trainer.device": "cpu",
        "trainer.nnodes": 1,
        "trainer.n_gpus_per_node": 1,
        "trainer.logger": ["file"],
        "trainer.val_before_train": False,
        "trainer.total_epochs": math.ceil(trial.budget),
        "trainer.total_training_steps": math.ceil(trial.budget / rollouts),
        "trainer.resume_mode": "auto" if trial.resume else "disable",
        "trainer.default_local_dir": str(trial.directory),
        "trainer.max_actor_ckpt_to_keep": 2,
        "+ray_kwargs.ray_init.address": "local",
        "+ray_kwargs.ray_init.num_gpus": 1,
        "ray_kwargs.ray_init.num_cpus": 6,
        "+ray_kwargs.ray_init.include_dashboard": False,
        "+ray_kwargs.ray_init.object_store_memory": 300_000_000,
        **settings.arguments,
    }


def _validated(given: Mapping[str, JsonValue]) -> VerlSettings:
    try:
        return VerlSettings.model_validate(dict(given))
    except ValidationError as error:
        raise InputError(f"host 'verl': {explain(error, VerlSettings)}") from error

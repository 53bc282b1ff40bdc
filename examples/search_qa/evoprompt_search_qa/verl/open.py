"""The real task on veRL: any causal language model, vLLM, as many GPUs as there are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from evoprompt.errors import InputError
from evoprompt.tasks import Trial
from evoprompt.types import Question
from evoprompt.validation import explain
from evoprompt_search_qa.open.questions import SOURCE
from evoprompt_search_qa.open.task import OpenQa, OpenQaSettings
from evoprompt_search_qa.verl.configuration import Setting, checked

if TYPE_CHECKING:
    from evoprompt_search_qa.verl.trainee import VerlTrainee

AGENT = "search"
_LOOP = "evoprompt_search_qa.verl.open_loop.OpenLoop"


class OpenVerlSettings(BaseModel):
    """The host section of a configuration.

    Attributes:
        learning_rate: of AdamW, after warm-up; it falls to 0 along a cosine.
        warmup: share of the training in which it rises, in [0, 1].
        kl: weight of the divergence from the reference policy; 0 leaves the reference out.
        questions_per_step: questions of a training step.
        questions_per_update: questions of one optimizer step.
        rollouts_per_question: G, the size of a group.
        micro_batch: rollouts in one forward and backward pass of a GPU.
        save_every: steps between two checkpoints.
        nodes: machines of the Ray cluster that train.
        gpus_per_node: GPUs of each.
        arguments: further settings of veRL, by its own names.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    learning_rate: float = Field(default=1e-6, ge=0, allow_inf_nan=False)
    warmup: float = Field(default=0.1, ge=0, le=1)
    kl: float = Field(default=0.001, ge=0, allow_inf_nan=False)
    questions_per_step: int = Field(default=512, ge=1)
    questions_per_update: int = Field(default=256, ge=1)
    rollouts_per_question: int = Field(default=5, ge=2)
    micro_batch: int = Field(default=8, ge=1)
    save_every: int = Field(default=25, ge=1)
    nodes: int = Field(default=1, ge=1)
    gpus_per_node: int = Field(default=8, ge=1)
    arguments: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def rollouts_per_step(self) -> int:
        """Rollouts of a training step."""
        return self.questions_per_step * self.rollouts_per_question


def prepare(task: OpenQa, given: Mapping[str, JsonValue], trial: Trial) -> VerlTrainee:
    """The language model in veRL's trainer, ready to be trained.

    Raises:
        InputError: the host settings are wrong.
    """
    settings = validated(given)
    model = str(trial.policy or task.settings.model)
    config = checked(arguments(settings, task.settings, trial, model))
    # Only after veRL is known to be there.
    from evoprompt_search_qa.verl.trainee import Setup, VerlTrainee

    setup = Setup(
        config=config,
        save_every=settings.save_every,
        loops=[loop(task.settings)],
        agent=lambda split: AGENT,
        questions=task.questions,
        source=_source,
        stratum=_source,
        render=task.render,
    )
    return VerlTrainee(setup, trial)


def loop(task: OpenQaSettings) -> Mapping[str, Setting]:
    """The agent loop, as veRL's ``agent_loop_config_path`` takes it."""
    return {
        "name": AGENT,
        "_target_": _LOOP,
        "retriever": task.retriever,
        "topk": task.topk,
        "searches": task.searches,
        "turn_tokens": task.turn_tokens,
        "observation_tokens": task.observation_tokens,
    }


def arguments(
    settings: OpenVerlSettings, task: OpenQaSettings, trial: Trial, model: str
) -> Mapping[str, Setting]:
    """GRPO as in the paper (§4), by veRL's own names.

    The loss is a mean over the tokens of each response and then over responses (Eq. 2), with the
    unbiased estimate of the divergence from the reference policy.
    """
    response = task.limits.response_tokens
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    reference = "actor_rollout_ref.ref"
    # A training on several machines joins the Ray cluster that they form.
    joined = {"+ray_kwargs.ray_init.address": "auto"} if settings.nodes > 1 else {}
    return {
        "algorithm.adv_estimator": "grpo",
        "data.train_files": str(trial.directory / "train.parquet"),
        "data.val_files": str(trial.directory / "validation.parquet"),
        "data.train_batch_size": settings.questions_per_step,
        "data.max_prompt_length": task.prompt_tokens,
        "data.max_response_length": response,
        "data.shuffle": True,
        "data.seed": trial.seed,
        "data.dataloader_num_workers": 0,
        "actor_rollout_ref.model.path": model,
        "actor_rollout_ref.model.use_remove_padding": True,
        "actor_rollout_ref.model.enable_gradient_checkpointing": True,
        f"{actor}.strategy": "fsdp2",
        f"{actor}.fsdp_config.strategy": "fsdp2",
        f"{actor}.fsdp_config.seed": trial.seed,
        f"{actor}.optim.lr": settings.learning_rate,
        f"{actor}.optim.lr_scheduler_type": "cosine",
        f"{actor}.optim.lr_warmup_steps_ratio": settings.warmup,
        f"{actor}.clip_ratio": 0.2,
        f"{actor}.loss_agg_mode": "seq-mean-token-mean",
        f"{actor}.use_kl_loss": settings.kl > 0,
        f"{actor}.kl_loss_coef": settings.kl,
        f"{actor}.kl_loss_type": "low_var_kl",
        f"{actor}.ppo_mini_batch_size": settings.questions_per_update,
        f"{actor}.ppo_micro_batch_size_per_gpu": settings.micro_batch,
        f"{actor}.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        f"{actor}.checkpoint.load_contents": ["model", "optimizer", "extra"],
        f"{reference}.log_prob_micro_batch_size_per_gpu": settings.micro_batch,
        f"{reference}.fsdp_config.param_offload": True,
        f"{rollout}.name": "vllm",
        f"{rollout}.n": settings.rollouts_per_question,
        f"{rollout}.seed": trial.seed,
        f"{rollout}.temperature": 1.0,
        f"{rollout}.top_p": 1.0,
        f"{rollout}.max_model_len": task.prompt_tokens + response,
        f"{rollout}.tensor_model_parallel_size": 1,
        f"{rollout}.gpu_memory_utilization": 0.6,
        f"{rollout}.log_prob_micro_batch_size_per_gpu": settings.micro_batch,
        # Verification samples as training does; evaluations ask for greedy answers themselves.
        f"{rollout}.val_kwargs.do_sample": True,
        f"{rollout}.val_kwargs.temperature": 1.0,
        f"{rollout}.val_kwargs.top_p": 1.0,
        f"{rollout}.agent.agent_loop_config_path": str(trial.directory / "agent_loops.yaml"),
        "reward.num_workers": 0,  # the agent loop scores its episodes itself
        "trainer.nnodes": settings.nodes,
        "trainer.n_gpus_per_node": settings.gpus_per_node,
        "trainer.logger": ["file"],
        "trainer.val_before_train": False,
        "trainer.total_epochs": trial.budget,  # the budget ends the training
        "trainer.total_training_steps": math.ceil(trial.budget / settings.rollouts_per_step),
        "trainer.resume_mode": "auto" if trial.resume else "disable",
        "trainer.default_local_dir": str(trial.directory),
        "trainer.max_actor_ckpt_to_keep": 2,
        **joined,
        **settings.arguments,
    }


def validated(given: Mapping[str, JsonValue]) -> OpenVerlSettings:
    """The settings in a host section.

    Raises:
        InputError: a setting is unknown or cannot be used.
    """
    try:
        return OpenVerlSettings.model_validate(dict(given))
    except ValidationError as error:
        raise InputError(f"host 'verl': {explain(error, OpenVerlSettings)}") from error


def _source(question: Question) -> str:
    return str(question.row[SOURCE])

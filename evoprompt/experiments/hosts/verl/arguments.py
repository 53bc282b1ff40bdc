"""GRPO with veRL, by veRL's own names."""

from __future__ import annotations

import math
from collections.abc import Mapping

from evoprompt.agents import Limits
from evoprompt.agents.tasks import Trial
from evoprompt.experiments.hosts.verl.configuration import Setting
from evoprompt.experiments.hosts.verl.settings import VerlHostSettings

AGENT = "evoprompt"
"""Name of the agent loop."""

FAILURES = "unscored.txt"
LOOPS = "agent_loops.yaml"
TRAIN, VALIDATION = "train.parquet", "validation.parquet"
"""Files that are written next to the checkpoints, the first one in training."""


def arguments(settings: VerlHostSettings, limits: Limits, trial: Trial) -> Mapping[str, Setting]:
    """Return the settings of a training; those in ``settings.arguments`` win.

    GRPO as in the paper (§4): the loss is a mean over the tokens of each response and then over
    responses (Eq. 2), with the unbiased estimate of the divergence from the reference policy.

    Args:
        settings: of the host.
        limits: of an episode.
        trial: the trial.

    Raises:
        InputError: no model is named.
    """
    response = limits.response_tokens
    actor, rollout = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
    reference = "actor_rollout_ref.ref"
    folder = trial.directory.absolute()  # veRL reads a relative path below the current folder only
    # A training on several machines joins the Ray cluster that they form.
    lora = settings.lora
    adapters: dict[str, Setting] = {}
    if lora is not None:
        model = "actor_rollout_ref.model"
        adapters = {
            f"{model}.lora_rank": lora.rank,
            f"{model}.lora_alpha": lora.alpha,
            f"{model}.lora.merge": True,  # into the weights that the rollout replicas receive
        }
    joined = {"+ray_kwargs.ray_init.address": "auto"} if settings.nodes > 1 else {}
    return {
        "algorithm.adv_estimator": "grpo",
        "data.train_files": str(folder / TRAIN),
        "data.val_files": str(folder / VALIDATION),
        "data.train_batch_size": settings.questions_per_step,
        "data.max_prompt_length": settings.prompt_tokens,
        "data.max_response_length": response,
        "data.shuffle": True,
        "data.seed": trial.seed,
        "data.dataloader_num_workers": 0,
        "actor_rollout_ref.model.path": settings.model_of(trial),
        "actor_rollout_ref.model.use_remove_padding": True,
        "actor_rollout_ref.model.enable_gradient_checkpointing": True,
        f"{actor}.strategy": "fsdp2",
        f"{actor}.fsdp_config.strategy": "fsdp2",
        f"{actor}.fsdp_config.seed": trial.seed,
        f"{actor}.fsdp_config.param_offload": settings.offload,
        f"{actor}.fsdp_config.optimizer_offload": settings.offload,
        f"{actor}.optim.lr": settings.learning_rate,
        f"{actor}.optim.lr_scheduler_type": "cosine",
        f"{actor}.optim.lr_warmup_steps_ratio": settings.warmup,
        f"{actor}.clip_ratio": 0.2,
        f"{actor}.loss_agg_mode": "seq-mean-token-mean",
        f"{actor}.use_kl_loss": settings.kl > 0,
        f"{actor}.kl_loss_coef": settings.kl,
        f"{actor}.kl_loss_type": "low_var_kl",
        f"{actor}.ppo_mini_batch_size": (
            settings.questions_per_update or settings.questions_per_step
        ),
        f"{actor}.ppo_micro_batch_size_per_gpu": settings.rollouts_per_pass,
        f"{actor}.checkpoint.save_contents": ["model", "optimizer", "extra", "hf_model"],
        f"{actor}.checkpoint.load_contents": ["model", "optimizer", "extra"],
        f"{reference}.log_prob_micro_batch_size_per_gpu": settings.rollouts_per_pass,
        f"{reference}.fsdp_config.param_offload": True,
        f"{rollout}.name": "vllm",
        f"{rollout}.n": settings.rollouts_per_question,
        f"{rollout}.seed": trial.seed,
        f"{rollout}.temperature": 1.0,
        f"{rollout}.top_p": 1.0,
        f"{rollout}.max_model_len": settings.prompt_tokens + response,
        f"{rollout}.tensor_model_parallel_size": 1,
        f"{rollout}.gpu_memory_utilization": 0.6,
        f"{rollout}.log_prob_micro_batch_size_per_gpu": settings.rollouts_per_pass,
        # Verification samples as training does; evaluations ask for greedy answers themselves.
        f"{rollout}.val_kwargs.do_sample": True,
        f"{rollout}.val_kwargs.temperature": 1.0,
        f"{rollout}.val_kwargs.top_p": 1.0,
        f"{rollout}.agent.agent_loop_config_path": str(folder / LOOPS),
        "reward.num_workers": 0,  # the agent loop scores its episodes itself
        "trainer.nnodes": settings.nodes,
        "trainer.n_gpus_per_node": settings.gpus_per_node,
        "trainer.logger": ["file"],
        "trainer.val_before_train": False,
        "trainer.total_epochs": trial.budget,  # the budget ends the training
        "trainer.total_training_steps": math.ceil(trial.budget / settings.rollouts_per_step),
        "trainer.resume_mode": "auto" if trial.resume else "disable",
        "trainer.default_local_dir": str(folder),
        "trainer.max_actor_ckpt_to_keep": 2,
        **adapters,
        **joined,
        **settings.arguments,
    }

"""The policy in TRL's ``GRPOTrainer``: the real trainer, with the search agent as its rollout."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import torch
from datasets import Dataset
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError
from transformers import (
    PrinterCallback,
)
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from evoprompt.engine import Engine
from evoprompt.errors import InputError
from evoprompt.render import Prompt, Render
from evoprompt.tasks import Evaluation, Trial
from evoprompt.types import Candidate
from evoprompt.validation import explain
from evoprompt_search_qa import protocol
from evoprompt_search_qa.reward import exact_match
from evoprompt_search_qa.tiny.agent import SearchAgent
from evoprompt_search_qa.tiny.evaluation import evaluate
from evoprompt_search_qa.tiny.lean_trainer import LeanTrainer
from evoprompt_search_qa.tiny.policy import load_policy, save_policy
from evoprompt_search_qa.tiny.task import SearchQa
from evoprompt_search_qa.trl_schedule import Pace, resumes

OnEvaluation = Callable[[Evaluation], None]
_MOST = protocol.TINY_LIMITS.calls


class TrlSettings(BaseModel):
    """The host section of a configuration.

    Attributes:
        learning_rate: of AdamW, constant; 0 freezes the policy, and only the instruction evolves.
        questions_per_step: questions of a generation batch.
        rollouts_per_question: G, the size of a group.
        max_searches: searches an episode may make; 0 takes the tool away.
        save_every: steps between two checkpoints.
        threads: CPU threads of torch.
        device: where to train.
        arguments: further arguments of ``trl.GRPOConfig``, by its own names.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    learning_rate: float = Field(default=1e-4, ge=0, allow_inf_nan=False)
    questions_per_step: int = Field(default=16, ge=1)
    rollouts_per_question: int = Field(default=5, ge=2)
    max_searches: int = Field(default=_MOST, ge=0, le=_MOST)
    save_every: int = Field(default=25, ge=1)
    threads: int = Field(default=1, ge=1)
    device: Literal["cpu", "cuda"] = "cpu"
    arguments: dict[str, JsonValue] = Field(default_factory=dict)


def render(prompt: Prompt, candidate: Candidate) -> Prompt:
    """The instruction and the question, with the marks the policy was pretrained on."""
    return protocol.plain_prompt(candidate.text, str(prompt))


class TrlTrainee:
    """A tiny policy in a ``GRPOTrainer``, ready to be trained.

    Args:
        task: whose questions to train on.
        trial: what to do.
        given: settings of :class:`TrlSettings`.

    Raises:
        InputError: the host settings are wrong.
    """

    def __init__(
        self, task: SearchQa, trial: Trial, given: Mapping[str, JsonValue] = MappingProxyType({})
    ) -> None:
        self._task = task
        self._trial = trial
        self._settings = validated(given)
        torch.set_num_threads(self._settings.threads)
        self._policy, self._tokenizer = load_policy(trial.policy or task.settings.policy)
        self._pace = Pace(trial)
        self._trainer = self._build()

    @property
    def trainer(self) -> GRPOTrainer:
        """The trainer, to which the engine is attached."""
        return self._trainer

    @property
    def render(self) -> Render:
        """Places the instruction before the question."""
        return render

    def train(self, engine: Engine, on_evaluation: OnEvaluation) -> None:
        """Trains until ``engine.rollouts`` reaches the budget; see :class:`Trainee`."""
        self._pace.follow(
            engine, lambda: on_evaluation(self.evaluate(engine.best.text, "validation"))
        )
        self._trainer.train(resume_from_checkpoint=resumes(self._trial))

    def save(self, folder: Path) -> None:
        """Writes weights and tokenizer as ``transformers`` loads them."""
        save_policy(self._policy, self._tokenizer, folder)

    def stop(self) -> None:
        """Asks a running ``train`` to save a checkpoint and return after the current step."""
        self._pace.stopping = True

    def evaluate(self, instruction: str, split: str) -> Evaluation:
        """Greedy evaluation of the current policy; draws no random number."""
        agent = self._agent(split)
        return evaluate(agent, instruction, self._task.questions(split))

    def _agent(self, split: str) -> SearchAgent:
        search = self._task.tool(split).search
        return SearchAgent(self._policy, self._tokenizer, search, self._settings.max_searches)

    def _build(self) -> GRPOTrainer:
        rows = [dict(question.row) for question in self._task.questions("train")]
        agent = self._agent("train")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="You are using 'rollout_func'")
            trainer = LeanTrainer(
                model=self._policy,
                reward_funcs=exact_match,
                args=self._arguments(),
                train_dataset=Dataset.from_list(rows),
                processing_class=self._tokenizer,
                rollout_func=_Rollout(agent),
                callbacks=[self._pace],
            )
        # The run has its own display; TRL's lines would tear it.
        trainer.remove_callback(PrinterCallback)
        return trainer

    def _arguments(self) -> GRPOConfig:
        settings = self._settings
        rollouts = settings.questions_per_step * settings.rollouts_per_question
        arguments: dict[str, Any] = {
            "per_device_train_batch_size": rollouts,
            "num_generations": settings.rollouts_per_question,
            "max_steps": math.ceil(self._trial.budget / rollouts),
            "max_completion_length": protocol.TINY_LIMITS.response_tokens,
            "learning_rate": settings.learning_rate,
            "lr_scheduler_type": "constant",
            "adam_beta1": 0.9,
            "adam_beta2": 0.95,
            "weight_decay": 0.0,
            "max_grad_norm": 1.0,
            "temperature": 1.0,
            "beta": 0.0,
            "epsilon": 0.2,
            "loss_type": "dapo",
            "bf16": False,
            "gradient_checkpointing": False,
            "use_cpu": settings.device == "cpu",
            "report_to": "none",
            "logging_steps": 10,
            "save_strategy": "steps",
            "save_steps": settings.save_every,
            "save_total_limit": 2,
            "disable_tqdm": True,
            "dataloader_pin_memory": False,
            **settings.arguments,
        }
        try:
            return GRPOConfig(
                output_dir=str(self._trial.directory), seed=self._trial.seed, **arguments
            )
        except (TypeError, ValueError) as error:
            raise InputError(
                f"host.arguments is {settings.arguments}; required: arguments that "
                f"trl.GRPOConfig takes ({error}); change or drop them"
            ) from error


class _Rollout:
    """What TRL calls instead of its own sampling."""

    def __init__(self, agent: SearchAgent) -> None:
        self._agent = agent

    def __call__(self, prompts: list[str], trainer: GRPOTrainer) -> dict[str, list[Any]]:
        """The fields TRL trains on, and the episodes themselves for the reward.

        TRL repeats a prompt for each of its rollouts; equal neighbours share one prefill.
        """
        groups = [(prompt, len(list(same))) for prompt, same in groupby(prompts)]
        episodes = self._agent.run(
            [prompt for prompt, _ in groups],
            [count for _, count in groups],
            temperature=trainer.temperature,
        )
        return {
            "prompt_ids": [episode.prompt_ids for episode in episodes],
            "completion_ids": [episode.completion_ids for episode in episodes],
            "logprobs": [episode.logprobs for episode in episodes],
            "env_mask": [episode.policy_mask for episode in episodes],
            "episode": list(episodes),
        }


def validated(given: Mapping[str, JsonValue]) -> TrlSettings:
    """The settings in a host section.

    Raises:
        InputError: a setting is unknown or cannot be used.
    """
    try:
        return TrlSettings.model_validate(dict(given))
    except ValidationError as error:
        raise InputError(f"host 'trl': {explain(error, TrlSettings)}") from error

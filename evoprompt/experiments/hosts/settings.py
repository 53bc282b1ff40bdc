"""Settings that all hosts share."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, Field, JsonValue

from evoprompt.agents import Limits
from evoprompt.agents.tasks import Task, Trial, limits_of
from evoprompt.support.errors import InputError


class LoraSettings(BaseModel, frozen=True, extra="forbid"):
    """Adapters of low rank that are trained in place of the weights, with TRL's own defaults.

    Attributes:
        rank: of the adapters, which every linear layer but the last has.
        alpha: their scale is ``alpha / rank``.
    """

    rank: int = Field(default=16, ge=1)
    alpha: int = Field(default=32, ge=1)

    @property
    def share(self) -> float:
        """Return the number of adapter weights for each weight of the policy, at most.

        It is .00111 for 0.5B of Qwen2.5 and .00061 for 3B, at rank 1.
        """
        return self.rank * 0.00112


class HostSettings(BaseModel, frozen=True, extra="forbid"):
    """Host section of a configuration: the settings that all hosts share.

    Attributes:
        host: name of the host, for messages.
        example: a model to name in messages.
        model: name on the Hugging Face hub, or folder, of the causal language model to train; empty
            if the task names one.
        learning_rate: of AdamW; 0 freezes the policy, and only the instruction evolves.
        questions_per_step: questions of a training step, over all processes.
        rollouts_per_question: G, the size of a group.
        micro_batch: rollouts in one forward and backward pass of a process; null for all in one
            pass.
        prompt_tokens: most tokens of instruction, tools and question, chat template included.
        max_calls: most tool calls of an episode; null for the task's own limit, 0 takes the tools
            away.
        turn_tokens: most tokens of an action; null for the task's own limit.
        save_every: steps between two checkpoints.
        lora: trains adapters; null trains all weights. Adapters need about ten times the learning
            rate.
        arguments: further settings of the trainer, by its own names.
    """

    host: ClassVar[str]
    example: ClassVar[str]

    model: str = ""
    learning_rate: float = Field(default=1e-6, ge=0, allow_inf_nan=False)
    questions_per_step: int = Field(default=16, ge=1)
    rollouts_per_question: int = Field(default=5, ge=2)
    micro_batch: int | None = Field(default=None, ge=1)
    prompt_tokens: int = Field(default=4096, ge=1)
    max_calls: int | None = Field(default=None, ge=0)
    turn_tokens: int | None = Field(default=None, ge=1)
    save_every: int = Field(default=25, ge=1)
    lora: LoraSettings | None = None
    arguments: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def rollouts_per_step(self) -> int:
        """Return the rollouts of a training step, over all processes."""
        return self.questions_per_step * self.rollouts_per_question

    @property
    def rollouts_per_pass(self) -> int:
        """Return the rollouts in one forward and backward pass of a process."""
        # Not abstract: pydantic builds this class, and each host counts in a setting of its own.
        raise NotImplementedError(f"host {self.host!r} does not define rollouts_per_pass")

    def limits(self, task: Task) -> Limits:
        """Return the limits of an episode of ``task``."""
        return limits_of(task, self.max_calls, self.turn_tokens)

    def model_of(self, trial: Trial) -> str:
        """Return the model that ``trial`` starts from.

        Raises:
            InputError: neither the configuration nor the task names one.
        """
        model = str(trial.policy or self.model)
        if not model:
            raise InputError(
                f"host {self.host!r}: no model is named, neither in the configuration nor by the "
                "task; required: host.model, a name on the Hugging Face hub or a folder, such as "
                f"--set host.model={self.example}"
            )
        return model

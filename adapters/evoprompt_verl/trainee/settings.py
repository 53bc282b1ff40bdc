"""What a configuration may say of the host ``verl``."""

from __future__ import annotations

from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from evoprompt.agents import Limits
from evoprompt.errors import InputError
from evoprompt.tasks import Task, Trial


class VerlHostSettings(BaseModel):
    """The host section of a configuration.

    Attributes:
        model: name on the Hugging Face hub, or folder, of the causal language model to train; empty
            where the task names one.
        learning_rate: of AdamW, after warm-up; it falls to 0 along a cosine. 0 freezes the policy,
            and only the instruction evolves.
        warmup: share of the training in which it rises, in [0, 1].
        kl: weight of the divergence from the reference policy; 0 leaves the reference out.
        questions_per_step: questions of a training step.
        questions_per_update: questions of one optimizer step; null for all of a training step.
        rollouts_per_question: G, the size of a group.
        micro_batch: rollouts in one forward and backward pass of a GPU; null for all of a step.
        prompt_tokens: most tokens of instruction, tools and question, chat template included.
        max_calls: most tool calls of an episode; null for the task's own limit, 0 takes the tools
            away.
        save_every: steps between two checkpoints.
        nodes: machines of the Ray cluster that train.
        gpus_per_node: GPUs of each.
        environment: variables of every process of the training, where they are not set already.
        arguments: further settings of veRL, by its own names.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = ""
    learning_rate: float = Field(default=1e-6, ge=0, allow_inf_nan=False)
    warmup: float = Field(default=0.1, ge=0, le=1)
    kl: float = Field(default=0.001, ge=0, allow_inf_nan=False)
    questions_per_step: int = Field(default=512, ge=1)
    questions_per_update: int | None = Field(default=None, ge=1)
    rollouts_per_question: int = Field(default=5, ge=2)
    micro_batch: int | None = Field(default=8, ge=1)
    prompt_tokens: int = Field(default=4096, ge=1)
    max_calls: int | None = Field(default=None, ge=0)
    save_every: int = Field(default=25, ge=1)
    nodes: int = Field(default=1, ge=1)
    gpus_per_node: int = Field(default=8, ge=1)
    environment: dict[str, str] = Field(default_factory=dict)
    arguments: dict[str, JsonValue] = Field(default_factory=dict)

    @property
    def rollouts_per_step(self) -> int:
        """Rollouts of a training step."""
        return self.questions_per_step * self.rollouts_per_question

    @property
    def rollouts_per_pass(self) -> int:
        """Rollouts in one forward and backward pass of a GPU."""
        return self.micro_batch or max(
            1, self.rollouts_per_step // (self.nodes * self.gpus_per_node)
        )

    def limits(self, task: Task) -> Limits:
        """What an episode of ``task`` may use."""
        return task.limits if self.max_calls is None else replace(task.limits, calls=self.max_calls)

    def model_of(self, trial: Trial) -> str:
        """The model that ``trial`` starts from.

        Raises:
            InputError: neither the configuration nor the task names one.
        """
        found = str(trial.policy or self.model)
        if not found:
            raise InputError(
                "host 'verl': no model is named, neither in the configuration nor by the task; "
                "required: host.model, a name on the Hugging Face hub or a folder, such as "
                "--set host.model=Qwen/Qwen2.5-3B-Instruct"
            )
        return found

"""What the host ``trl`` can be told; imports neither TRL nor torch."""

from __future__ import annotations

import os

from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

from evoprompt.agents import Limits
from evoprompt.errors import InputError
from evoprompt.tasks import Task, Trial, limits_of


class TrlSettings(BaseModel):
    """The host section of a configuration.

    Attributes:
        model: name on the Hugging Face hub, or folder, of the causal language model to train; empty
            where the task names one.
        learning_rate: of AdamW; 0 freezes the policy, and only the instruction evolves.
        questions_per_step: questions of a generation batch, over all processes.
        rollouts_per_question: G, the size of a group.
        updates_per_step: optimizer steps that share a generation batch.
        micro_batch: rollouts in one forward and backward pass of a process; null for all at once.
        save_every: steps between two checkpoints.
        processes: processes that train together, one per GPU.
        at_once: contexts that transformers continue together; vLLM chooses by itself.
        prompt_tokens: most tokens of instruction and question, chat template included.
        max_calls: most tool calls of an episode; null for the task's own limit, 0 takes the tools
            away.
        threads: CPU threads of torch; null leaves them as they are.
        arguments: further arguments of ``trl.GRPOConfig``, by its own names.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = ""
    learning_rate: float = Field(default=1e-6, ge=0, allow_inf_nan=False)
    questions_per_step: int = Field(default=16, ge=1)
    rollouts_per_question: int = Field(default=5, ge=2)
    updates_per_step: int = Field(default=1, ge=1)
    micro_batch: int | None = Field(default=None, ge=1)
    save_every: int = Field(default=25, ge=1)
    processes: int = Field(default=1, ge=1)
    at_once: int = Field(default=64, ge=1)
    prompt_tokens: int = Field(default=4096, ge=1)
    max_calls: int | None = Field(default=None, ge=0)
    threads: int | None = Field(default=None, ge=1)
    arguments: dict[str, JsonValue] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_shares(self) -> TrlSettings:
        share = self.processes * self.updates_per_step * (self.micro_batch or 1)
        if self.rollouts_per_step % share:
            raise InputError(
                f"{self.questions_per_step} questions of {self.rollouts_per_question} rollouts are "
                f"{self.rollouts_per_step} per step; required: a multiple of processes * "
                f"micro_batch * updates_per_step = {share}; change one of them"
            )
        if self.arguments.get("fsdp") and not self.uses_vllm:
            raise InputError(
                "arguments has fsdp without use_vllm; required: vLLM, as transformers cannot "
                "sample from weights that are shared out; set use_vllm, or drop fsdp"
            )
        return self

    @property
    def rollouts_per_step(self) -> int:
        """Rollouts of a generation batch, over all processes."""
        return self.questions_per_step * self.rollouts_per_question

    @property
    def rollouts_per_pass(self) -> int:
        """Rollouts in one forward and backward pass of a process."""
        share = self.rollouts_per_step // (self.processes * self.updates_per_step)
        return self.micro_batch or share

    @property
    def passes(self) -> int:
        """Forward and backward passes of a process for each generation batch."""
        return self.rollouts_per_step // (self.processes * self.rollouts_per_pass)

    @property
    def uses_vllm(self) -> bool:
        """Whether vLLM samples."""
        return bool(self.arguments.get("use_vllm"))

    @property
    def sharded(self) -> bool:
        """Whether weights are shared out over the processes."""
        return bool(self.arguments.get("fsdp") or self.arguments.get("deepspeed"))

    def limits(self, task: Task) -> Limits:
        """What an episode of ``task`` may use."""
        return limits_of(task, self.max_calls)

    def model_of(self, trial: Trial) -> str:
        """The model that ``trial`` starts from.

        Raises:
            InputError: neither the configuration nor the task names one.
        """
        found = str(trial.policy or self.model)
        if not found:
            raise InputError(
                "host 'trl': no model is named, neither in the configuration nor by the task; "
                "required: host.model, a name on the Hugging Face hub or a folder, such as "
                "--set host.model=Qwen/Qwen2.5-0.5B-Instruct"
            )
        return found


def running_processes() -> int:
    """How many processes the launcher has started; 1 without one."""
    return int(os.environ.get("WORLD_SIZE", "1"))

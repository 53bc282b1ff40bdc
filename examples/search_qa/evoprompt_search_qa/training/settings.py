"""What the hosts without reinforcement learning can be told; imports no torch."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from evoprompt_search_qa.methods.registry import find_methods


class OfflineSettings(BaseModel):
    """What every such host can be told, and all that ``prompted`` can.

    Attributes:
        method: the method by which the policy is asked when it is tested.
        threads: CPU threads of torch.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str
    threads: int = Field(default=1, ge=1)

    @field_validator("method")
    @classmethod
    def _check_method(cls, given: str) -> str:
        find_methods([given])
        return given


class FitSettings(OfflineSettings):
    """How to train under ``sft``.

    Attributes:
        learning_rate: peak of AdamW's; it falls linearly to 0.
        epochs: passes over the examples.
        batch: examples per optimizer step.
    """

    learning_rate: float = Field(default=5e-4, gt=0, allow_inf_nan=False)
    epochs: int = Field(default=3, ge=1)
    batch: int = Field(default=32, ge=1)


class RejectionSettings(FitSettings):
    """How to sample under ``rejection``, beside how to train.

    Attributes:
        questions_per_step: questions sampled at a time.
        rollouts_per_question: rollouts per question each time it is met.
    """

    questions_per_step: int = Field(default=16, ge=1)
    rollouts_per_question: int = Field(default=5, ge=1)

"""Settings of the host ``verl``."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from evoprompt.experiments.hosts.settings import HostSettings


class VerlHostSettings(HostSettings, frozen=True):
    """Host section of a configuration; ``arguments`` are settings of veRL.

    Attributes:
        learning_rate: of AdamW, after warm-up; it falls to 0 along a cosine. 0 freezes the policy,
            and only the instruction evolves.
        warmup: share of the training in which the learning rate rises, in [0, 1].
        kl: weight of the divergence from the reference policy; 0 leaves the reference out.
        questions_per_update: questions of one optimizer step; null for all of a training step.
        offload: whether weights and Adam's moments wait in main memory while the replicas sample,
            which then have that room.
        nodes: machines of the Ray cluster that train.
        gpus_per_node: GPUs of each.
        environment: variables of every process of the training, where they are not set already.
    """

    host: ClassVar[str] = "verl"
    example: ClassVar[str] = "Qwen/Qwen2.5-3B-Instruct"

    warmup: float = Field(default=0.1, ge=0, le=1)
    kl: float = Field(default=0.001, ge=0, allow_inf_nan=False)
    questions_per_step: int = Field(default=512, ge=1)
    questions_per_update: int | None = Field(default=None, ge=1)
    micro_batch: int | None = Field(default=8, ge=1)
    offload: bool = False
    nodes: int = Field(default=1, ge=1)
    gpus_per_node: int = Field(default=8, ge=1)
    environment: dict[str, str] = Field(default_factory=dict)

    @property
    def rollouts_per_pass(self) -> int:
        """Return the rollouts in one forward and backward pass of a GPU."""
        return self.micro_batch or max(
            1, self.rollouts_per_step // (self.nodes * self.gpus_per_node)
        )

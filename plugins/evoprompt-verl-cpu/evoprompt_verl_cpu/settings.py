"""Settings of the host ``verl-cpu``."""

from __future__ import annotations

from pydantic import Field

from evoprompt.experiments.hosts.verl.settings import VerlHostSettings


class CpuSettings(VerlHostSettings, frozen=True):
    """Host section of a configuration: :class:`VerlHostSettings` with other defaults.

    Attributes:
        learning_rate: of AdamW, constant.
    """

    learning_rate: float = Field(default=1e-4, ge=0, allow_inf_nan=False)
    warmup: float = Field(default=0.0, ge=0, le=1)
    kl: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    questions_per_step: int = Field(default=16, ge=1)
    micro_batch: int | None = Field(default=None, ge=1)
    gpus_per_node: int = Field(default=1, ge=1)

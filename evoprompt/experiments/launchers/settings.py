"""Settings of the launchers."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class RaySettings(BaseModel, extra="forbid"):
    """Settings of the launcher ``ray``."""

    address: str = Field(default="auto", description="of the cluster; auto: this machine's")
    cpus: float = Field(default=1, ge=0, description="CPUs of each trial")
    gpus: float = Field(default=0, ge=0, description="GPUs of each trial; it sees no others")
    resources: dict[str, float] = Field(default={}, description="further kinds, of each trial")
    retries: int = Field(default=3, ge=0, description="submissions of a trial that was lost")


class SlurmSettings(BaseModel, extra="forbid"):
    """Settings of the launcher ``slurm``."""

    cluster: Literal["slurm", "local"] = Field(
        default="slurm", description="local: the same job files in processes of this machine"
    )
    partition: str | None = Field(default=None, description="by default the site's")
    minutes: int = Field(default=1440, ge=1, description="time limit of one job")
    cpus: int = Field(default=1, ge=1, description="CPUs of each trial")
    gpus: int = Field(default=0, ge=0, description="GPUs of each trial")
    memory_gb: int | None = Field(default=None, ge=1, description="by default the site's")
    setup: list[str] = Field(default=[], description="shell commands before each trial")
    options: dict[str, str | int] = Field(default={}, description="of sbatch, by name")
    retries: int = Field(default=3, ge=0, description="submissions of a trial that was lost")

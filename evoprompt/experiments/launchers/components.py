"""The launchers that need more than this machine, with their settings; imported when built."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Literal

from pydantic import BaseModel, Field

from evoprompt.errors import InputError
from evoprompt.experiments.launchers.base import Launcher
from evoprompt.roles import BuildContext


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


def _require(module: str, extra: str) -> None:
    if find_spec(module) is None:
        raise InputError(
            f"the launcher {extra} needs {module}, which is not installed; required: the extra "
            f'{extra}; pip install "evoprompt[{extra}]", on the machines of the trials, too'
        )


class Ray(Launcher):
    """Tasks of a Ray cluster."""

    Settings = RaySettings

    @classmethod
    def build(cls, settings: RaySettings, context: BuildContext) -> Launcher:
        """Makes one for the cluster of ``settings``.

        Raises:
            InputError: Ray is not installed.
        """
        _require("ray", "ray")
        from evoprompt.experiments.launchers.on_ray import RayLauncher

        return RayLauncher(settings)


class Slurm(Launcher):
    """Jobs of Slurm, by submitit."""

    Settings = SlurmSettings

    @classmethod
    def build(cls, settings: SlurmSettings, context: BuildContext) -> Launcher:
        """Makes one for jobs as ``settings`` describe them.

        Raises:
            InputError: submitit is not installed.
        """
        _require("submitit", "slurm")
        from evoprompt.experiments.launchers.on_slurm import SlurmLauncher

        return SlurmLauncher(settings)

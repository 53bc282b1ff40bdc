"""The launchers as components; what they need is imported when one is built."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from evoprompt.errors import InputError
from evoprompt.experiments.launchers.settings import RaySettings, SlurmSettings
from evoprompt.plugins.component import AnyComponent, BuildContext, Component, NoSettings

if TYPE_CHECKING:
    from evoprompt.experiments.launchers.base import Launcher


def _local(settings: NoSettings, context: BuildContext) -> Launcher:
    from evoprompt.experiments.launchers.local import LocalLauncher

    return LocalLauncher()


def _require(module: str, extra: str) -> None:
    if find_spec(module) is None:
        raise InputError(
            f"the launcher {extra} needs {module}, which is not installed; required: the extra "
            f'{extra}; pip install "evoprompt[{extra}]", on the machines of the trials, too'
        )


def _ray(settings: RaySettings, context: BuildContext) -> Launcher:
    _require("ray", "ray")
    from evoprompt.experiments.launchers.on_ray import RayLauncher

    return RayLauncher(settings)


def _slurm(settings: SlurmSettings, context: BuildContext) -> Launcher:
    _require("submitit", "slurm")
    from evoprompt.experiments.launchers.on_slurm import SlurmLauncher

    return SlurmLauncher(settings)


def launchers() -> list[AnyComponent]:
    """What ships with evoprompt."""
    return [
        Component("launcher", "local", _local, description="Processes of this machine"),
        Component("launcher", "ray", _ray, RaySettings, "Tasks of a Ray cluster"),
        Component("launcher", "slurm", _slurm, SlurmSettings, "Jobs of Slurm, by submitit"),
    ]

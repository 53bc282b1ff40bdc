"""The launchers that need more than this machine; imported when one is built."""

from __future__ import annotations

from importlib.util import find_spec

from evoprompt.errors import InputError
from evoprompt.experiments.launchers.base import Launcher
from evoprompt.experiments.launchers.settings import RaySettings, SlurmSettings
from evoprompt.roles import BuildContext


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

"""Trials on a Ray cluster: a task per trial, with its CPUs and GPUs."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, Field

from evoprompt.components import BuildContext
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.launchers.base import Done, Job, Launcher, Lost, require_extra
from evoprompt.experiments.launchers.node import Errand
from evoprompt.experiments.trial import End, TrialFailure
from evoprompt.support.errors import InputError
from evoprompt.support.text import format_error

_TIMEOUT = 10.0  # seconds for a connection to the cluster's head


class RaySettings(BaseModel, extra="forbid"):
    """Settings of the launcher ``ray``."""

    address: str = Field(default="auto", description="of the cluster; auto: this machine's")
    cpus: float = Field(default=1, ge=0, description="CPUs of each trial")
    gpus: float = Field(default=0, ge=0, description="GPUs of each trial; it gets no others")
    resources: dict[str, float] = Field(default={}, description="further kinds, of each trial")
    retries: int = Field(default=3, ge=0, description="submissions of a trial that was lost")


class Ray(Launcher):
    """Launcher of tasks on a Ray cluster."""

    Settings = RaySettings
    elsewhere = True
    max_parallel: int | None = None

    def __init__(self, settings: RaySettings) -> None:
        self.retries = settings.retries
        self._settings = settings

    @classmethod
    def build(cls, settings: RaySettings, context: BuildContext) -> Ray:
        """Return the launcher for the cluster of ``settings``.

        Raises:
            InputError: Ray is not installed.
        """
        require_extra("ray", "ray")
        return cls(settings)

    def open(self) -> Sequence[str]:
        """Join the cluster; return a notice if no machine has the resources of a trial.

        Raises:
            InputError: there is no cluster.
        """
        import ray

        address, settings = self._settings.address, self._settings
        try:
            _require_listener(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
        except (OSError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            raise InputError(
                f"there is no Ray cluster at address {address!r}, or it refused "
                f"({format_error(error)}); required: a running one; start it with `ray start "
                "--head`, and on the other machines `ray start --address HEAD:6379`, or name "
                "another with --set launcher.address=HOST:PORT; one that was started where there "
                "is a ~/.ray/auth_token needs RAY_AUTH_MODE=token for this command"
            ) from error
        required = {"CPU": settings.cpus, "GPU": settings.gpus, **settings.resources}
        active_nodes = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        nodes = [node["Resources"] for node in active_nodes]
        if any(all(node.get(k, 0) >= n for k, n in required.items()) for node in nodes):
            return ()
        required_text = ", ".join(
            f"{number:g} {kind}" for kind, number in required.items() if number
        )
        return [
            f"none of the cluster's {len(nodes)} machines has {required_text}: trials wait until "
            "one joins that has"
        ]

    def start(self, directory: RunDirectory, trial: TrialId, at_once: int) -> RayJob:
        """Start a new task."""
        return RayJob(directory, trial, self._settings)

    def close(self) -> None:
        """Leave the cluster."""
        import ray

        ray.shutdown()


class RayJob(Job):
    """Trial that is a task of Ray."""

    def __init__(self, directory: RunDirectory, trial: TrialId, settings: RaySettings) -> None:
        import ray

        super().__init__(directory, trial, Path.cwd())
        task = ray.remote(
            num_cpus=settings.cpus,
            num_gpus=settings.gpus,
            resources=settings.resources,
            max_retries=0,  # the runner does that, and reports it
            max_calls=1,  # or the process would keep the GPU's memory
        )(_carry_out)
        self._task = task.options(name=f"evoprompt {trial}").remote(self.errand)

    def _end(self) -> Done | Lost | None:
        import ray
        from ray import exceptions

        try:
            return Done(ray.get(self._task, timeout=0))
        except exceptions.GetTimeoutError:
            return None
        except exceptions.TaskCancelledError:
            return Done(None)
        except exceptions.RayTaskError as error:
            # The error itself is below the traces of all machines on its way.
            message = f"on its machine: {str(error).strip().splitlines()[-1]}"
            return Done(TrialFailure(message, bad_input="ModuleNotFoundError" in message))
        except exceptions.RayError as error:  # its node or its process is gone
            return Lost(str(error).strip().splitlines()[0])

    def _cancel(self, force: bool) -> None:
        import ray

        ray.cancel(self._task, force=force)


def _require_listener(address: str) -> None:
    """Check that a process listens there; Ray itself would try for ten minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=_TIMEOUT).close()


def _carry_out(errand: Errand) -> End | None:
    return errand.carry_out()

"""Trials on a Ray cluster: a task each, with the CPUs and GPUs it asks for."""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from pathlib import Path

import ray
from ray.exceptions import (
    GetTimeoutError,
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    RayError,
    RayTaskError,
    TaskCancelledError,
    WorkerCrashedError,
)

from evoprompt.errors import InputError
from evoprompt.experiments.launchers.base import Done, Launcher, Lost, Work
from evoprompt.experiments.launchers.components import RaySettings
from evoprompt.experiments.launchers.node import Errand, RemoteJob, SharedFolder, versions
from evoprompt.experiments.trial import End, Failure
from evoprompt.text import format_error

_TIMEOUT = 10.0  # seconds for a connection to the cluster's head
_GONE = (
    LocalRayletDiedError,
    NodeDiedError,
    ObjectLostError,
    OutOfMemoryError,
    WorkerCrashedError,
)


class RayLauncher(Launcher):
    """Starts a task a trial on a cluster that is there.

    Args:
        settings: where it is, and what a trial takes.
    """

    elsewhere = True
    most: int | None = None

    def __init__(self, settings: RaySettings) -> None:
        self.retries = settings.retries
        self._settings = settings

    def open(self) -> Sequence[str]:
        """Joins the cluster; what it lacks as it is now.

        Raises:
            InputError: there is none.
        """
        address = self._settings.address
        try:
            _require_listener(address)
            ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
        except (OSError, ValueError, RuntimeError, RayError) as error:
            raise InputError(
                f"there is no Ray cluster at address {address!r}, or it refused "
                f"({format_error(error)}); required: a running one; start it with `ray start "
                "--head`, and on the other machines `ray start --address HEAD:6379`, or name "
                "another with --set launcher.address=HOST:PORT; one that was started where there "
                "is a ~/.ray/auth_token wants RAY_AUTH_MODE=token for this command"
            ) from error
        wanted = {
            "CPU": self._settings.cpus,
            "GPU": self._settings.gpus,
            **self._settings.resources,
        }
        alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        nodes = [node["Resources"] for node in alive]
        notices = []
        if not any(all(node.get(k, 0) >= n for k, n in wanted.items()) for node in nodes):
            shown = ", ".join(f"{number:g} {kind}" for kind, number in wanted.items() if number)
            notices.append(
                f"none of the cluster's {len(nodes)} machines has {shown}: trials wait until one "
                "joins that has"
            )
        there = sum(node.get("GPU", 0) for node in nodes)
        if there and not self._settings.gpus:
            notices.append(
                f"the cluster has {there:g} GPUs and a trial asks for none, so it will see none; "
                "ask with --set launcher.gpus=1"
            )
        return notices

    def start(self, work: Work) -> RayJob:
        """A new task."""
        return RayJob(work, self._settings)

    def close(self) -> None:
        """Leaves the cluster."""
        ray.shutdown()


class RayJob(RemoteJob):
    """A trial that is a task of Ray."""

    def __init__(self, work: Work, settings: RaySettings) -> None:
        super().__init__(SharedFolder.new(work))
        task = ray.remote(
            num_cpus=settings.cpus,
            num_gpus=settings.gpus,
            resources=settings.resources,
            max_retries=0,  # the scheduler does that, and says so
            max_calls=1,  # or the process would keep the GPU's memory
        )(_carry_out)
        errand = Errand(work, self._folder.path, Path.cwd(), versions())
        self._task = task.options(name=f"evoprompt {work.trial}").remote(errand)

    def _end(self) -> Done | Lost | None:
        try:
            return Done(ray.get(self._task, timeout=0))
        except GetTimeoutError:
            return None
        except TaskCancelledError:
            return Done(None)
        except _GONE as error:
            return Lost(str(error).strip().splitlines()[0])
        except RayTaskError as error:
            return Done(_failure(error))

    def _cancel(self, force: bool) -> None:
        ray.cancel(self._task, force=force)


def _require_listener(address: str) -> None:
    """Nothing if somebody listens there; Ray itself would try for ten minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=_TIMEOUT).close()


def _carry_out(errand: Errand) -> End | None:
    return errand.carry_out()


def _failure(error: RayTaskError) -> Failure:
    """Says the last line: the error itself, below the traces of all machines on its way."""
    said = f"on its machine: {str(error).strip().splitlines()[-1]}"
    if "ModuleNotFoundError" not in said:
        return Failure(said)
    remedy = "required: what is installed where the run was started; install the same there"
    return Failure(f"{said}; {remedy}", bad_input=True)

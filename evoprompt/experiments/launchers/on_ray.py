"""Trials on a Ray cluster: a task each, with the CPUs and GPUs it asks for."""

from __future__ import annotations

import logging
import os
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
from evoprompt.experiments.launchers.base import Done, Launcher, Lost, Message, Work
from evoprompt.experiments.launchers.node import Errand, SharedFolder, versions
from evoprompt.experiments.launchers.settings import RaySettings
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
        except (OSError, ValueError) as error:
            raise _unreachable(address, error) from error
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.WARNING)
        except (OSError, ValueError, RuntimeError, RayError) as error:
            if _may_want_a_token():
                raise InputError(
                    f"the Ray cluster at address {address!r} was not joined "
                    f"({format_error(error)}), which "
                    "may be for want of its token; required: RAY_AUTH_MODE=token for this command, "
                    "as Ray asks for the token in ~/.ray/auth_token where there is one; or start "
                    "the cluster with RAY_AUTH_MODE=disabled, in a private network"
                ) from error
            raise _unreachable(address, error) from error
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


class RayJob:
    """A trial that is a task of Ray."""

    def __init__(self, work: Work, settings: RaySettings) -> None:
        self._folder = SharedFolder.new(work)
        task = ray.remote(
            num_cpus=settings.cpus,
            num_gpus=settings.gpus,
            resources=settings.resources,
            max_retries=0,  # the scheduler does that, and says so
            max_calls=1,  # or the process would keep the GPU's memory
        )(_carry_out)
        errand = Errand(work, self._folder.path, Path.cwd(), versions())
        self._end = task.options(name=f"evoprompt {work.trial}").remote(errand)

    def poll(self) -> Sequence[Message]:
        """What the trial has written into the folder, and its end."""
        try:
            end = ray.get(self._end, timeout=0)
        except GetTimeoutError:
            return self._folder.news()
        except TaskCancelledError:
            return self._folder.last(Done(None))
        except _GONE as error:
            return self._folder.last(Lost(_first_line(error)))
        except RayTaskError as error:
            return self._folder.last(Done(_failure(error)))
        return self._folder.last(Done(end))

    def stop(self) -> None:
        """Has it stop after its step, or not begin."""
        self._folder.ask_to_stop()
        if not self._folder.begun:
            ray.cancel(self._end)

    def kill(self) -> None:
        """Kills its process."""
        ray.cancel(self._end, force=True)


def _unreachable(address: str, error: Exception) -> InputError:
    return InputError(
        f"there is no Ray cluster at address {address!r} ({format_error(error)}); required: a "
        "running one; start it with `ray start --head`, and on the other machines `ray "
        "start --address HEAD:6379`, or name another with --set launcher.address=HOST:PORT"
    )


def _may_want_a_token() -> bool:
    """Whether a cluster started on this machine asks for a token, and this process shows none.

    So it is since Ray 2.60 after any ``ray.init()`` that started a Ray of its own here.
    """
    return "RAY_AUTH_MODE" not in os.environ and (Path.home() / ".ray" / "auth_token").exists()


def _require_listener(address: str) -> None:
    """Nothing if somebody listens there; Ray itself would try for ten minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon:
        socket.create_connection((host, int(port)), timeout=_TIMEOUT).close()


def _carry_out(errand: Errand) -> End | None:
    return errand.carry_out()


def _first_line(error: RayError) -> str:
    return str(error).strip().splitlines()[0]


def _failure(error: RayTaskError) -> Failure:
    """Says the last line: the error itself, below the traces of all machines on its way."""
    said = f"on its machine: {str(error).strip().splitlines()[-1]}"
    if "ModuleNotFoundError" not in said:
        return Failure(said)
    remedy = "required: what is installed where the run was started; install the same there"
    return Failure(f"{said}; {remedy}", bad_input=True)

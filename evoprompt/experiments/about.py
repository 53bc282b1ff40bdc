"""Date, machine and version of the start of a run."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from pydantic import BaseModel

from evoprompt.support.validation import read_json

_PATIENCE = 20  # seconds to wait for another program


class About(BaseModel, frozen=True, extra="forbid"):
    """The form of ``about.json``.

    Attributes:
        begun: date and time, UTC.
        version: of evoprompt.
        commit: of the repository in which it was begun, marked if files differ from the commit;
            empty outside of a repository.
        machine: that it was begun on.
    """

    begun: datetime
    version: str
    commit: str
    machine: str

    @classmethod
    def read(cls, file: Path) -> About | None:
        """Return the record in ``file``; None if there is no such file.

        Raises:
            InputError: it is of another form.
        """
        fault = "does not record when and where the run began"
        return read_json(file, cls, fault, "delete it") if file.exists() else None

    @classmethod
    def now(cls) -> About:
        """Return the record of a run that starts now, on this machine."""
        gpus = _output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()
        parts = (f"{platform.system()} {platform.machine()}", f"{os.cpu_count()} CPUs", *gpus)
        return cls(
            begun=datetime.now(UTC).replace(microsecond=0),
            version=version("evoprompt"),
            commit=_output_of("git", "describe", "--always", "--dirty", "--exclude", "*"),
            machine=", ".join(parts),
        )


def _output_of(*command: str) -> str:
    """Return what a program prints; an empty text if it is missing or fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""

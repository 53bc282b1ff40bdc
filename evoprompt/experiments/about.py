"""When, where and by what a run was begun."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from evoprompt.support.validation import read_json

_PATIENCE = 20  # seconds for another program to answer


class About(BaseModel):
    """The form of ``about.json``.

    Attributes:
        begun: date and time, UTC.
        version: of evoprompt.
        commit: of the repository that it was begun in, marked where something was changed since;
            empty outside of one.
        machine: that it was begun on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    begun: datetime
    version: str
    commit: str
    machine: str

    @classmethod
    def read(cls, file: Path) -> About | None:
        """What was written; None where nothing was.

        Raises:
            InputError: it is of another form.
        """
        fault = "does not say when and where the run was begun"
        return read_json(file, cls, fault, "delete it") if file.exists() else None

    @classmethod
    def now(cls) -> About:
        """Of a run that begins here and now."""
        gpus = _said("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()
        parts = (f"{platform.system()} {platform.machine()}", f"{os.cpu_count()} CPUs", *gpus)
        return cls(
            begun=datetime.now(UTC).replace(microsecond=0),
            version=version("evoprompt"),
            commit=_said("git", "describe", "--always", "--dirty", "--exclude", "*"),
            machine=", ".join(parts),
        )


def _said(*command: str) -> str:
    """What a program prints; nothing where it is not there or fails."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_PATIENCE
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""

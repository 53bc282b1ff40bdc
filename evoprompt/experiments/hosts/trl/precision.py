"""In which precision a trial computes: one for good, from its start to its end."""

from __future__ import annotations

import json
from pathlib import Path

from evoprompt_trl.precision import EMULATED, default_device, native_bf16

from evoprompt.agents.tasks import Trial
from evoprompt.errors import StateError
from evoprompt.experiments.hosts.trl.schedule import resumes
from evoprompt.experiments.hosts.trl.settings import TrlSettings
from evoprompt.storage import write_whole

FILE = "precision.json"
"""Beside a trial's checkpoints: in which precision it began."""


def device_of(settings: TrlSettings) -> str:
    """Type of the device that these settings train on."""
    return "cpu" if settings.arguments.get("use_cpu") else default_device()


def computes_in_bf16(settings: TrlSettings, trial: Trial) -> bool:
    """Whether a trial computes in bfloat16, its weights being kept in float32.

    As the settings say. Where they do not, a resumed trial goes on as it began, and a new one does
    so where the device has instructions for it.

    Args:
        settings: of the host.
        trial: perhaps to be resumed.
    """
    given = settings.arguments.get("bf16")
    if given is not None:
        return bool(given)
    if settings.arguments.get("fp16"):
        return False
    begun = _begun(trial)
    return native_bf16(device_of(settings)) if begun is None else begun


def keep(trial: Trial, bf16: bool) -> None:
    """Notes beside the checkpoints of a trial that begins in which precision it does."""
    write_whole(_file(trial), _written(bf16))


def told(settings: TrlSettings, trial: Trial) -> str:
    """The precision of a trial, for people to read, and why."""
    device = device_of(settings)
    bf16 = computes_in_bf16(settings, trial)
    name = "bfloat16" if bf16 else "float16" if settings.arguments.get("fp16") else "float32"
    if name == "float16" or settings.arguments.get("bf16") is not None:
        return f"{name}, as host.arguments says"
    has = "has" if native_bf16(device) else "has no"
    return f"{name}, as this {device.upper()} {has} instructions for bfloat16"


def slow(settings: TrlSettings, trial: Trial) -> str:
    """What to say of settings that ask for bfloat16 where it is emulated; empty if they do not."""
    if native_bf16(device_of(settings)) or not computes_in_bf16(settings, trial):
        return ""
    return (
        f"host.arguments.bf16 is true, but {EMULATED}; leave it out, for bfloat16 just where it is "
        "quick, or set it to false"
    )


def moved(settings: TrlSettings, trial: Trial) -> str:
    """What to say of a trial that is resumed where it would begin otherwise; or empty."""
    begun, here = _begun(trial), native_bf16(device_of(settings))
    if begun is None or begun == here or settings.arguments.get("bf16") is not None:
        return ""
    if begun:
        return f"it began in bfloat16 and goes on so, but {EMULATED}; resume it where it began"
    return "it began in float32 and goes on so, though bfloat16 is native here, and quicker"


def _begun(trial: Trial) -> bool | None:
    """Whether a trial that is resumed began in bfloat16; None where nothing is resumed or known.

    Raises:
        StateError: the file that says so is damaged.
    """
    file = _file(trial)
    if not resumes(trial) or not file.is_file():
        return None
    text = file.read_text(encoding="utf-8", errors="replace")
    if text not in (_written(True), _written(False)):
        raise StateError(
            f"{file} is {text[:40]!r}; required: {_written(True)!r} or {_written(False)!r}, the "
            "precision in which the training began; write it again, or set host.arguments.bf16"
        )
    return text == _written(True)


def _written(bf16: bool) -> str:
    return json.dumps({"bf16": bf16}) + "\n"


def _file(trial: Trial) -> Path:
    return trial.directory / FILE

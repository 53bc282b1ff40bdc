"""In which precision a trial computes: one for good, from its start to its end."""

from __future__ import annotations

import json

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

    Raises:
        StateError: the file that says how the trial began is damaged.
    """
    given = settings.arguments.get("bf16")
    if given is not None:
        return bool(given)
    if settings.arguments.get("fp16"):
        return False
    file = trial.directory / FILE
    if not resumes(trial) or not file.is_file():
        return native_bf16(device_of(settings))
    text = file.read_text(encoding="utf-8", errors="replace")
    try:
        return bool(json.loads(text)["bf16"])
    except (ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"{file} is {text[:40]!r}; required: the precision in which the training began, such "
            'as {"bf16": true}; write it again, or set host.arguments.bf16'
        ) from error


def keep(trial: Trial, bf16: bool) -> None:
    """Notes beside the checkpoints of a trial that begins in which precision it does."""
    write_whole(trial.directory / FILE, json.dumps({"bf16": bf16}) + "\n")


def told(settings: TrlSettings, trial: Trial) -> tuple[str, str]:
    """The precision of a trial, for people to read, and what is wrong with it; or empty."""
    native = native_bf16(device_of(settings))
    bf16 = computes_in_bf16(settings, trial)
    name = "bfloat16" if bf16 else "float16" if settings.arguments.get("fp16") else "float32"
    if name == "float16" or settings.arguments.get("bf16") is not None:
        why = "as host.arguments says"
    else:
        why = f"as the device has {'' if native else 'no '}instructions for bfloat16"
    slow = "" if native or not bf16 else f"it computes in bfloat16, but {EMULATED}; set bf16: false"
    return f"{name}, {why}", slow

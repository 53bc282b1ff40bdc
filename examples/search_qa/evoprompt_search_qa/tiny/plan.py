"""What training ``search-qa`` under TRL will do and need, told before anything is loaded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from evoprompt.requirements import gpus
from evoprompt.tasks import Need, Plan, Trial
from evoprompt_search_qa import protocol
from evoprompt_search_qa.tiny.task import SearchQa


def plan(task: SearchQa, given: Mapping[str, JsonValue], trial: Trial) -> Plan:
    """What ``trial`` would do and need.

    Raises:
        InputError: the host settings are wrong.
    """
    from evoprompt_search_qa.tiny.trl import validated

    settings = validated(given)
    rollouts = settings.questions_per_step * settings.rollouts_per_question
    tokens = rollouts * protocol.TINY_LIMITS.response_tokens
    figures = (
        (
            "a step",
            f"{settings.questions_per_step} questions x {settings.rollouts_per_question} = "
            f"{rollouts:,} rollouts, at most {tokens:,} tokens of response",
        ),
        ("steps", f"at most {math.ceil(trial.budget / rollouts):,}, without verification"),
    )
    found = [_policy(trial.policy or task.settings.policy, task.settings.scale)]
    if settings.device == "cuda":
        found.append(gpus(1, None))
    return Plan(figures, tuple(found), rollouts_per_step=rollouts)


def _policy(folder: Path, scale: int) -> Need:
    if (folder / "model.safetensors").is_file():
        return Need("policy", f"{folder} is here")
    size = "" if scale == 1 else " --size small --device cuda"
    return Need(
        "policy",
        f"{folder} holds no model.safetensors",
        f"evoprompt search-qa pretrain --output {folder}{size}",
    )

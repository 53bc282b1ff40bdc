"""Names of a task's agent loop and of its task in an agent loop file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from evoprompt.support.errors import InputError

if TYPE_CHECKING:
    from omegaconf import DictConfig

TASK_LOOP = f"{__package__}.loop.TaskLoop"
"""The agent loop that plays a task; veRL's workers import it by this name."""


def section_text(task: Mapping[str, Any] | str) -> str:
    r"""Return the section of a task as JSON text, in which nothing looks like an interpolation.

    Args:
        task: the section, its JSON text, or just the name.

    >>> print(section_text('{"name": "costs", "unit": "${"}'))
    {"name": "costs", "unit": "\u0024{"}
    """
    if isinstance(task, str) and not task.startswith("{"):
        task = {"name": task}
    if not isinstance(task, str):
        from omegaconf import OmegaConf

        plain = OmegaConf.to_container(task, resolve=True) if OmegaConf.is_config(task) else task
        task = json.dumps(plain, sort_keys=True)
    return task.replace("$", "\\u0024")


def task_of(config: DictConfig, section: Mapping[str, Any] | str | None) -> str:
    """Return the section of the task that an agent loop plays, as JSON text.

    Args:
        config: of the run.
        section: of the agent loop file; by default the task in the section ``evoprompt``.

    Raises:
        InputError: neither names a task.
    """
    from omegaconf import OmegaConf

    task = OmegaConf.select(config, "evoprompt.task") if section is None else section
    if task is None:
        raise InputError(
            f"the agent loop {TASK_LOOP} was given no task; required: one to play; name it in the "
            "agent loop file, or give evoprompt.task=NAME"
        )
    return section_text(task)

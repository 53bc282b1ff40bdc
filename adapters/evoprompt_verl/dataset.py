"""What the adapter reads of a veRL dataset and of the tools around it."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from omegaconf import DictConfig, OmegaConf

from evoprompt.agents import Tools
from evoprompt.agents.tasks import Task
from evoprompt.errors import InputError
from evoprompt.plugins import build
from evoprompt.text import words_of

TASK_LOOP = "evoprompt.experiments.hosts.verl.loop.TaskLoop"
"""The agent loop that plays a task of ours, as an agent loop file names it."""


def prompts_of(dataset: object) -> list[Sequence[Mapping[str, Any]]]:
    """The prompts of a veRL dataset, without instructions; empty if it keeps them elsewhere."""
    frame = getattr(dataset, "dataframe", None)
    key = getattr(dataset, "prompt_key", None)
    if frame is None or key is None:
        return []
    return list(frame[key])


def tools_of(config: DictConfig) -> list[dict[str, Any]]:
    """Schemas of the tools that the agent loops put into every prompt."""
    return [*_tools_of_verl(config), *_tools_of_task(config)]


def reward_of(config: DictConfig) -> str:
    """The reward function of a run in its own words, read and not run; empty for veRL's own."""
    given = OmegaConf.select(config, "reward.custom_reward_function")
    if not given or not given.get("path"):
        return ""
    name, said = str(given.get("name") or "compute_score"), ""
    try:
        tree = ast.parse(Path(given.path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):  # veRL will say what is wrong with it
        tree = ast.Module([], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            said = ast.get_docstring(node) or ""
    return words_of(SimpleNamespace(__name__=name, __doc__=said))


def schemas(task: Task, max_calls: int | None = None) -> list[dict[str, Any]]:
    """What the chat template shows of a task's tools.

    Args:
        task: whose.
        max_calls: of a training; none are shown where it is 0.
    """
    return [] if max_calls == 0 or not task.tools else Tools(task.tools).schemas


def section_text(task: Mapping[str, Any] | str) -> str:
    r"""The section that names a task as JSON text, in which nothing looks like an interpolation.

    Args:
        task: the section, its JSON text, or just the name.

    >>> print(section_text({"name": "costs", "unit": "${"}))
    {"name": "costs", "unit": "\u0024{"}
    """
    if isinstance(task, str) and not task.startswith("{"):
        task = {"name": task}
    if isinstance(task, DictConfig):
        task = json.dumps(OmegaConf.to_container(task, resolve=True), sort_keys=True)
    elif not isinstance(task, str):
        task = json.dumps(dict(task), sort_keys=True)
    return task.replace("$", "\\u0024")


def task_of(config: DictConfig, given: Mapping[str, Any] | str | None) -> str:
    """The section of the task that an agent loop plays, as JSON text.

    Args:
        config: of the run.
        given: what the agent loop file says; by default the task in the section ``evoprompt``.

    Raises:
        InputError: neither names one.
    """
    found = OmegaConf.select(config, "evoprompt.task") if given is None else given
    if found is None:
        raise InputError(
            f"the agent loop {TASK_LOOP} was given no task; required: one to play; name it in the "
            "agent loop file, or give evoprompt.task=NAME"
        )
    return section_text(found)


def _tools_of_task(config: DictConfig) -> list[dict[str, Any]]:
    """Those of the task whose own agent loop plays the episodes, if one does."""
    agent = config.actor_rollout_ref.rollout.get("agent") or {}
    path = agent.get("agent_loop_config_path")
    if not path:
        return []
    from verl.experimental.agent_loop.utils import resolve_config_path

    loops: Any = OmegaConf.load(resolve_config_path(path))
    for loop in loops:
        if loop.get("_target_") == TASK_LOOP:
            task: Task = build("task", json.loads(task_of(config, loop.get("task"))))
            return schemas(task, loop.get("max_calls"))
    return []


def _tools_of_verl(config: DictConfig) -> list[dict[str, Any]]:
    """Those that veRL's own agent loops load from files."""
    settings = config.actor_rollout_ref.rollout.get("multi_turn") or {}
    paths = {
        name: settings.get(name)
        for name in ("tool_config_path", "function_tool_path")
        if settings.get(name)
    }
    if not paths:
        return []
    # Where veRL 0.9.0 has it, and later ones still offer it.
    from verl.experimental.agent_loop.utils import resolve_config_path
    from verl.tools.tool_registry import load_all_tools

    tools = load_all_tools(
        tool_config_path=_resolved(paths.get("tool_config_path"), resolve_config_path),
        function_tool_path=_resolved(paths.get("function_tool_path"), resolve_config_path),
    )
    return [tool.tool_schema.model_dump(exclude_unset=True, exclude_none=True) for tool in tools]


def _resolved(path: str | None, resolve: Any) -> str | None:
    return resolve(path) if path else None

"""Rows of a veRL dataset and schemas of the tools beside it, as the adapter reads them."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf

from evoprompt.support.calls import PLUGIN_GROUP
from evoprompt.support.text import words_of


def prompts_of(dataset: object) -> list[Sequence[Mapping[str, Any]]]:
    """Return the prompts of a veRL dataset, without instructions; empty if it has none."""
    frame = getattr(dataset, "dataframe", None)
    key = getattr(dataset, "prompt_key", None)
    if frame is None or key is None:
        return []
    return list(frame[key])


def tools_of(config: DictConfig) -> list[dict[str, Any]]:
    """Return the schemas of the tools that the agent loops put into every prompt."""
    return [*_tools_of_verl(config), *_tools_of_plugins(config)]


def reward_of(config: DictConfig) -> str:
    """Return the description of a run's reward function, without running it."""
    function_config = OmegaConf.select(config, "reward.custom_reward_function")
    if not function_config or not function_config.get("path"):
        return ""
    name, docstring = str(function_config.get("name") or "compute_score"), ""
    try:
        tree = ast.parse(Path(function_config.path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):  # veRL will report the fault
        tree = ast.Module([], [])
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            docstring = ast.get_docstring(node) or ""
    return words_of(SimpleNamespace(__name__=name, __doc__=docstring))


def _tools_of_plugins(config: DictConfig) -> list[dict[str, Any]]:
    """Return the tools of a plugin's agent loop, from its ``template_tools``.

    Only modules of distributions with a plugin of evoprompt are imported.
    """
    agent = config.actor_rollout_ref.rollout.get("agent") or {}
    path = agent.get("agent_loop_config_path")
    if not path:
        return []
    from verl.experimental.agent_loop.utils import resolve_config_path

    packages = {
        entry_point.module.partition(".")[0] for entry_point in entry_points(group=PLUGIN_GROUP)
    }
    loops: Any = OmegaConf.load(resolve_config_path(path))
    for loop in loops:
        target = str(loop.get("_target_"))
        if target.partition(".")[0] in packages:
            list_tools = getattr(get_class(target), "template_tools", None)
            if list_tools is not None:
                return list(list_tools(config, loop))
    return []


def _tools_of_verl(config: DictConfig) -> list[dict[str, Any]]:
    """Those that veRL's own agent loops load from files."""
    settings = config.actor_rollout_ref.rollout.get("multi_turn") or {}
    paths = [settings.get(name) for name in ("tool_config_path", "function_tool_path")]
    if not any(paths):
        return []
    # Where veRL 0.9.0 has it, and later ones still offer it.
    from verl.experimental.agent_loop.utils import resolve_config_path
    from verl.tools.tool_registry import load_all_tools

    tools = load_all_tools(*(resolve_config_path(path) if path else None for path in paths))
    return [tool.tool_schema.model_dump(exclude_unset=True, exclude_none=True) for tool in tools]

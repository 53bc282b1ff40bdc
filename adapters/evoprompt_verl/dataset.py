"""What the adapter reads of a veRL dataset and of the tools around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import DictConfig


def prompts_of(dataset: object) -> list[Sequence[Mapping[str, Any]]]:
    """The prompts of a veRL dataset, without instructions; empty if it keeps them elsewhere."""
    frame = getattr(dataset, "dataframe", None)
    key = getattr(dataset, "prompt_key", None)
    if frame is None or key is None:
        return []
    return list(frame[key])


def tools_of(config: DictConfig) -> list[dict[str, Any]]:
    """Schemas of the tools that the agent loops put into every prompt."""
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

"""What the adapter reads of datasets and tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from evoprompt_verl.dataset import prompts_of, reward_of, tools_of
from omegaconf import DictConfig

TOOL = '''
from verl.tools.function_tool import function_tool


@function_tool("ask_test")
def ask(query: str) -> str:
    """Asks.

    Args:
        query: what.
    """
    return query
'''


def test_prompts_come_from_the_datasets_own_column() -> None:
    prompts = [[{"role": "user", "content": "why"}]]
    dataset = SimpleNamespace(dataframe={"problem": prompts}, prompt_key="problem")
    assert prompts_of(dataset) == prompts
    assert prompts_of(object()) == []


def test_tools_are_those_the_agent_loops_load(
    compose: Callable[..., DictConfig], tmp_path: Path
) -> None:
    path = tmp_path / "tool.py"
    path.write_text(TOOL)
    assert tools_of(compose()) == []
    config = compose(f"actor_rollout_ref.rollout.multi_turn.function_tool_path={path}")
    (schema,) = tools_of(config)
    assert schema["function"]["name"] == "ask_test"


def test_agent_loops_of_others_are_not_imported(
    compose: Callable[..., DictConfig], tmp_path: Path
) -> None:
    path = tmp_path / "loops.yaml"
    path.write_text("[{name: own, _target_: not_on_this_machine.Loop}]")
    named = f"+actor_rollout_ref.rollout.agent.agent_loop_config_path={path}"
    assert tools_of(compose(named)) == []


REWARD = '''def reward(data):
    """1 for the sum.

    Args:
        data: rows.
    """


raise SystemExit("it was run")
'''


@pytest.mark.parametrize(
    ("source", "said"), [(REWARD, "`reward`: 1 for the sum."), ("def reward(", "`reward`")]
)
def test_the_reward_function_is_read_and_not_run(tmp_path: Path, source: str, said: str) -> None:
    path = tmp_path / "reward.py"
    path.write_text(source, encoding="utf-8")
    given = {"path": str(path), "name": "reward"}
    assert reward_of(DictConfig({"reward": {"custom_reward_function": given}})) == said
    assert reward_of(DictConfig({})) == "", "the host's own scores"

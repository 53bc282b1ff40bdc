"""What the adapter reads of datasets and tools."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from evoprompt_verl.dataset import reward_of, tools_of
from omegaconf import DictConfig


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

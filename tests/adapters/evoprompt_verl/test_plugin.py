"""The adapter recognises veRL's trainers without importing veRL."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import pytest
from omegaconf import DictConfig

import evoprompt
from evoprompt.support.errors import AttachError

Changed = Callable[[Mapping[str, object]], DictConfig]


def engine() -> evoprompt.Engine:
    return evoprompt.Engine(["a"])


class Buffer:
    """Has what it needs of the buffer."""

    def sample(self, global_steps: object, partition_id: object, batch_size: object) -> None: ...


class PPOTrainer:
    """Has what the adapter needs of a V1 trainer."""

    def __init__(self, config: DictConfig) -> None:
        self.config = config
        self.replay_buffer: Any = Buffer()

    def fit(self, agent_loop_manager: object) -> None: ...

    def _load_checkpoint(self) -> None: ...

    def _save_checkpoint(self) -> None: ...

    def _validate(self) -> dict[str, float]:
        return {}

    def _compute_reward_colocate(self, batch: object, metrics: object = None) -> None: ...


class RayPPOTrainer:
    """veRL's legacy trainer."""


@pytest.fixture(autouse=True)
def _loaded_verl(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, found in (
        ("verl.trainer.ppo.v1.trainer_base", PPOTrainer),
        ("verl.trainer.ppo.ray_trainer", RayPPOTrainer),
    ):
        module = ModuleType(name)
        setattr(module, found.__name__, found)
        monkeypatch.setitem(sys.modules, name, module)


GREEDY = {"actor_rollout_ref.rollout.val_kwargs.temperature": 0}


def test_what_could_not_work_is_refused_with_the_remedy(changed: Changed) -> None:
    with pytest.raises(AttachError, match=r"set trainer\.use_v1=True"):
        evoprompt.attach(RayPPOTrainer(), engine())
    with pytest.raises(AttachError, match=r"val_kwargs\.temperature"):
        evoprompt.attach(PPOTrainer(changed(GREEDY)), engine())

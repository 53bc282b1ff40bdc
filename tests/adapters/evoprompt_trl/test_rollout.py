from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from evoprompt_trl.host import Batch, HostTrainer, Row
from evoprompt_trl.rollout import Roller


def roller(rewards: list[float], masks: dict[str, torch.Tensor] | None = None) -> Roller:
    """A roller over a trainer whose rows end as listed; every completion is tokens 1 and 2."""
    decoded: list[list[int]] = []

    def batch_decode(spans: list[list[int]], *, skip_special_tokens: bool) -> list[str]:
        decoded.extend(spans)
        return ["".join(map(str, span)) for span in spans]

    def generate(rows: list[Row]) -> Batch:
        found.observe(torch.tensor(rewards).unsqueeze(1), [[1, 2] for _ in rows])
        return masks or {}

    trainer = SimpleNamespace(
        accelerator=SimpleNamespace(process_index=0, num_processes=1),
        processing_class=SimpleNamespace(batch_decode=batch_decode),
        reward_weights=torch.ones(1),
        reward_func_names=["f"],
    )
    found = Roller(cast(HostTrainer, trainer), generate, failure_below=0.5)
    return found


def rows(count: int) -> list[Row]:
    return [{} for _ in range(count)]


def test_only_failures_are_read() -> None:
    rewards = [0.0, 1.0, float("nan"), 0.4]
    _, outcomes = roller(rewards).roll(rows(4))
    assert [bool(outcome.turns) for outcome in outcomes] == [True, False, False, True]
    assert [outcome.reward for outcome in outcomes] == [0.0, 1.0, None, pytest.approx(0.4)]


def test_failures_beyond_the_limit_are_read_evenly() -> None:
    _, outcomes = roller([0.0] * 1000).roll(rows(1000))
    read = [index for index, outcome in enumerate(outcomes) if outcome.turns]
    assert 100 <= len(read) <= 128
    assert {later - earlier for earlier, later in pairwise(read)} == {8}


def test_a_truncated_row_whose_mask_was_wiped_is_the_policys() -> None:
    masks = {
        "tool_mask": torch.tensor([[1, 0], [0, 0]]),
        "completion_mask": torch.tensor([[1, 1], [0, 0]]),
    }
    _, outcomes = roller([0.0, 0.0], masks).roll(rows(2))
    assert [outcome.metrics.get("tool_calls") for outcome in outcomes] == [1, None]
    assert [outcome.metrics["response_tokens"] for outcome in outcomes] == [1, 2]


def test_a_trainer_that_scores_nothing_is_an_error() -> None:
    def silent(_: list[Row]) -> dict[str, Any]:
        return {}

    lonely = Roller(cast(HostTrainer, SimpleNamespace()), silent, 0.5)
    with pytest.raises(RuntimeError, match="without _calculate_rewards"):
        lonely.roll(rows(2))

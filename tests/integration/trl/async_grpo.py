"""A real AsyncGRPOTrainer on a CPU, whose rollouts are conversations through the gateway.

Run by the session newest_trl: the pinned TRL has another trainer of this name.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_trl
import torch
from async_grpo_kills import GROUPS, ROLLOUTS, SEEDS, STEPS, Policy, trained
from kill_contract import KillContract


def test_a_policy_and_its_instruction_are_trained_through_the_gateway(tmp_path: Path) -> None:
    policy = Policy()
    found = trained(tmp_path, policy.url, policy)
    before = tiny_trl.model().state_dict()
    assert found["step"] == STEPS
    assert found["sent"] > STEPS // 2
    assert any(
        not torch.equal(before[name], one) for name, one in policy.model.state_dict().items()
    )
    told = [event for event in found["events"] if event["event"] == "told"]
    assert len(told) == STEPS + 1  # the trainer takes one more than it needs
    assert all((one["unscored"], one["trajectories"]) == (0, ROLLOUTS * GROUPS) for one in told)
    asked = {
        one for event in found["events"] if event["event"] == "asked" for one in event["draws"]
    }
    assert set(policy.systems) > {*SEEDS}  # and those that were proposed
    assert len(set(policy.systems)) == len(asked)
    # The trainer scored the prompts that the policy was given, instruction included: before the
    # first update both are the same policy.
    assert found["first"]["ratio"] == pytest.approx(1.0, abs=1e-4)
    assert found["first"]["kl"] == pytest.approx(0.0, abs=1e-4)
    assert "evoprompt/best_weight" in found["first"]


class TestAsyncGRPO(KillContract):
    """Trainer, gateway, engine and worker are one process here, and die together."""

    module = "async_grpo_kills"
    first = {"steps": 2}  # noqa: RUF012

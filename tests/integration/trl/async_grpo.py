"""A real AsyncGRPOTrainer on a CPU, whose rollouts are conversations through the gateway.

Run by the session newest_trl: the pinned TRL has another trainer of this name.
"""

from __future__ import annotations

import queue
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_trl
import torch
import trl
from async_grpo_kills import GROUPS, ROLLOUTS, SEEDS, STEPS, Policy, trained
from evoprompt_trl.async_grpo import load_async_grpo
from kill_contract import KillContract

import evoprompt
from evoprompt.support.errors import AttachError


def test_a_policy_and_its_instruction_are_trained_through_the_gateway(tmp_path: Path) -> None:
    policy = Policy()
    found = trained(tmp_path, policy.url, policy)
    before = tiny_trl.model().state_dict()
    assert found["step"] == STEPS
    assert found["sent"] > STEPS // 2
    assert any(
        not torch.equal(before[name], one) for name, one in policy.model.state_dict().items()
    )
    told = [event for event in found["events"] if event["event"] == "step_completed"]
    assert len(told) == STEPS + 1  # the trainer takes one more than it needs
    assert all((one["unscored"], one["trajectories"]) == (0, ROLLOUTS * GROUPS) for one in told)
    asked = {
        one
        for event in found["events"]
        if event["event"] == "questions_assigned"
        for one in event["draws"]
    }
    assert set(policy.systems) > {*SEEDS}  # and those that were proposed
    assert len(set(policy.systems)) == len(asked)
    # The trainer scored the prompts that the policy was given, instruction included: before the
    # first update both are the same policy.
    assert found["first"]["ratio"] == pytest.approx(1.0, abs=1e-4)
    assert found["first"]["kl"] == pytest.approx(0.0, abs=1e-4)
    assert "evoprompt/best_weight" in found["first"]


def test_a_trainer_without_arguments_for_a_worker_trains_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Train as TRL 1.18 would, whose constructor builds worker and weight transfer by itself."""
    policy = Policy()
    with_arguments = trained(tmp_path / "arguments", policy.url, policy)
    experimental = load_async_grpo()
    trainer_module = sys.modules[experimental.trainer.__module__]

    class StableTrainer(experimental.trainer):  # type: ignore[name-defined, misc]
        """The trainer of TRL 1.16 without its two arguments, exported where TRL 1.18 has it."""

        def __init__(
            self, model: str, args: Any, train_dataset: Any, processing_class: Any
        ) -> None:
            super().__init__(
                model=model,
                args=args,
                train_dataset=train_dataset,
                processing_class=processing_class,
            )

    StableTrainer.__module__ = trainer_module.__name__

    class OwnWorker:
        """Stand for the worker that the constructor builds, which requires vLLM."""

        def __init__(self, **arguments: Any) -> None:
            self.rollout_buffer: queue.Queue[Any] = queue.Queue()

    monkeypatch.setattr(trainer_module, "AsyncRolloutWorker", OwnWorker)
    monkeypatch.setattr(trainer_module, "WeightTransferClient", lambda **_: None)
    monkeypatch.setattr(trl, "AsyncGRPOTrainer", StableTrainer, raising=False)
    monkeypatch.setattr(trl, "AsyncGRPOConfig", experimental.config, raising=False)
    assert load_async_grpo().trainer is StableTrainer
    policy = Policy()
    replaced = trained(tmp_path / "replaced", policy.url, policy)
    assert replaced["step"] == STEPS
    assert replaced["sent"] == with_arguments["sent"]
    assert replaced["losses"] == with_arguments["losses"]
    assert replaced["weights"] == with_arguments["weights"]


def test_to_attach_to_the_real_trainer_is_refused_in_favour_of_the_gateway() -> None:
    trainer_class = load_async_grpo().trainer
    for trainer in (trainer_class, object.__new__(trainer_class)):
        with pytest.raises(AttachError, match=r"evoprompt\.Gateway .*docs/gateway\.md"):
            evoprompt.attach(trainer, evoprompt.Engine(["be brief"]))


class TestAsyncGRPO(KillContract):
    """Trainer, gateway, engine and worker are one process here, and die together."""

    module = "async_grpo_kills"
    first = {"steps": 2}  # noqa: RUF012

"""Both ways in which releases of TRL take a rollout worker, with trainers that only keep it.

Real trainings both ways are in tests/integration/trl/async_grpo.py, which the newest TRL runs.
"""

from __future__ import annotations

import queue
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from evoprompt_trl.async_grpo import build_async_trainer, load_async_grpo

from evoprompt.support.errors import AttachError

EXPERIMENTAL = "trl.experimental.async_grpo"


class ExperimentalTrainer:
    """Takes both as arguments, as TRL 1.16 does."""

    def __init__(self, model: str, rollout_worker: Any = None, weight_transfer: Any = None) -> None:
        self.model = model
        self.rollout_worker = rollout_worker
        self.weight_transfer = weight_transfer
        self.rollout_queue = rollout_worker.rollout_buffer


class StableTrainer:
    """Builds both by itself, as TRL 1.18 does by its release notes."""

    is_main_process = True

    def __init__(self, model: str) -> None:
        self.model = model
        self.accelerator = SimpleNamespace(is_main_process=self.is_main_process)
        self.rollout_worker = self.rollout_queue = self.weight_transfer = (
            "its own" if self.is_main_process else None
        )


class WorkerProcessTrainer(StableTrainer):
    """Process that is not the main one, which has no worker."""

    is_main_process = False


class ChangedTrainer(StableTrainer):
    """Keeps its worker in another attribute."""

    def __init__(self, model: str) -> None:
        super().__init__(model)
        del self.rollout_worker


@pytest.fixture
def trl(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A TRL without an asynchronous trainer; the trainers of this file have their samples here."""
    module = ModuleType("trl")
    vars(module)["__version__"] = "1.18.0"
    monkeypatch.setitem(sys.modules, "trl", module)
    monkeypatch.setitem(sys.modules, EXPERIMENTAL, None)  # its import fails
    monkeypatch.setattr(sys.modules[__name__], "RolloutSample", "sample", raising=False)
    return module


def install(module: ModuleType, trainer: type) -> None:
    """Export ``trainer`` and its configuration from ``module``."""
    vars(module).update(AsyncGRPOTrainer=trainer, AsyncGRPOConfig="config")


def worker() -> Any:
    return SimpleNamespace(rollout_buffer=queue.Queue())


def test_a_worker_is_an_argument_where_the_trainer_has_it(
    trl: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    experimental = ModuleType(EXPERIMENTAL)
    monkeypatch.setitem(sys.modules, EXPERIMENTAL, experimental)
    install(experimental, ExperimentalTrainer)
    assert load_async_grpo() == (ExperimentalTrainer, "config", "sample")
    own_worker = worker()
    trainer = build_async_trainer(own_worker, "transfer", model="m")
    assert (trainer.model, trainer.rollout_worker, trainer.weight_transfer) == (
        *("m", own_worker),
        "transfer",
    )


def test_a_worker_replaces_that_of_a_trainer_without_the_argument(trl: ModuleType) -> None:
    install(trl, StableTrainer)
    own_worker = worker()
    trainer = build_async_trainer(own_worker, "transfer", model="m")
    assert trainer.model == "m"
    assert trainer.rollout_worker is own_worker
    assert trainer.rollout_queue is own_worker.rollout_buffer
    assert trainer.weight_transfer == "transfer"
    assert build_async_trainer(own_worker, model="m").weight_transfer == "its own"


def test_the_stable_trainer_comes_before_the_experimental_one(
    trl: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    experimental = ModuleType(EXPERIMENTAL)
    monkeypatch.setitem(sys.modules, EXPERIMENTAL, experimental)
    install(experimental, ExperimentalTrainer)
    install(trl, StableTrainer)
    assert load_async_grpo().trainer is StableTrainer


def test_other_processes_than_the_main_one_have_no_worker(trl: ModuleType) -> None:
    install(trl, WorkerProcessTrainer)
    trainer = build_async_trainer(worker(), "transfer", model="m")
    assert trainer.rollout_worker is trainer.rollout_queue is trainer.weight_transfer is None


def test_a_trainer_with_no_place_for_a_worker_is_refused(trl: ModuleType) -> None:
    install(trl, ChangedTrainer)
    with pytest.raises(
        AttachError,
        match=r"takes no rollout_worker and has no rollout_worker; required: .*trl==1\.16\.0",
    ):
        build_async_trainer(worker(), model="m")


def test_a_trl_without_the_trainer_or_its_samples_is_refused(
    trl: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AttachError, match=r"trl 1\.18\.0 has no AsyncGRPOTrainer; required"):
        load_async_grpo()
    install(trl, StableTrainer)
    monkeypatch.delattr(sys.modules[__name__], "RolloutSample")
    with pytest.raises(AttachError, match="has no RolloutSample; required: the class"):
        load_async_grpo()

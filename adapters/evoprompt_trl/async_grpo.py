"""Builds TRL's ``AsyncGRPOTrainer`` around a rollout worker, under all releases that have it.

The worker has its conversations through :class:`evoprompt.Gateway` (docs/gateway.md). TRL up to
1.17 takes the worker as an argument of its constructor. From 1.18 on the trainer builds a worker of
its own, which is replaced here before the training. TRL 1.16 was run; of 1.18 only the release
notes were read, so what is missing there is named instead of guessed.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from typing import Any, NamedTuple

from evoprompt.support.errors import AttachError

_HOMES = ("trl", "trl.experimental.async_grpo")
"""Modules that export the trainer, the stable one (TRL 1.18) first."""

_REMEDY = 'use the TRL that was run, pip install "trl==1.16.0", or report it'


class AsyncGRPO(NamedTuple):
    """Classes of TRL for asynchronous training.

    Attributes:
        trainer: ``AsyncGRPOTrainer``.
        config: ``AsyncGRPOConfig``.
        sample: ``RolloutSample``, which a worker puts into its ``rollout_buffer``.
    """

    trainer: Any
    config: Any
    sample: Any


def load_async_grpo() -> AsyncGRPO:
    """Return the classes of the installed TRL.

    Raises:
        AttachError: TRL has no ``AsyncGRPOTrainer``, or another one.
    """
    for name in _HOMES:
        try:
            home = import_module(name)
        except ModuleNotFoundError:
            continue
        trainer = getattr(home, "AsyncGRPOTrainer", None)
        if trainer is None:
            continue
        sample = getattr(sys.modules[trainer.__module__], "RolloutSample", None)
        if sample is None:
            raise AttachError(
                f"{trainer.__module__} has no RolloutSample; required: the class of the samples "
                f"that a rollout worker passes on; {_REMEDY}"
            )
        return AsyncGRPO(trainer, home.AsyncGRPOConfig, sample)
    version = getattr(sys.modules.get("trl"), "__version__", "which is not installed")
    raise AttachError(
        f"trl {version} has no AsyncGRPOTrainer; required: one that has it; {_REMEDY}"
    )


def build_async_trainer(rollout_worker: Any, weight_transfer: Any = None, **arguments: Any) -> Any:
    """Return an ``AsyncGRPOTrainer`` that trains on the samples of ``rollout_worker``.

    Args:
        rollout_worker: what TRL 1.16 calls a ``RolloutWorkerProtocol``.
        weight_transfer: what TRL 1.16 calls a ``WeightTransferProtocol``; None keeps the trainer's,
            which sends the weights to a vLLM server.
        arguments: other arguments of the trainer.

    Raises:
        AttachError: TRL takes no worker, neither as an argument nor in the place of its own.
    """
    trainer_class = load_async_grpo().trainer
    parameters = inspect.signature(trainer_class.__init__).parameters
    if "rollout_worker" in parameters:
        return trainer_class(
            rollout_worker=rollout_worker, weight_transfer=weight_transfer, **arguments
        )
    trainer = trainer_class(**arguments)
    replacements = {
        "rollout_worker": rollout_worker,
        "rollout_queue": rollout_worker.rollout_buffer,
    }
    if weight_transfer is not None:
        replacements["weight_transfer"] = weight_transfer
    missing = [name for name in replacements if not hasattr(trainer, name)]
    if missing:
        raise AttachError(
            f"{trainer_class.__name__} takes no rollout_worker and has no {', '.join(missing)}; "
            f"required: a place for a rollout worker that asks through the gateway; {_REMEDY}"
        )
    if trainer.accelerator.is_main_process:  # the others have neither worker nor queue
        for name, replacement in replacements.items():
            setattr(trainer, name, replacement)
    return trainer

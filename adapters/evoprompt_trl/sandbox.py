"""Generation that leaves no trace in the trainer."""

from __future__ import annotations

import copy
import inspect
import random
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from evoprompt_trl.host import BUFFERS, LOADED_STEP, TrlTrainer

_SETTINGS: dict[str, Any] = {
    # Every prompt is sampled once.
    "num_generations_eval": 1,
    # Neither the reference model nor the sampler's probabilities matter to a reward.
    "beta": 0.0,
    "vllm_importance_sampling_correction": False,
}


@contextmanager
def sandbox(trainer: TrlTrainer) -> Iterator[None]:
    """Let the trainer generate as in evaluation; restore its state afterwards.

    No model computes log-probabilities, which no reward reads and which would take the memory of
    the logits of a whole batch. Which weights vLLM holds stays true after the sandbox as well.

    Restores the trainer's attributes, metrics, completion logs, token count, reporters, the mode
    of every module and the generators of Python, NumPy and torch, on the trainer's device too
    (except Apple's MPS, whose generator torch cannot fork).
    """
    attributes = dict(vars(trainer))
    training = [module for module in trainer.model.modules() if module.training]
    reporters, tokens = trainer.args.report_to, trainer.state.num_input_tokens_seen
    python_state, numpy_state = random.getstate(), np.random.get_state()
    for name in BUFFERS:
        if name in attributes:
            setattr(trainer, name, _copied(attributes[name]))
    for name, value in _SETTINGS.items():
        if name in attributes:
            setattr(trainer, name, value)
    vars(trainer)["_get_per_token_logps_and_entropies"] = _no_logps(
        trainer._get_per_token_logps_and_entropies
    )
    # TRL times its functions and sends the times straight to wandb, MLflow and trackio.
    trainer.args.report_to = []
    trainer.model.eval()  # type: ignore[no-untyped-call]
    try:
        with _forked_torch(trainer.accelerator.device):
            yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        trainer.args.report_to, trainer.state.num_input_tokens_seen = reporters, tokens
        trainer.model.eval()  # type: ignore[no-untyped-call]
        for module in training:
            module.training = True
        for name in vars(trainer).keys() - attributes.keys():
            delattr(trainer, name)
        for name, value in attributes.items():
            if name != LOADED_STEP:
                setattr(trainer, name, value)


@contextmanager
def _forked_torch(device: torch.device) -> Iterator[None]:
    if device.type in ("cpu", "mps"):
        with torch.random.fork_rng(devices=[]):
            yield
    else:
        module = torch.get_device_module(device)
        index = module.current_device() if device.index is None else device.index
        with torch.random.fork_rng(devices=[index], device_type=device.type):
            yield


def _no_logps(original: Callable[..., Any]) -> Callable[..., tuple[torch.Tensor | None, ...]]:
    """Replace ``original``: return zeros, in as many values as this version of TRL unpacks."""
    num_other_values = 2 if "compute_aux_loss" in inspect.signature(original).parameters else 1

    def zeros(
        model: object,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        logits_to_keep: int,
        *_settings: object,
        **_inputs: object,
    ) -> tuple[torch.Tensor | None, ...]:
        logps = torch.zeros(len(input_ids), logits_to_keep, device=input_ids.device)
        return (logps, *[None] * num_other_values)

    return zeros


def _copied(value: Any) -> Any:
    """Return shallow copies of the containers, since logged images may be large."""
    if isinstance(value, dict):
        copied = copy.copy(value)
        copied.update({key: _copied(inner) for key, inner in value.items()})
        return copied
    if isinstance(value, list | deque):
        return copy.copy(value)
    return value

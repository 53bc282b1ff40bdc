"""The command line with which a package makes the policy it ships."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast

from evoprompt_tiny.pretrain import Draw, Pretraining, pretrain, save


def command(
    tokenizer: PreTrainedTokenizerFast,
    demonstrations: Callable[[PreTrainedTokenizerFast], Draw],
    output: Path,
    settings: Pretraining | None = None,
) -> None:
    """Trains a policy on one core, telling of its loss, and writes its folder.

    Args:
        tokenizer: of the policy.
        demonstrations: makes what draws them.
        output: folder to write, unless the command line names another.
        settings: of the policy, the usual ones if not given.
    """
    settings = settings or Pretraining()
    parser = argparse.ArgumentParser(description="Train a tiny policy from nothing.")
    parser.add_argument("--output", type=Path, default=output, help="folder to write")
    parser.add_argument("--steps", type=int, default=settings.steps, help="optimizer steps")
    given = parser.parse_args()
    torch.set_num_threads(1)
    settings = replace(settings, steps=given.steps)
    losses: list[float] = []

    def on_step(step: int, loss: float) -> None:
        losses.append(loss)
        if step % 100 == 0:
            mean = sum(losses[-100:]) / 100
            print(f"step {step} of {settings.steps}, loss {mean:.3f}", flush=True)

    policy, found = pretrain(settings, tokenizer, demonstrations(tokenizer), on_step)
    save(given.output, settings, policy, tokenizer, found)
    print(f"wrote {given.output}")

"""Command line with which a package makes its shipped policy."""

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
    """Train a policy on one core, print its loss, and write its folder.

    Args:
        tokenizer: of the policy.
        demonstrations: returns the function that draws them.
        output: folder to write, unless the command line names another.
        settings: of the policy, the usual ones if not given.
    """
    settings = settings or Pretraining()
    parser = argparse.ArgumentParser(description="Train a tiny policy from nothing.")
    parser.add_argument("--output", type=Path, default=output, help="folder to write")
    parser.add_argument("--steps", type=int, default=settings.steps, help="optimizer steps")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    settings = replace(settings, steps=arguments.steps)
    losses: list[float] = []

    def on_step(step: int, loss: float) -> None:
        losses.append(loss)
        if step % 100 == 0:
            mean = sum(losses[-100:]) / 100
            print(f"step {step} of {settings.steps}, loss {mean:.3f}", flush=True)

    policy, step_losses = pretrain(settings, tokenizer, demonstrations(tokenizer), on_step)
    save(arguments.output, settings, policy, tokenizer, step_losses)
    print(f"wrote {arguments.output}")

"""TRL's trainer without the work for rollouts that teach nothing.

When all rollouts of a question earn the same, their advantages are 0 and so is their gradient. On
the tiny world that holds for a fifth to four fifths of the groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

Batch = Mapping[str, Any]


class FlatGroupsTrainer(GRPOTrainer):
    """``GRPOTrainer`` that leaves rows without an advantage out of the forward and backward pass.

    Loss and gradient are the ones of ``GRPOTrainer`` up to rounding: the loss is a sum over tokens
    whose divisor was counted over all rows. Where rows without an advantage would count (a KL
    penalty, an entropy bonus, a loss that is a mean over rows), nothing is left out. The trainer's
    metrics of entropy and clipping are means over the rows that are left.
    """

    args: GRPOConfig

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: Batch,
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """The loss of a batch, a scalar; see the class."""
        args = self.args
        if (
            args.loss_type == "dapo"
            and args.beta == 0
            and args.entropy_coef == 0
            and not args.use_adaptive_entropy
            and args.top_entropy_quantile == 1
        ):
            inputs = without_flat_groups(inputs)
        loss: torch.Tensor = super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        return loss


def without_flat_groups(batch: Batch) -> dict[str, Any]:
    """The rows with an advantage, without the padding that only other rows needed.

    Args:
        batch: TRL's batch: prompts ``(B, P)`` padded on the left, everything about completions
            ``(B, C)`` padded on the right, advantages ``(B,)``.
    """
    advantages = batch["advantages"]
    rows = advantages.nonzero()[:, 0]
    if not len(rows):
        # The loss needs a graph to be 0 in.
        rows = torch.zeros(1, dtype=torch.long, device=advantages.device)
    prompts = int(batch["prompt_mask"][rows].sum(1).max())
    completions = int(batch["completion_mask"][rows].sum(1).max())
    count, width = batch["completion_ids"].shape
    kept = {}
    for name, value in batch.items():
        if isinstance(value, torch.Tensor) and value.shape[:1] == (count,):
            value = value[rows]
            if name.startswith("prompt_"):
                value = value[:, -prompts:]
            elif value.shape[1:2] == (width,):
                value = value[:, :completions]
        kept[name] = value
    return kept

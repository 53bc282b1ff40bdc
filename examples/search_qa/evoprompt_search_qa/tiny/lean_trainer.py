"""TRL's trainer without the work that teaches nothing.

When all rollouts of a question earn the same, their advantages are 0 and so is their gradient. On
the tiny world that holds for a fifth to four fifths of the groups. And one long rollout makes all
others of its batch as long as itself, by padding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

Batch = Mapping[str, Any]


class LeanTrainer(GRPOTrainer):
    """``GRPOTrainer`` that leaves out rows without an advantage, and most of the padding.

    Loss and gradient are the ones of ``GRPOTrainer`` up to rounding: the loss is a sum over tokens
    whose divisor was counted over all rows, so that it may be summed in parts. Where rows without
    an advantage would count (a KL penalty, an entropy bonus, a loss that is a mean over rows),
    everything is as in ``GRPOTrainer``. The trainer's metrics of entropy and clipping are means
    over the parts.
    """

    args: GRPOConfig
    part = 16
    """Most rows that go through the model together."""

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: Batch,
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """The loss of a batch, a scalar; see the class."""
        args = self.args
        lean = (
            args.loss_type == "dapo"
            and args.beta == 0
            and args.entropy_coef == 0
            and not args.use_adaptive_entropy
            and args.top_entropy_quantile == 1
        )
        losses = [
            super(LeanTrainer, self).compute_loss(model, part, return_outputs, num_items_in_batch)
            for part in (parts(inputs, self.part) if lean else [inputs])
        ]
        return torch.stack(losses).sum()


def parts(batch: Batch, most: int) -> Iterator[dict[str, Any]]:
    """The rows with an advantage, those of like length together, without each other's padding.

    Args:
        batch: TRL's batch: prompts ``(B, P)`` padded on the left, everything about completions
            ``(B, C)`` padded on the right, advantages ``(B,)``.
        most: rows of a part.

    Yields:
        Batches; at least one, since the loss needs a graph even to be 0 in.
    """
    rows = batch["advantages"].nonzero()[:, 0]
    if not len(rows):
        rows = torch.zeros(1, dtype=torch.long, device=batch["advantages"].device)
    lengths = batch["completion_mask"][rows].sum(1)
    for part in rows[lengths.argsort(stable=True)].split(most):
        yield _only(part, batch)


def _only(rows: torch.Tensor, batch: Batch) -> dict[str, Any]:
    """What ``batch`` holds of ``rows``, no wider than they need."""
    prompt = int(batch["prompt_mask"][rows].sum(1).max())
    completion = int(batch["completion_mask"][rows].sum(1).max())
    count, width = batch["completion_ids"].shape
    kept = {}
    for name, value in batch.items():
        if isinstance(value, torch.Tensor) and value.shape[:1] == (count,):
            value = value[rows]
            if name.startswith("prompt_"):
                value = value[:, -prompt:]
            elif value.shape[1:2] == (width,):
                value = value[:, :completion]
        kept[name] = value
    return kept

"""Supervised steps on a policy's own episodes, and its divergence from the base model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

import torch
from torch.nn.functional import kl_div
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PrinterCallback, Trainer
from trl.trainer.grpo_trainer import GRPOTrainer

from evoprompt.agents import Episode

RATE = 3.0
"""Learning rate, in those of the host. With 3 the tiny policy of search-QA solved .97 of the
validation questions without its instruction, with 10 .92, and 1.00 with it (seed 0, 30 steps)."""
EPOCHS = 2
"""Passes over the rows."""

_IGNORED = -100  # a label that counts for no loss

Row = Mapping[str, Sequence[int]]


def row_of(prompt: Sequence[int], episode: Episode) -> Row:
    """Return the policy's tokens in ``episode`` as labels after another prompt."""
    tokens = zip(episode.completion_ids, episode.policy_mask, strict=True)
    labels = [token if chosen else _IGNORED for token, chosen in tokens]
    return {
        "input_ids": [*prompt, *episode.completion_ids],
        "labels": [_IGNORED] * len(prompt) + labels,
    }


def imitate(trainer: GRPOTrainer, rows: Sequence[Row]) -> None:
    """Train the policy of ``trainer``, by its own arguments, on the selected completions."""
    args = copy(trainer.args)
    args.max_steps, args.num_train_epochs = -1, EPOCHS
    args.learning_rate *= RATE
    args.save_strategy, args.remove_unused_columns = "no", False
    learner = Trainer(
        model=trainer.model, args=args, data_collator=_batch, train_dataset=list(rows)
    )
    learner.remove_callback(PrinterCallback)
    learner.train()


@torch.no_grad()
def divergence(
    policy: PreTrainedModel, base: PreTrainedModel, rows: Sequence[Row], size: int
) -> float:
    """Return the policy's mean KL divergence from ``base`` over its own tokens, in nats.

    Args:
        policy: a causal language model.
        base: another language model, with the same tokens.
        rows: episodes after their prompts.
        size: number of rows in one pass.
    """
    totals = torch.zeros(2, dtype=torch.float64)
    for start in range(0, len(rows), size):
        batch = _batch(rows[start : start + size])
        labels = batch.pop("labels")[:, 1:]
        mine, theirs = (
            model(**{name: tensor.to(model.device) for name, tensor in batch.items()})
            .logits[:, :-1][(labels != _IGNORED).to(model.device)]
            .float()
            .log_softmax(-1)
            for model in (policy, base)
        )
        kl_sum = kl_div(theirs, mine, log_target=True, reduction="sum")
        totals += torch.tensor([kl_sum.item(), len(mine)])
    return float(totals[0] / totals[1])


def _batch(rows: Sequence[Row]) -> dict[str, torch.Tensor]:
    ids = [torch.tensor(row["input_ids"]) for row in rows]
    labels = [torch.tensor(row["labels"]) for row in rows]
    return {
        "input_ids": pad_sequence(ids, batch_first=True),
        "attention_mask": pad_sequence(
            [torch.ones_like(row_ids) for row_ids in ids], batch_first=True
        ),
        "labels": pad_sequence(labels, batch_first=True, padding_value=_IGNORED),
    }

"""Rolls rows out through the trainer's own generation path and reads what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from evoprompt.types import Turn
from evoprompt_trl.completions import Completion
from evoprompt_trl.host import Batch, Generate, HostTrainer, Row
from evoprompt_trl.scoring import Scores, scores

if TYPE_CHECKING:
    import torch

_FAILURES_READ = 128
"""Most failures a batch whose text is kept for the proposer; decoding all of them would cost."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one row, small enough to travel between processes.

    Attributes:
        reward: what the trainer trains on, None if unscored.
        metrics: numbers about the row.
        turns: what happened, for failures; empty otherwise.
    """

    reward: float | None
    metrics: dict[str, float]
    turns: tuple[Turn, ...] = ()


class Roller:
    """Generates and scores rows as the trainer does.

    Args:
        trainer: the trainer.
        generate: its own ``_generate_and_score_completions``.
        failure_below: a reward under this is a failure.
    """

    def __init__(self, trainer: HostTrainer, generate: Generate, failure_below: float) -> None:
        self._trainer = trainer
        self._generate = generate
        self._failure_below = failure_below
        self._scores: Scores | None = None

    def observe(self, per_function: torch.Tensor, completion_ids: list[list[int]]) -> None:
        """Takes note of the rewards the trainer has just computed, inside :meth:`roll`."""
        self._scores = scores(self._trainer, per_function, completion_ids)

    def roll(self, rows: list[Row]) -> tuple[Batch, list[Outcome]]:
        """The trainer's batch for the rows of this process, and what became of each."""
        self._scores = None
        batch = self._generate(rows)
        found: Scores | None = self._scores
        if found is None:
            raise RuntimeError(
                f"{type(self._trainer).__name__} generated a batch without _calculate_rewards; "
                "required: the method that TRL's own trainer calls; do not bypass it"
            )
        first = self._trainer.accelerator.process_index * len(rows)
        local = slice(first, first + len(rows))
        rewards = found.rewards[local]
        completions = self._completions(batch, found.completion_ids)
        read = set(self._failures(rewards))
        decode = partial(self._trainer.processing_class.batch_decode, skip_special_tokens=True)
        return batch, [
            Outcome(
                reward,
                completion.metrics() | by_function,
                completion.turns(decode) if row in read else (),
            )
            for row, (reward, completion, by_function) in enumerate(
                zip(rewards, completions, found.by_function[local], strict=True)
            )
        ]

    def _completions(self, batch: Batch, ids: Sequence[Sequence[int]]) -> list[Completion]:
        mask = batch.get("tool_mask")
        if mask is None:
            return [Completion(tokens) for tokens in ids]
        completions = []
        for tokens, marks, kept in zip(
            ids, mask.bool().tolist(), batch["completion_mask"].any(dim=1).tolist(), strict=True
        ):
            # mask_truncated_completions wipes both masks of a row, and with them who wrote what.
            completions.append(Completion(tokens, marks[: len(tokens)] if kept else None))
        return completions

    def _failures(self, rewards: Sequence[float | None]) -> list[int]:
        """Rows to read: the failures, or as many of them as may be, spread over the batch."""
        failed = [
            row
            for row, reward in enumerate(rewards)
            if reward is not None and reward < self._failure_below
        ]
        limit = -(-_FAILURES_READ // self._trainer.accelerator.num_processes)
        return failed[:: -(-len(failed) // limit) or 1]

"""Rolls rows out through the trainer's own generation path and reads what came of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from evoprompt.prompts import Prompt
from evoprompt.replay import worth_reading
from evoprompt.rows import text_of
from evoprompt.types import Turn
from evoprompt_trl.completions import Completion
from evoprompt_trl.host import (
    Batch,
    Generate,
    HostTrainer,
    Row,
    has_environments,
    tokenizer_of,
)
from evoprompt_trl.scoring import Scores, scores
from evoprompt_trl.told import FEEDBACK, Told, told

if TYPE_CHECKING:
    import torch

    from evoprompt_trl.tools import OwnTools

Asked = Sequence[tuple[str, str, int]]
"""For every row of all processes its candidate, its question and its index in the assignment."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one row, small enough to travel between processes.

    Attributes:
        reward: what the trainer trains on, None if unscored.
        metrics: numbers about the row.
        turns: what happened, for the rollouts that somebody reads; empty otherwise.
        feedback: what was said of it, for the same ones.
    """

    reward: float | None
    metrics: dict[str, float]
    turns: tuple[Turn, ...] = ()
    feedback: str = ""


class Roller:
    """Generates and scores rows as the trainer does.

    Args:
        trainer: the trainer.
        generate: its own ``_generate_and_score_completions``.
        failure_below: a reward under this is a failure.
        failures_per_request: most failures of one candidate that are read in a batch.
        tools: shows the trainer's tools as candidates describe them; None where they do not.
    """

    def __init__(
        self,
        trainer: HostTrainer,
        generate: Generate,
        failure_below: float,
        failures_per_request: int,
        tools: OwnTools | None = None,
    ) -> None:
        self._trainer = trainer
        self._generate = generate
        self._failure_below = failure_below
        self._failures_per_request = failures_per_request
        self._tools = tools
        self._scores: Scores | None = None
        self._prompts: Sequence[Prompt] = ()
        self._told: Sequence[Told] = ()
        self._own_feedback = False

    def observe(
        self,
        per_function: torch.Tensor,
        inputs: Sequence[Row],
        prompts: Sequence[Prompt],
        completion_ids: list[list[int]],
    ) -> None:
        """Takes note of what the trainer has just scored, inside :meth:`roll`."""
        self._scores = scores(self._trainer, per_function, completion_ids)
        self._told = told(self._trainer, inputs, not self._own_feedback)
        self._prompts = prompts

    def roll(self, rows: list[Row], asked: Asked = ()) -> tuple[Batch, list[Outcome]]:
        """The trainer's batch for the rows of this process, and what became of each.

        Args:
            rows: of this process.
            asked: whom to read rollouts of, for the rows of all processes; nobody if not given.
        """
        self._scores = None
        self._own_feedback = any(FEEDBACK in row for row in rows)
        if self._tools is not None:
            rows = self._tools.take(rows)
        batch = self._generate(rows)
        if self._tools is not None:
            self._tools.require_shown()
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
        read = self._read(found.rewards, asked)
        decode = partial(tokenizer_of(self._trainer).batch_decode, skip_special_tokens=True)
        return batch, [
            Outcome(
                reward,
                {**completion.metrics(), **by_function, **said.metrics},
                (*self._opening(rows, row), *completion.turns(decode))
                if first + row in read
                else (),
                said.feedback if first + row in read else "",
            )
            for row, (reward, completion, by_function, said) in enumerate(
                zip(rewards, completions, found.by_function[local], self._told, strict=True)
            )
        ]

    def _opening(self, rows: Sequence[Row], row: int) -> tuple[Turn, ...]:
        """What an environment added to the prompt of a row of this process."""
        written, asked = rows[row]["prompt"], self._prompts[row]
        if isinstance(asked, str) or not has_environments(self._trainer):
            return ()
        text = text_of(asked[-1]["content"])
        added = text.removeprefix(text_of(written[-1]["content"]))
        return (Turn("", added),) if added else ()

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

    def _read(self, rewards: Sequence[float | None], asked: Asked) -> set[int]:
        """Which rows of all processes to read; every process comes to the same choice."""
        scored = {
            row: (*asked[row], reward)
            for row, reward in enumerate(rewards[: len(asked)])
            if reward is not None
        }
        return worth_reading(scored, self._failure_below, self._failures_per_request)

"""Rollouts of rows through the trainer's own generation path, with their outcomes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from evoprompt.agents import turns
from evoprompt.agents.episode import token_metrics
from evoprompt.agents.thoughts import reader_of
from evoprompt.config import EngineConfig
from evoprompt.hosting.binding import RolloutOutcome
from evoprompt.hosting.prompts import Prompt
from evoprompt.hosting.rows import text_of
from evoprompt.replay import rollouts_to_keep
from evoprompt.support.calls import calling
from evoprompt.support.errors import InputError
from evoprompt.support.waiting import Report
from evoprompt.types import Candidate, Turn
from evoprompt_trl.host import (
    INSTRUCTION_COLUMN,
    Batch,
    Generate,
    Row,
    TrlTrainer,
    has_environments,
    tokenizer_of,
)
from evoprompt_trl.prompts import TrlPrompts
from evoprompt_trl.scores import FEEDBACK, RowScore, rewards_in, scores_in
from evoprompt_trl.tools import OwnTools

RolloutKeys = Sequence[tuple[str, str, int]]
"""For every row of all processes its candidate, its question and its index in the assignment."""


class Roller:
    """Generates and scores rows as the trainer does.

    Args:
        trainer: the trainer.
        generate: its own ``_generate_and_score_completions``.
        config: of the engine: what a failure is, and how many of one candidate are read.
        prompts: writes what the policy reads.
        tools: shows the trainer's tools as candidates describe them; None where they do not.
        report: takes the line that names a reward function that does not return.
    """

    def __init__(
        self,
        trainer: TrlTrainer,
        generate: Generate,
        config: EngineConfig,
        prompts: TrlPrompts,
        tools: OwnTools | None = None,
        report: Report | None = None,
    ) -> None:
        self._trainer = trainer
        self._report = report
        self._decode = reader_of(tokenizer_of(trainer))
        self._generate = generate
        self._config = config
        self._tools = tools
        self._writer = prompts
        self._rows: Sequence[Row] = ()
        self._candidates: Sequence[Candidate] = ()
        self._own: Sequence[Prompt] | None = None
        self._rewards: list[float | None] | None = None
        self._scores: list[RowScore] = []
        self._ids: list[list[int]] = []
        self._prompts: Sequence[Prompt] = ()
        self._own_feedback = False

    def around_generate(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``original``, which makes tokens of prompts, with the instructions placed in them.

        TRL goes on with the list that it hands over, so the list itself is changed; what TRL scores
        by are the prompts as they were.
        """

        def generate(prompts: list[Prompt], *args: Any, **settings: Any) -> Any:
            if self._candidates:
                if len(prompts) != len(self._candidates):
                    raise InputError(
                        f"{type(self._trainer).__name__} makes tokens of {len(prompts)} prompts "
                        f"for {len(self._candidates)} rows; required: a prompt for each row, so "
                        "that each has its instruction; do not drop or add prompts in a subclass"
                    )
                self._own = list(prompts)
                rendered_prompts: list[Any] = [
                    self._writer.rendered(row, prompt, candidate)
                    for row, prompt, candidate in zip(
                        self._rows, prompts, self._candidates, strict=True
                    )
                ]
                prompts[:] = (
                    rendered_prompts
                    if self._tools is None
                    else self._tools.convert_prompts(rendered_prompts)
                )
            return original(prompts, *args, **settings)

        return generate

    def around_rewards(self, original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        """Return ``original``, which scores completions, with the prompts of the dataset.

        Reward functions get the instruction as the column :data:`INSTRUCTION_COLUMN`.
        """

        def calculate_rewards(
            inputs: list[Row],
            prompts: list[Any],
            completions: list[Any],
            completion_ids_list: list[list[int]],
        ) -> torch.Tensor:
            rows, candidates = inputs, self._candidates
            if self._own is not None and len(self._own) == len(prompts):
                prompts = list(self._own)
                rows = [
                    {**row, INSTRUCTION_COLUMN: candidate.instruction}
                    for row, candidate in zip(inputs, candidates, strict=True)
                ]
            with _naming_functions(self._trainer, self._report):
                rewards = original(rows, prompts, completions, completion_ids_list)
            self.observe(rewards, inputs, prompts, completion_ids_list)
            return rewards

        return calculate_rewards

    def observe(
        self,
        per_function: torch.Tensor,
        inputs: Sequence[Row],
        prompts: Sequence[Prompt],
        completion_ids: list[list[int]],
    ) -> None:
        """Record the scores of the trainer, inside :meth:`roll`."""
        self._rewards = rewards_in(self._trainer, per_function)
        mine = per_function[self._local(len(inputs))]
        self._scores = scores_in(self._trainer, mine, inputs, not self._own_feedback)
        self._ids, self._prompts = completion_ids, prompts

    def roll(
        self, rows: list[Row], candidates: Sequence[Candidate], rollout_keys: RolloutKeys = ()
    ) -> tuple[Batch, list[RolloutOutcome]]:
        """Return the trainer's batch for the rows of this process, and the outcome of each.

        Args:
            rows: rows of this process, with their own prompts.
            candidates: candidate of each row.
            rollout_keys: candidate, question and number of the rollout of each row of all
                processes, for the rollouts whose turns may be read; none if not given.
        """
        self._rewards = None
        self._own_feedback = any(FEEDBACK in row for row in rows)
        self._rows, self._candidates, self._own = rows, candidates, None
        try:
            batch = self._generate(rows)
        finally:
            self._candidates = ()
        if self._tools is not None:
            self._tools.require_shown()
        rewards: list[float | None] | None = self._rewards
        if rewards is None:
            raise RuntimeError(
                f"{type(self._trainer).__name__} generated a batch without _calculate_rewards; "
                "required: the method that TRL's own trainer calls; do not bypass it"
            )
        local = self._local(len(rows))
        read = self._read(rewards, rollout_keys)
        outcomes = []
        for row, (reward, ids, mask, score) in enumerate(
            zip(rewards[local], self._ids, self._masks(batch), self._scores, strict=True)
        ):
            if local.start + row in read:
                decode = self._decode
                rollout_turns = turns(ids, mask, decode) if mask else (Turn(decode([ids])[0]),)
                rollout_turns = (*self._opening(rows, row), *rollout_turns)
                feedback = score.feedback
            else:
                rollout_turns, feedback = (), ""
            token_counts = (
                {"response_tokens": float(len(ids))} if mask is None else token_metrics(mask)
            )
            outcomes.append(
                RolloutOutcome(reward, {**token_counts, **score.metrics}, rollout_turns, feedback)
            )
        return batch, outcomes

    def _local(self, rows: int) -> slice:
        """Return the place of this process's rows among those of all processes."""
        first = self._trainer.accelerator.process_index * rows
        return slice(first, first + rows)

    def _opening(self, rows: Sequence[Row], row: int) -> tuple[Turn, ...]:
        """Return the text that an environment added to the prompt of a row."""
        own_prompt, sent_prompt = self._writer.prompt_of(rows[row]), self._prompts[row]
        if (
            isinstance(sent_prompt, str)
            or isinstance(own_prompt, str)
            or not has_environments(self._trainer)
        ):
            return ()
        text = text_of(sent_prompt[-1]["content"])
        added = text.removeprefix(text_of(own_prompt[-1]["content"]))
        return (Turn("", added),) if added else ()

    def _masks(self, batch: Batch) -> list[list[bool] | None]:
        """Return which tokens of each row the policy emitted; None if all are."""
        mask = batch.get("tool_mask")
        if mask is None:
            return [None] * len(self._ids)
        # mask_truncated_completions clears both masks of a row, so the source of a token is lost.
        has_completion = batch["completion_mask"].any(dim=1).tolist()
        return [
            marks[: len(tokens)] if is_unmasked else None
            for tokens, marks, is_unmasked in zip(
                self._ids, mask.bool().tolist(), has_completion, strict=True
            )
        ]

    def _read(self, rewards: Sequence[float | None], rollout_keys: RolloutKeys) -> set[int]:
        """Return the rows of all processes to read, the same on every process."""
        scored = {
            row: (*rollout_keys[row], reward)
            for row, reward in enumerate(rewards[: len(rollout_keys)])
            if reward is not None
        }
        config = self._config
        return rollouts_to_keep(scored, config.failure_threshold, config.failures_per_request)


@contextmanager
def _naming_functions(trainer: TrlTrainer, report: Report | None) -> Iterator[None]:
    """Name, inside the context, a reward function that does not return or ends the process."""
    functions = trainer.reward_funcs
    trainer.reward_funcs = [_named(function, report) for function in functions]
    try:
        yield
    finally:
        trainer.reward_funcs = functions


def _named(function: Any, report: Report | None) -> Any:
    if isinstance(function, torch.nn.Module):
        return function  # a reward model, which the trainer does not call like a function
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def score_later(*args: Any, **columns: Any) -> Any:
            with calling("reward function", function, report):
                return await function(*args, **_accepted(function, columns))

        return score_later

    @functools.wraps(function)  # with the attributes of an object, for a trainer that reads them
    def score(*args: Any, **columns: Any) -> Any:
        with calling("reward function", function, report):
            return function(*args, **_accepted(function, columns))

    return score


def _accepted(function: Any, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the columns without the instruction if the function names all that it takes."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # a built-in tells nothing of itself
        return columns
    has_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    if has_any or INSTRUCTION_COLUMN in parameters:
        return columns
    return {name: value for name, value in columns.items() if name != INSTRUCTION_COLUMN}

"""Refuses rows that no step could be made of, before the first step."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any

from evoprompt.hosting.rows import unkept
from evoprompt.support.errors import InputError
from evoprompt.support.text import many
from evoprompt_trl.host import Row, TrlTrainer, has_environments

_LOOKED_AT = 8  # rows; a column is of one type
_OF_THE_PROMPT = ("prompt", "image", "images")


def require_whole_batch(trainer: TrlTrainer) -> None:
    """Make sure that the dataset fills a generation batch: TRL drops an incomplete one.

    Raises:
        InputError: no step could be made; TRL itself would end the training without an error.
    """
    args: Any = trainer.args
    dataset: Any = getattr(trainer, "train_dataset", None)
    size, generations = args.generation_batch_size, trainer.num_generations
    needed = size // generations
    if hasattr(dataset, "__len__") and len(dataset) < needed:
        raise InputError(
            f"the dataset has {many(len(dataset), 'row')}, and a generation batch takes {needed} "
            f"(generation_batch_size {size}, num_generations {generations}), so that "
            f"no step could be made; required: at least {needed} rows; add some, or lower "
            "per_device_train_batch_size or steps_per_generation, in a configuration "
            "host.questions_per_step"
        )


def require_usable_rows(trainer: TrlTrainer, rows: Sequence[Row], verifies: bool) -> None:
    """Make sure that the first rows of the training can be asked, and asked again.

    Args:
        trainer: the trainer, with its reward functions.
        rows: the first rows that have been seen.
        verifies: whether questions are kept for verification.

    Raises:
        InputError: they have no prompt, or what a prompt or a reward function reads cannot be kept.
    """
    for row in rows[:_LOOKED_AT]:
        if not has_environments(trainer):
            _require_prompt(row)
        for column, kind in unkept(row).items() if verifies else ():
            readers = ["the prompt"] if column in _OF_THE_PROMPT else []
            if readers := [*readers, *_readers(trainer, column)]:
                raise InputError(
                    f"the column {column!r} holds values of type {kind}, which cannot be kept for "
                    f"verification, and {', '.join(readers)} reads it; required: JSON, times, "
                    "bytes, numbers, arrays of NumPy or images; convert the column"
                )


def _require_prompt(row: Row) -> None:
    if "prompt" not in row:
        raise InputError(
            f"the dataset has no column 'prompt', but {', '.join(map(repr, row))}; required: a "
            "'prompt' of text or messages in each row, as TRL reads it; rename or add the column"
        )
    prompt = row["prompt"]
    if not isinstance(prompt, str) and not (isinstance(prompt, Sequence) and prompt):
        raise InputError(
            f"the column 'prompt' holds {prompt!r:.80}; required: text or a list of messages; "
            "drop such rows"
        )


def _readers(trainer: TrlTrainer, column: str) -> Iterator[str]:
    """Return the names of the reward functions with a parameter ``column``."""
    functions: Sequence[object] = getattr(trainer, "reward_funcs", ())
    for name, function in zip(trainer.reward_func_names, functions, strict=False):
        try:
            read = callable(function) and column in inspect.signature(function).parameters
        except (TypeError, ValueError):  # a built-in tells nothing of itself
            continue
        if read:
            yield f"the reward function {name}"

"""Feedback and numbers that reward functions or rollouts tell of a trainer that the user made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tiny_trl
from contract_runs import note_tells

import evoprompt
from evoprompt.support.errors import InputError
from evoprompt.types import Trajectory

Log = Callable[[str, list[Any]], None]


def trained(directory: Path, **given: Any) -> list[Trajectory]:
    """What the engine was told in one step."""
    engine = evoprompt.Engine(["be brief"])
    steps = note_tells(engine)
    trainer = tiny_trl.trainer(directory, max_steps=1, **given)
    evoprompt.attach(trainer, engine)
    trainer.train()
    (told,) = steps
    assert len(told) == 8
    return told


def wrong(completions: list[Any], **columns: Any) -> list[float]:
    return [float(row % 2) for row in range(len(completions))]


def test_what_a_reward_function_logs_is_told_in_words_of_what_is_read_and_in_numbers_of_all(
    tmp_path: Path,
) -> None:
    def logging(completions: list[Any], log_extra: Log, **columns: Any) -> list[float]:
        said = [f"row {row} is off" for row in range(len(completions))]
        log_extra("feedback", [*said[:4], "no! " * 10**6, *said[5:]])
        log_extra("words", [row if row else None for row in range(len(completions))])
        log_extra("kind", ["short"] * len(completions))
        return wrong(completions)

    def silent(completions: list[Any], log_extra: Log, **columns: Any) -> list[float]:
        log_extra("feedback", ["" if row else "twice" for row in range(len(completions))])
        return [0.0] * len(completions)

    rows = [{**row, "feedback": "a human's, which is no feedback"} for row in tiny_trl.questions()]
    told = trained(tmp_path, rewards=[logging, silent], rloo=True, rows=rows)
    # Of failures, and of one success.
    words = ["row 0 is off\ntwice", "row 1 is off", "row 2 is off", ""]
    assert [one.feedback for one in told[:4]] == words
    assert 1000 < len(told[4].feedback) <= 4000, "it is cut"
    assert [one.metrics.get("words") for one in told] == [None, *range(1, 8)]
    assert all("kind" not in one.metrics for one in told)


def test_a_field_of_a_rollout_func_is_feedback(tmp_path: Path) -> None:
    def rollout(prompts: list[Any], trainer: Any) -> dict[str, Any]:
        tokenizer = trainer.processing_class
        ids = [
            tokenizer.apply_chat_template(
                prompt, tokenize=True, add_generation_prompt=True, return_dict=True
            )["input_ids"]
            for prompt in prompts
        ]
        said = [*tokenizer("answer")["input_ids"], tokenizer.eos_token_id]
        return {
            "prompt_ids": ids,
            "completion_ids": [said for _ in prompts],
            "logprobs": None,
            "feedback": [f"rollout {row}" for row in range(len(prompts))],
        }

    told = trained(tmp_path, rewards=[wrong], rollout_func=rollout)
    assert [one.feedback for one in told[:4]] == ["rollout 0", "rollout 1", "rollout 2", ""]


def test_feedback_of_another_number_of_rows_is_refused(tmp_path: Path) -> None:
    def counting(completions: list[Any], log_extra: Log, **columns: Any) -> list[float]:
        log_extra("feedback", ["one for all"])
        return wrong(completions)

    with pytest.raises(InputError, match="logged 1 values of 'feedback' for 8 rollouts"):
        trained(tmp_path, rewards=[counting])


@pytest.mark.parametrize("reward", [None, float("nan"), float("inf")])
def test_a_rollout_without_a_finite_reward_is_counted_and_the_training_goes_on(
    tmp_path: Path, reward: float | None
) -> None:
    def failing(completions: list[Any], **columns: Any) -> list[float | None]:
        return [reward if row == 2 else 1.0 for row in range(len(completions))]

    with pytest.warns(evoprompt.EvopromptWarning, match="1 of 8 rollouts of step 1 have no reward"):
        told = trained(tmp_path, rewards=[failing])
    assert [one.reward for one in told] == [1.0, 1.0, None, *[1.0] * 5]

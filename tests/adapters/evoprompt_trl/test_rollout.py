from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from evoprompt_trl.host import Batch, HostTrainer, Row
from evoprompt_trl.rollout import Outcome, Roller


def roller(
    rewards: list[float],
    masks: dict[str, torch.Tensor] | None = None,
    each: int = 4,
    process: int = 0,
    processes: int = 1,
) -> Roller:
    """A roller over a trainer whose rows, of all processes, end as listed.

    Every completion is tokens 1 and 2.
    """

    def batch_decode(spans: list[list[int]], *, skip_special_tokens: bool) -> list[str]:
        return ["".join(map(str, span)) for span in spans]

    def generate(rows: list[Row]) -> Batch:
        found.observe(
            torch.tensor(rewards).unsqueeze(1), rows, ["" for _ in rows], [[1, 2] for _ in rows]
        )
        return masks or {}

    trainer = SimpleNamespace(
        accelerator=SimpleNamespace(process_index=process, num_processes=processes),
        processing_class=SimpleNamespace(batch_decode=batch_decode),
        reward_weights=torch.ones(1),
        reward_func_names=["f"],
    )
    found = Roller(cast(HostTrainer, trainer), generate, 0.5, each)
    return found


def rows(count: int) -> list[Row]:
    return [{"prompt": ""} for _ in range(count)]


def read(outcomes: list[Outcome]) -> list[int]:
    return [row for row, outcome in enumerate(outcomes) if outcome.turns]


def test_failures_are_read_and_one_success_of_each_candidate() -> None:
    rewards = [0.0, 1.0, float("nan"), 0.4, 1.0, 1.0]
    asked = [*(("c0", f"q{row}", row) for row in range(5)), ("c1", "q5", 0)]
    _, outcomes = roller(rewards).roll(rows(6), asked)
    assert read(outcomes) == [0, 1, 3, 5]
    assert [outcome.reward for outcome in outcomes][:4] == [0.0, 1.0, None, pytest.approx(0.4)]


def test_nothing_is_read_when_no_proposer_will_be_shown_it() -> None:
    _, outcomes = roller([0.0, 0.0]).roll(rows(2))
    assert read(outcomes) == []
    assert [outcome.reward for outcome in outcomes] == [0.0, 0.0]


def test_every_candidate_is_read_as_often_as_a_request_shows_on_different_questions() -> None:
    groups = (("c0", "a"), ("c1", "b"), ("c0", "c"))
    asked = [(*group, rollout) for group in groups for rollout in range(5)]
    _, outcomes = roller([0.0] * 15, each=2).roll(rows(15), asked)
    assert read(outcomes) == [0, 5, 6, 10]


def test_a_success_at_the_question_of_a_failure_is_read_first() -> None:
    asked = [("c0", question, rollout) for question in ("a", "b") for rollout in range(3)]
    _, outcomes = roller([1.0, 1.0, 1.0, 0.0, 1.0, 1.0]).roll(rows(6), asked)
    assert read(outcomes) == [3, 4]


def test_processes_read_their_shares_of_one_choice() -> None:
    asked = [("c0", "a", n) for n in range(3)]
    asked += [("c1", "b", 0), ("c0", "c", 0), ("c1", "b", 1)]
    shares = [
        read(roller([0.0] * 6, each=2, process=process, processes=2).roll(rows(3), asked)[1])
        for process in (0, 1)
    ]
    assert shares == [[0], [0, 1, 2]]


def test_a_truncated_row_whose_mask_was_wiped_is_the_policys() -> None:
    masks = {
        "tool_mask": torch.tensor([[1, 0], [0, 0]]),
        "completion_mask": torch.tensor([[1, 1], [0, 0]]),
    }
    _, outcomes = roller([0.0, 0.0], masks).roll(rows(2))
    assert [outcome.metrics.get("tool_calls") for outcome in outcomes] == [1, None]
    assert [outcome.metrics["response_tokens"] for outcome in outcomes] == [1, 2]


def test_a_trainer_that_scores_nothing_is_an_error() -> None:
    def silent(_: list[Row]) -> dict[str, Any]:
        return {}

    lonely = Roller(cast(HostTrainer, SimpleNamespace()), silent, 0.5, 4)
    with pytest.raises(RuntimeError, match="without _calculate_rewards"):
        lonely.roll(rows(2))

"""Rewards are read where the trainer reads them, and a rollout that left nothing failed."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from evoprompt_verl.outcomes import OutcomeReader, of_assignments
from tensordict import NonTensorData, NonTensorStack, TensorDict

from evoprompt.config import EngineConfig
from evoprompt.hosting.binding import RolloutOutcome, trajectories
from evoprompt.types import Assignment, Candidate, Question


class Queue:
    """Holds, for every key, a reward, token ids, a mask and extra fields."""

    def __init__(self, found: dict[str, tuple[float, list[int], list[int], Any]]) -> None:
        self.found = found
        self.asked: list[tuple[list[str], list[str]]] = []

    def kv_batch_get(
        self, keys: list[str], partition_id: str, select_fields: list[str]
    ) -> TensorDict:
        self.asked.append((keys, select_fields))
        rows = [self.found[key] for key in keys]
        scores = [torch.tensor([0.0] * (len(ids) - 1) + [reward]) for reward, ids, _, _ in rows]
        fields = {
            "rm_scores": _nested(scores),
            "responses": _nested([torch.tensor(ids) for _, ids, _, _ in rows]),
            "response_mask": _nested([torch.tensor(mask) for _, _, mask, _ in rows]),
        }
        if rows[0][3] is not None:
            extras = [NonTensorData(extra) for *_, extra in rows]
            fields["extra_fields"] = NonTensorStack.from_list(extras)
        fields = {name: value for name, value in fields.items() if name in select_fields}
        return TensorDict(fields, batch_size=[len(keys)])


def _nested(rows: list[torch.Tensor]) -> Any:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def asked(uid: str, candidate: str = "c0", rollouts: int = 2) -> Assignment:
    return Assignment(uid, Question(uid, "why"), Candidate(candidate, {"i": "x"}), rollouts, uid)


def read(
    queue: Any, keys: list[str], assignments: tuple[Assignment, ...] = (), each: int = 4
) -> dict[tuple[str, int], RolloutOutcome]:
    tokenizer: Any = SimpleNamespace(
        decode=lambda ids, skip_special_tokens: f"<{len(ids)}>",
        encode=lambda text, add_special_tokens: [0],
    )
    batch: Any = SimpleNamespace(keys=keys, partition_id="train")
    config = EngineConfig(failures_per_request=each)
    reader = OutcomeReader(queue, tokenizer, config)
    return reader.read(batch, {assignment.id: [assignment] for assignment in assignments})


def test_numbers_of_the_reward_function_become_metrics() -> None:
    extra = {"reward_extra_info": {"acc": True, "form": 0.5, "why": "text", "bad": float("nan")}}
    found = read(Queue({"u_0_0": (1.0, [1, 2, 3], [1, 0, 1], extra)}), ["u_0_0"])
    assert found["u", 0].metrics == {
        "response_tokens": 2.0,
        "tool_calls": 1.0,
        "reward/acc": 1.0,
        "reward/form": 0.5,
    }


def test_of_each_candidate_the_failures_a_request_shows_are_decoded_whoever_ended_first() -> None:
    groups = [asked(f"{name}{n}", name) for name in ("c0", "c1") for n in range(6)]
    rows = {f"{a.id}_{n}_0": (0.0, [1], [1], None) for a in groups for n in range(2)}
    for keys in (list(rows), list(reversed(rows))):
        found = read(Queue(rows), keys, tuple(groups))
        decoded = {session for session, outcome in found.items() if outcome.turns}
        assert decoded == {(f"{name}{n}", 0) for name in ("c0", "c1") for n in range(4)}


def test_feedback_of_the_reward_function_goes_with_what_is_read() -> None:
    def scored(feedback: object) -> dict[str, object]:
        return {"reward_extra_info": {"feedback": feedback, "acc": 0.0}}

    rows = {
        "u_0_0": (0.0, [1], [1], scored("expected 12, got 13")),
        "u_1_0": (1.0, [1], [1], scored("right")),
        "v_0_0": (0.0, [1], [1], scored(3)),  # no text
        "v_1_0": (0.0, [1], [1], {}),
    }
    assignments = (asked("u"), asked("v"))
    found = read(Queue(rows), list(rows), assignments)
    said = ["expected 12, got 13", "right", "", ""]
    assert [outcome.feedback for outcome in found.values()] == said
    pairs = of_assignments({assignment.id: [assignment] for assignment in assignments}, found)
    told = [one for asked, outcomes in pairs for one in trajectories(asked, outcomes)]
    assert [trajectory.feedback for trajectory in told] == said


def test_a_uid_may_hold_anything() -> None:
    """The last output of a session speaks for it."""
    uid = "with_underscores-11"
    queue = Queue({f"{uid}_2_0": (0.0, [1], [1], None), f"{uid}_2_1": (1.0, [1, 2], [1, 1], None)})
    found = read(queue, list(queue.found))
    assert {session: outcome.reward for session, outcome in found.items()} == {(uid, 2): 1.0}
    assert [keys for keys, _ in queue.asked] == [[f"{uid}_2_1"]]


@pytest.mark.parametrize("reward", [math.nan, math.inf])
def test_a_reward_that_is_no_number_is_neither_a_success_nor_a_reason_to_end(reward: float) -> None:
    rows: dict[str, Any] = {"u_0_0": (reward, [1], [1], {}), "u_1_0": (1.0, [1], [1], {})}
    assignment = asked("u")
    read_rollouts = read(Queue(rows), list(rows), (assignment,))
    assert [bool(one.turns) for one in read_rollouts.values()] == [False, True]
    pairs = of_assignments({assignment.id: [assignment]}, read_rollouts)
    records = [one for given, outcomes in pairs for one in trajectories(given, outcomes)]
    assert [record.reward for record in records[:2]] == [None, 1.0]
    assert f"the reward was {reward}" in records[0].failure

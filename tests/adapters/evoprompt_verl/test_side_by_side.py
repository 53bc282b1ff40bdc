"""A question's rows end as one, and veRL's replay buffer finds all of them under its uid."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from evoprompt_verl import columns
from evoprompt_verl.side_by_side import TRAINING, SideBySide

from evoprompt.config import EngineConfig


class Queue:
    """The queue's tags and fields, by key."""

    def __init__(self) -> None:
        self.tags: dict[str, dict[str, Any]] = {}
        self.fields: dict[str, str] = {}

    def kv_batch_put(
        self, keys: list[str], partition_id: str, *, fields: Any = None, tags: Any = None
    ) -> None:
        assert partition_id == TRAINING
        for place, key in enumerate(keys):
            self.tags.setdefault(key, {}).update(tags[place] if tags else {})
            if fields is not None:
                self.fields[key] = columns.column(fields, columns.UID)[place]

    def kv_batch_get(self, keys: list[str], partition_id: str, select_fields: list[str]) -> Any:
        raise NotImplementedError

    def kv_list(self, partition_id: str) -> dict[str, dict[str, dict[str, Any]]]:
        return {partition_id: {key: dict(tag) for key, tag in self.tags.items()}}

    def kv_clear(self, keys: list[str], partition_id: str) -> None:
        for key in keys:
            del self.tags[key]


@pytest.fixture
def queue() -> Queue:
    found = Queue()
    prompt = {"is_prompt": True, "status": "pending", "global_steps": 1}
    found.tags = {"u": dict(prompt), "v": dict(prompt)}
    return found


def side_by_side(queue: Queue, **settings: Any) -> SideBySide:
    return SideBySide(queue, EngineConfig(**settings), rollouts=2)


def batch() -> Any:
    rows = [{"raw_prompt": [{"role": "user", "content": uid}], columns.UID: uid} for uid in "uv"]
    return columns.batch_of(rows, global_steps=1)


def test_one_candidate_per_question_changes_nothing(queue: Queue) -> None:
    rows = side_by_side(queue)
    prompts = batch()
    assert rows.split(prompts) is prompts
    assert rows.uids("u") == ["u"]
    assert not rows.active
    assert set(queue.tags) == {"u", "v"}


def test_rows_of_a_question_lie_side_by_side_with_a_share_of_the_rollouts(queue: Queue) -> None:
    split = side_by_side(queue, candidates_per_question=2).split(batch())
    assert columns.column(split, columns.UID) == ["u_0", "u_1", "v_0", "v_1"]
    assert columns.column(split, columns.ROLLOUTS) == [2] * 4
    asked = [messages[0]["content"] for messages in columns.column(split, columns.PROMPT)]
    assert asked == ["u", "u", "v", "v"]
    assert columns.setting(split, "global_steps") == 1


@pytest.mark.parametrize(
    ("ends", "status"),
    [
        (("finished", "running"), "pending"),
        (("failure", "pending"), "pending"),
        (("finished", "finished"), "finished"),
        (("finished", "failure"), "failure"),
    ],
)
def test_a_question_has_ended_when_all_its_rows_have(
    queue: Queue, ends: tuple[str, str], status: str
) -> None:
    rows = side_by_side(queue, candidates_per_question=2)
    rows.split(batch())
    trajectories = {"u_0_0_0": {"status": "success"}, "u_1_1_0": {"status": "success"}}
    queue.tags |= trajectories
    for uid, end in zip(("u_0", "u_1"), ends, strict=True):
        queue.tags[uid]["status"] = end
    looked: list[str] = []
    rows.joining(lambda: looked.append(queue.tags["u"]["status"]))()
    assert looked == [status]
    assert queue.tags["v"]["status"] == "pending"
    assert ("u_0" in queue.tags) == ("u_1" in queue.tags) == (status == "pending")
    assert trajectories.keys() <= queue.tags.keys()
    assert queue.tags["u"]["is_prompt"]


def test_rows_of_a_question_that_verl_has_dropped_come_back_as_nothing(queue: Queue) -> None:
    rows = side_by_side(queue, candidates_per_question=2)
    rows.split(batch())
    del queue.tags["u"]
    for uid in ("u_0", "u_1"):
        queue.tags[uid]["status"] = "finished"
    rows.join()
    assert "u" not in queue.tags


@pytest.mark.parametrize(("grouping", "shared"), [("candidate", set()), ("question", {"u", "v"})])
def test_only_grouping_by_question_gives_a_question_one_baseline(
    queue: Queue, grouping: str, shared: set[str]
) -> None:
    sampled: Any = SimpleNamespace(keys=["u_0_0_0", "u_1_0_0", "v_1_1_0"], partition_id=TRAINING)
    side_by_side(queue, candidates_per_question=2, grouping=grouping).share_baseline(sampled)
    assert set(queue.fields.values()) == shared
    assert all(uid == key[0] for key, uid in queue.fields.items())

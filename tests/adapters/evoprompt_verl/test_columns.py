"""Columns of a veRL batch and plain values are two forms of the same thing."""

from __future__ import annotations

from datetime import datetime

import numpy as np
import pytest
import torch
from evoprompt_verl import columns
from tensordict import TensorDict

from evoprompt.errors import EvopromptWarning
from evoprompt.rows import row_of

ROWS = [
    {
        "raw_prompt": [{"role": "user", "content": f"what is {i}"}],
        "data_source": source,
        "reward_model": {"ground_truth": {"target": [str(i)]}},
        "extra_info": {"index": 7},
        "tools_kwargs": {},
    }
    for i, source in enumerate(("nq", "hotpotqa", "nq"))
]


@pytest.fixture
def batch() -> TensorDict:
    rows = [{**row, columns.UID: f"u{i}"} for i, row in enumerate(ROWS)]
    return columns.batch_of(rows, global_steps=4, validate=True)


def test_rows_come_back_as_they_went_in_without_what_belongs_to_the_batch(
    batch: TensorDict,
) -> None:
    assert columns.rows(batch) == ROWS


def test_chunks_of_one_row_keep_every_kind_of_column(batch: TensorDict) -> None:
    """veRL hands chunks to its workers; equal values must not melt together."""
    parts = [columns.rows(part)[0] for part in batch.chunk(3)]
    assert parts == ROWS


def test_a_batch_has_what_the_agent_loop_workers_look_for(batch: TensorDict) -> None:
    assert columns.setting(batch, "validate") is True
    assert columns.setting(batch, "global_steps") == 4
    assert columns.setting(batch, "absent", "nothing") == "nothing"
    assert isinstance(batch["dummy_tensor"], torch.Tensor)
    assert columns.column(batch, columns.UID) == ["u0", "u1", "u2"]


def test_numpy_values_become_plain_ones() -> None:
    row = {**ROWS[0], "index": np.int64(3), "target": np.array(["a", "b"], dtype=object)}
    found = columns.rows(columns.batch_of([row]))[0]
    assert found["index"] == 3
    assert found["target"] == ["a", "b"]
    assert type(found["index"]) is int


def test_rows_are_selected_of_what_the_queue_gives_back_too(batch: TensorDict) -> None:
    lengths = [torch.arange(1), torch.arange(3), torch.arange(2)]
    batch["nested"] = torch.nested.as_nested_tensor(lengths, layout=torch.jagged)
    found = columns.selected(batch, [2, 2, 0])
    assert columns.rows(found) == [ROWS[2], ROWS[2], ROWS[0]]
    assert columns.column(found, columns.UID) == ["u2", "u2", "u0"]
    assert [part.tolist() for part in found["nested"].unbind(0)] == [[0, 1], [0, 1], [0]]
    assert found["dummy_tensor"].shape == (3, 1)


def test_replacing_a_column_leaves_the_batch_alone(batch: TensorDict) -> None:
    changed = columns.with_columns(batch, {"raw_prompt": [["a"], ["b"], ["c"]]})
    assert columns.column(changed, "raw_prompt") == [["a"], ["b"], ["c"]]
    assert columns.column(batch, "raw_prompt")[0] == ROWS[0]["raw_prompt"]
    assert columns.column(changed, columns.UID) == ["u0", "u1", "u2"]


def test_questions_of_different_sources_have_different_ids(batch: TensorDict) -> None:
    found = columns.questions(batch)
    assert [question.id for question in found] == ["nq/7", "hotpotqa/7", "nq/7"]
    assert [question.text for question in found] == ["what is 0", "what is 1", "what is 2"]
    assert found[1].answers == ("1",)
    assert dict(found[2].row) == ROWS[2]


def test_a_column_that_is_no_json_is_kept_and_one_that_nobody_can_keep_is_announced() -> None:
    seen = datetime(2026, 1, 2)
    with pytest.warns(EvopromptWarning, match="'sound' holds values of type object"):
        (question,) = columns.questions(
            columns.batch_of([{**ROWS[0], "seen": seen, "sound": object(), "prompt": "whatever"}])
        )
    assert row_of(question) == {**ROWS[0], "seen": seen, "sound": None, "prompt": "whatever"}

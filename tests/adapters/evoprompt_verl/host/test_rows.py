"""A question is the same before and after its way through a veRL dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from datasets import load_dataset

from evoprompt.experiments.hosts.verl.rows import question_of, rows, write
from evoprompt.hosting.rows import question_from_row
from evoprompt.types import Question

ODD = Question("a", "why ${not}?", ("because", ""), {"nested": {"n": [1, None]}, "text": "\u20ac"})
PLAIN = Question("b", "who?")


def read(path: Path) -> list[dict[str, Any]]:
    found: Any = load_dataset("parquet", data_files=str(path), cache_dir=str(path.parent))
    return list(found["train"])


def test_a_task_gets_back_the_question_it_has_asked(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", rows([ODD, PLAIN], "test", "evoprompt", "tool"))
    found = read(tmp_path / "train.parquet")
    assert [question_of(row) for row in found] == [ODD, PLAIN]
    assert [row["split"] for row in found] == ["test", "test"]
    assert [row["data_source"] for row in found] == ["tool", "tool"]


def test_the_engine_knows_a_row_by_its_source_and_id() -> None:
    sourced = Question("c", "who?", row={"data_source": "nq"})
    found = [question_from_row(row) for row in rows([PLAIN, sourced], "train", "agent", "tool")]
    assert [question.id for question in found] == ["tool/b", "nq/c"]
    assert [question.text for question in found] == ["who?", "who?"]


def test_a_row_of_another_data_set_is_read_as_the_adapter_reads_it() -> None:
    columns = {
        "raw_prompt": [{"role": "user", "content": "who?"}],
        "reward_model": {"ground_truth": {"target": np.array(["Ada"])}},
        "extra_info": {"index": np.int64(3), "split": "test"},
        "uid": "u",
        "tools": object(),
        "share": float("nan"),
    }
    found = question_of(columns)
    assert (found.id, found.text, found.answers) == ("test/3", "who?", ("Ada",))
    assert found.row["uid"] == "u"
    assert not {"tools", "share"} & set(found.row)

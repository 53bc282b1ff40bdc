"""Questions as rows of a veRL dataset, and back: the engine adds the instruction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from evoprompt_verl.columns import PROMPT, plain

from evoprompt.hosting.rows import question_from_row
from evoprompt.types import Question

Row = dict[str, object]

GREEDY = "greedy"
"""Column of a row that is to be answered without sampling."""

SPLIT = "split"
"""Column that names the split of a question, by which its tools are chosen."""

_QUESTION = "evoprompt_question"
"""Column that holds the whole question as JSON, so that a task scores what it has asked."""


def rows(questions: Sequence[Question], split: str, agent: str, source: str) -> list[Row]:
    """One row a question, in the columns that veRL reads, and two of our own.

    Args:
        questions: what to ask.
        split: theirs.
        agent: name of the agent loop that answers.
        source: name of the data set, for questions whose own row has no ``data_source``; veRL
            groups its metrics by it.
    """
    return [
        {
            "id": question.id,
            "data_source": str(question.row.get("data_source") or source),
            "prompt": [{"role": "user", "content": question.text}],
            "agent_name": agent,
            "reward_model": {
                "style": "rule",
                "ground_truth": {"target": list(question.answers)},
            },
            "extra_info": {"index": index},
            SPLIT: split,
            _QUESTION: json.dumps(asdict(question)),
        }
        for index, question in enumerate(questions)
    ]


def write(path: Path, found: Sequence[Row]) -> None:
    """Writes rows as parquet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(found)), path)


def question_of(columns: Mapping[str, Any]) -> Question:
    """The question that a row asks: the task's own, or what a row of another data set describes.

    Args:
        columns: what veRL hands to an agent loop.

    Raises:
        InputError: the row asks nothing.
    """
    told = columns.get(_QUESTION)
    if told is not None:
        found = json.loads(told)
        return Question(found["id"], found["text"], tuple(found["answers"]), found["row"])
    row = {name: plain(value) for name, value in columns.items() if _is_json(plain(value))}
    return question_from_row({**row, "prompt": row.get("prompt", row.get(PROMPT))})


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True

"""Questions as rows of a veRL dataset, and back: the engine adds the instruction."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from evoprompt_verl.columns import plain
from evoprompt_verl.context import PROMPT

from evoprompt.hosting.rows import ASKED_BY_ENVIRONMENT, question_from_row
from evoprompt.types import Question

Row = dict[str, object]

GREEDY = "greedy"
"""Column of a row whose episode is greedy."""

SPLIT = "split"
"""Column with the split of a question, which selects its tools."""

_QUESTION = "evoprompt_question"
"""Column that holds the whole question as JSON, so that a task scores its own question."""


def rows(questions: Sequence[Question], split: str, agent: str, source: str) -> list[Row]:
    """Return one row per question, in the columns that veRL reads, and two of our own.

    Args:
        questions: of the rows.
        split: of the questions.
        agent: name of the agent loop.
        source: name of the data set, for questions without a ``data_source`` in their row; veRL
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


def write(path: Path, dataset_rows: Sequence[Row]) -> None:
    """Write rows as parquet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(dataset_rows)), path)


def question_of(columns: Mapping[str, Any]) -> Question:
    """Return the question of a row: the task's own, or that of a row of another data set.

    Args:
        columns: columns of the row, as veRL passes them to an agent loop. They may hold no
            question, if an environment asks.
    """
    text = columns.get(_QUESTION)
    if text is not None:
        fields = json.loads(text)
        return Question(fields["id"], fields["text"], tuple(fields["answers"]), fields["row"])
    row = {name: plain(value) for name, value in columns.items() if _is_json(plain(value))}
    prompt = row.get("prompt", row.get(PROMPT))
    return question_from_row({**row, "prompt": prompt}, ASKED_BY_ENVIRONMENT)


def _is_json(value: object) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True

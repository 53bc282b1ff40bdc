"""Questions as rows of a veRL dataset: the question alone, the engine adds the instruction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from datasets import Dataset

from evoprompt.types import Question

Row = dict[str, object]


def rows(questions: Sequence[Question], source: Callable[[Question], str], agent: str) -> list[Row]:
    """One row a question, in the columns that veRL and Search-R1 use.

    Args:
        questions: what to ask.
        source: name of the set a question is from, which veRL groups its metrics by.
        agent: name of the agent loop that answers.
    """
    return [
        {
            "id": question.id,
            "data_source": source(question),
            "prompt": [{"role": "user", "content": question.text}],
            "agent_name": agent,
            "reward_model": {
                "style": "rule",
                "ground_truth": {"target": list(question.answers)},
            },
            "extra_info": {"index": index},
        }
        for index, question in enumerate(questions)
    ]


def write(path: Path, found: Sequence[Row]) -> None:
    """Writes rows as parquet."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Dataset.from_list(list(found)).to_parquet(str(path))

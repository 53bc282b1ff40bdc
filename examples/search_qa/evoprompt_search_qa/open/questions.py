"""Questions from the parquet files that ``evoprompt search-qa data prepare`` writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue

from evoprompt.hosting.rows import question_from_row
from evoprompt.support.errors import InputError
from evoprompt.types import Question

SOURCE = "data_source"
"""Column with the name of the set a question is from."""


def read_questions(path: Path, limit: int | None = None) -> tuple[Question, ...]:
    """Return the questions in the parquet file ``path``, the first ``limit`` of them.

    Raises:
        InputError: there is no such file, or a row of it is no question with an answer.
    """
    import pyarrow
    import pyarrow.parquet

    if not path.is_file():
        raise InputError(
            f"{path} does not exist; required: questions in parquet; make them with "
            "'evoprompt search-qa data prepare'"
        )
    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(
            f"{path} is no parquet file ({error}); required: questions in parquet; make it again "
            "with 'evoprompt search-qa data prepare'"
        ) from error
    rows = (table if limit is None else table.slice(0, limit)).to_pylist()
    if not rows:
        raise InputError(f"{path} holds no question; required: at least one; prepare it again")
    return tuple(_question(row, f"{path}, row {number}") for number, row in enumerate(rows, 1))


def _question(row: Mapping[str, JsonValue], location: str) -> Question:
    try:
        question = question_from_row(row)
    except InputError as error:
        raise InputError(f"{location}: {error}") from error
    if not question.answers:
        raise InputError(
            f"{location} has no answer: its columns are {sorted(row)}; required: golden_answers or "
            "reward_model.ground_truth.target; drop the row or prepare the data again"
        )
    return Question(
        question.id, question.text, question.answers, {SOURCE: str(row.get(SOURCE) or "unknown")}
    )

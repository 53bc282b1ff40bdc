"""Question as it is read from any source, and the row in which it is written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class Record:
    """Question with its answers.

    Attributes:
        source: name of the set it belongs to.
        id: unique within the set.
        question: its text, without any instruction.
        answers: every answer that counts as correct; never empty.
        location: of its source, as ``file:line``.
    """

    source: str
    id: str
    question: str
    answers: tuple[str, ...]

    location: str


def parse(row: object, source: str, location: str) -> Record:
    """Return the record in a row of ``question``, ``golden_answers`` and, optionally, ``id``.

    The answers may also be called ``answers`` or ``answer``.

    Raises:
        ValueError: the row is no question; the message has the reason, without the location.
    """
    if not isinstance(row, Mapping):
        raise ValueError(f"holds {type(row).__name__}; required: an object")
    question = row.get("question")
    if not isinstance(question, str) or not question.strip():
        raise ValueError("asks nothing; required: a 'question'")
    columns = ("golden_answers", "answers", "answer")
    answers = next((texts for name in columns if (texts := _texts(row.get(name)))), ())
    if not answers:
        raise ValueError("has no answer; required: 'answer' or 'golden_answers', a text or several")
    # Without an id, the place is one: a file's line, or a row of a set on the hub.
    identity = row.get("id")
    if identity is None:
        identity = f"row-{location.rpartition(':')[2]}"
    if isinstance(identity, bool) or not isinstance(identity, str | int) or identity == "":
        raise ValueError(f"has the 'id' {identity!r}; required: a text or a whole number")
    return Record(source, str(identity), question.strip(), answers, location)


def to_row(record: Record, split: str, index: int) -> dict[str, JsonValue]:
    """Return the row in the columns that Search-R1, veRL and TRL read."""
    answers: list[JsonValue] = list(record.answers)
    return {
        "id": f"{record.source}/{record.id}",
        "data_source": record.source,
        "question": record.question,
        "golden_answers": answers,
        "prompt": [{"role": "user", "content": record.question}],
        "ability": "fact-reasoning",
        "reward_model": {"style": "rule", "ground_truth": {"target": answers}},
        "extra_info": {"split": split, "index": index},
    }


def _texts(value: object) -> tuple[str, ...]:
    """Return the texts in a text, a number or a sequence, without empty ones."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        value = [str(value)]
    if not isinstance(value, Sequence):
        return ()
    return tuple(text for text in value if isinstance(text, str) and text.strip())

"""The trajectories of one method on one data set: one JSON line per question, appended.

A question is on the disk before the next is begun, so that a kill costs at most the line that was
being written; such a torn line is cut off when the file is opened again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from evoprompt.agents import Episode
from evoprompt.errors import InputError
from evoprompt.types import Question
from evoprompt_search_qa.evaluation import measure


class Spoken(BaseModel):
    """One turn: what the policy wrote and what it was shown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    action: str
    observation: str


class Entry(BaseModel):
    """What became of one question.

    Attributes:
        id: of the question within its set.
        question: what was asked.
        answers: what counts as right.
        turns: what was said and shown.
        metrics: empty when the question is unscored.
        error: why it is unscored; empty when it is scored.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    question: str
    answers: tuple[str, ...]
    turns: tuple[Spoken, ...]
    metrics: dict[str, float]
    error: str

    @classmethod
    def of(cls, question: Question, episode: Episode) -> Entry:
        """The entry of a question and the episode that answered it."""
        failed = episode.end == "failed"
        return cls(
            id=question.id,
            question=question.text,
            answers=question.answers,
            turns=tuple(Spoken(action=t.action, observation=t.observation) for t in episode.turns),
            metrics={} if failed else measure(episode, question),
            error=episode.error if failed else "",
        )


class Journal:
    """The file of one method on one data set.

    Args:
        path: of the file; it need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, Entry]:
        """The entries by id; of a question that was tried again the last one.

        Raises:
            InputError: a line other than the last is no entry.
        """
        if not self.path.exists():
            return {}
        lines = self.path.read_bytes().split(b"\n")
        entries: dict[str, Entry] = {}
        # What comes after the last end of line was torn by a kill.
        for number, line in enumerate(lines[:-1], start=1):
            try:
                entry = Entry.model_validate_json(line)
            except ValidationError as error:
                raise InputError(
                    f"{self.path}:{number} is no entry ({error.error_count()} findings); required: "
                    "the file as it was written; delete the line to ask its question again"
                ) from error
            entries[entry.id] = entry
        return entries

    def repair(self) -> None:
        """Cuts a torn last line off."""
        if self.path.exists():
            content = self.path.read_bytes()
            if not content.endswith(b"\n"):
                os.truncate(self.path, content.rfind(b"\n") + 1)

    def append(self, entries: Iterable[Entry]) -> None:
        """Adds entries; they are on the disk when it returns."""
        lines = [json.dumps(entry.model_dump(mode="json"), ensure_ascii=True) for entry in entries]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in lines)
            file.flush()
            os.fsync(file.fileno())


def scored(entries: Iterable[Entry], metric: str) -> list[float]:
    """The values of ``metric`` of the scored entries."""
    return [entry.metrics[metric] for entry in entries if not entry.error]


def in_order(entries: dict[str, Entry], ids: Sequence[str]) -> list[Entry]:
    """The entries of ``ids`` that are there."""
    return [entries[one] for one in ids if one in entries]

"""Task without code: questions and answers in a file, a prompt in another, a metric by name."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from evoprompt.agents import Episode
from evoprompt.agents.tasks import Score, Task
from evoprompt.components import BuildContext
from evoprompt.experiments.instruction import read_instruction
from evoprompt.hosting.rows import question_from_row
from evoprompt.log.evaluation import MainMetric
from evoprompt.support.errors import InputError
from evoprompt.types import Question

QUESTIONS = "questions"
"""Name of the task."""

Metric = Literal["exact", "contains", "number"]

_SHARES = {"train": 0.5, "validation": 0.75, "test": 1.0}
"""Where each split ends, as a share of the questions of a file that names no splits."""

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class QuestionSettings(BaseModel):
    """File of questions, and the metric of answers to them.

    Attributes:
        data: JSONL: on each line a question with its answer or answers, and perhaps a ``split``.
        prompt: file of the instruction to begin with.
        metric: ``exact``, the answer is one of those expected, but for case, spaces and a full
            stop; ``contains``, it holds one of them; ``number``, its last number is one of them.
    """

    model_config = ConfigDict(extra="forbid")

    data: Path
    prompt: Path
    metric: Metric = "exact"


class Questions(Task):
    """Questions with known answers, and no tool.

    Without splits in the file, half of its questions are for training, a quarter each for
    validation and test, always the same ones.
    """

    Settings = QuestionSettings
    main_metric = MainMetric("solved", "share solved")

    def __init__(self, settings: QuestionSettings) -> None:
        self._settings = settings
        self.seed_instructions = (read_instruction(settings.prompt),)

    @classmethod
    def build(cls, settings: QuestionSettings, context: BuildContext) -> Questions:
        """Return the task that ``settings`` describe."""
        return cls(settings)

    def check(self, probe: bool = False) -> None:
        """Check that its questions can be used.

        Raises:
            InputError: they cannot.
        """
        _ = self._splits

    def questions(self, split: str) -> Sequence[Question]:
        """Return the questions of a split."""
        if split not in self._splits:
            raise InputError(
                f"split is {split!r}; required: one of {', '.join(self._splits)} of "
                f"{self._settings.data}"
            )
        return self._splits[split]

    def score(self, episode: Episode, question: Question) -> Score:
        """Return 1 or 0 for solved or not, by the metric."""
        answer = episode.answer or ""
        solved = float(_solves(self._settings.metric, answer, question.answers))
        feedback = "" if solved else f"expected {' or '.join(question.answers)}"
        return Score(solved, feedback, {"solved": solved})

    @cached_property
    def _splits(self) -> Mapping[str, Sequence[Question]]:
        rows = _rows(self._settings.data)
        named = dict.fromkeys(str(row["split"]) for row, _ in rows if "split" in row)
        if named:
            return {
                name: [question for row, question in rows if row.get("split") == name]
                for name in named
            }
        shuffled = random.Random("split").sample([question for _, question in rows], len(rows))
        ends = [0, *(round(share * len(rows)) for share in _SHARES.values())]
        return {name: shuffled[ends[at] : ends[at + 1]] for at, name in enumerate(_SHARES)}


def _rows(file: Path) -> list[tuple[Mapping[str, Any], Question]]:
    """Return the lines of a file with their questions; a repeated question keeps all answers.

    Raises:
        InputError: the file cannot be read, or a line is no question with an answer.
    """
    rows_by_text: dict[str, tuple[Mapping[str, Any], Question]] = {}
    for number, line in numbered_lines(file):
        try:
            row = json.loads(line)
            question = question_from_row(row)
        except (InputError, ValueError, AttributeError) as error:
            raise InputError(
                f"{file}:{number} is no question ({error}); required: an object such as "
                '{"question": "2 + 2?", "answer": "4"}'
            ) from error
        if not question.answers:
            raise InputError(
                f"{file}:{number} has no answer; required: a text as 'answer', or a list of them "
                "as 'answers'"
            )
        if earlier := rows_by_text.get(question.text):
            answers = (*earlier[1].answers, *question.answers)
            row, question = earlier[0], replace(earlier[1], answers=tuple(dict.fromkeys(answers)))
        rows_by_text[question.text] = row, question
    return list(rows_by_text.values())


def numbered_lines(file: Path) -> list[tuple[int, str]]:
    """Return the lines of a JSONL file that are not blank, with their numbers from 1.

    Raises:
        InputError: it cannot be read.
    """
    try:
        # Line feeds alone end a line: a JSON string may hold other separators, such as U+2028.
        lines = file.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read ({error}); required: a JSONL file") from error
    return [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")


def _number(text: str) -> float | None:
    numbers = _NUMBER.findall(text.replace(",", ""))
    return float(numbers[-1]) if numbers else None


def _solves(metric: Metric, answer: str, expected: Sequence[str]) -> bool:
    match metric:
        case "exact":
            return _plain(answer) in map(_plain, expected)
        case "contains":
            return any(_plain(right_answer) in _plain(answer) for right_answer in expected)
        case "number":
            return _number(answer) is not None and _number(answer) in map(_number, expected)

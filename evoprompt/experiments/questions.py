"""Task without code: a table of questions and answers, a prompt file, metrics by name."""

from __future__ import annotations

import importlib
import random
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, get_args

from pydantic import BaseModel, JsonValue, field_validator

from evoprompt.agents import Episode
from evoprompt.agents.tasks import Score, Task
from evoprompt.components import BuildContext
from evoprompt.experiments.instruction import read_instruction
from evoprompt.experiments.placeholders import as_text, fill, placeholders_of
from evoprompt.experiments.tables import read_table
from evoprompt.hosting.prompts import Prompt, Render
from evoprompt.hosting.rows import question_from_row
from evoprompt.log.evaluation import MainMetric
from evoprompt.optimizer.runner import parts_of, usable_reward
from evoprompt.support.errors import InputError
from evoprompt.support.text import format_error
from evoprompt.types import Candidate, Question

QUESTIONS = "questions"
"""Name of the task."""

Metric = Literal["exact", "contains", "number"]
_METRICS = get_args(Metric)

Row = Mapping[str, JsonValue]
PlacedQuestion = tuple[Row, Question]
"""Row of a table, and its question."""

_SHARES = {"train": 0.5, "validation": 0.75, "test": 1.0}
"""Where each split ends, as a share of the questions of a file that names no splits."""

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class QuestionSettings(BaseModel, extra="forbid"):
    """File of questions, and the metric of answers to them.

    Attributes:
        data: table in JSONL, CSV (with commas, semicolons or tabs) or Parquet: in each row a
            question with its answer or answers, and perhaps a ``split``.
        prompt: file of the instruction to begin with; ``{column}`` in it stands for the value of
            this column, and the model then gets the filled prompt alone.
        answer: column of the answers; null for ``answer``, ``answers`` or ``golden_answers``.
        metric: ``exact``, the answer is one of those expected, but for case, spaces and a full
            stop; ``contains``, it holds one of them; ``number``, its last number is one of them;
            or ``module:function``, a function of the row and the output that returns a number or
            a Score, at most 1. Of a list of metrics the mean counts.
    """

    data: Path
    prompt: Path
    answer: str | None = None
    metric: str | list[str] = "exact"

    @field_validator("metric")
    @classmethod
    def _check_metric(cls, metric: str | list[str]) -> str | list[str]:
        names = [metric] if isinstance(metric, str) else metric
        for name in names:
            if name not in _METRICS and not all(name.partition(":")):
                raise InputError(
                    f"metric is {name!r}; required: {', '.join(_METRICS)}, or module:function"
                )
        if not names or len(set(names)) < len(names):
            raise InputError(f"metric is {metric}; required: at least one, and each of them once")
        return metric


class Questions(Task):
    """Questions with known answers, and no tool.

    Without splits in the file, half of its questions are for training, a quarter each for
    validation and test, always the same ones.
    """

    Settings = QuestionSettings
    main_metric = MainMetric("solved", "share solved")

    def __init__(self, settings: QuestionSettings) -> None:
        self._settings = settings
        prompt = read_instruction(settings.prompt)
        self.seed_instructions = (prompt,)
        names = [settings.metric] if isinstance(settings.metric, str) else settings.metric
        self._metrics = {name: _metric_of(name) for name in names}
        self._prompt = prompt

    @cached_property
    def _columns(self) -> Sequence[str]:
        """Return the columns for which the prompt has a placeholder."""
        columns = dict.fromkeys(name for _, row in read_table(self._settings.data) for name in row)
        return placeholders_of(self._prompt, columns, str(self._settings.prompt))

    @property
    def required(self) -> Sequence[str]:  # type: ignore[override]  # the columns are of the file
        """Return the placeholders of the prompt, which every instruction must hold."""
        return [f"{{{name}}}" for name in self._columns]

    @property
    def render(self) -> Render:
        """Return the function that fills the placeholders of an instruction, if there are any."""
        if not self._columns:
            return super().render
        rows = self._rows_by_text

        def render(prompt: Prompt, candidate: Candidate) -> Prompt:
            text = prompt if isinstance(prompt, str) else str(prompt[-1]["content"])
            filled = fill(candidate.instruction, rows.get(text, {}), self._columns)
            return filled if isinstance(prompt, str) else [{"role": "user", "content": filled}]

        return render

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
        output = episode.answer or ""
        row = self._rows_by_text.get(question.text, question.row)
        scores = {name: metric(row, question, output) for name, metric in self._metrics.items()}
        solved = fmean(reward for reward, _ in scores.values())
        feedback = "\n".join(dict.fromkeys(text for _, text in scores.values() if text))
        values = {name: reward for name, (reward, _) in scores.items()} if len(scores) > 1 else {}
        return Score(solved, feedback, {"solved": solved, **values})

    @cached_property
    def _placed_questions(self) -> Sequence[PlacedQuestion]:
        return _rows(self._settings, self._columns)

    @cached_property
    def _rows_by_text(self) -> Mapping[str, Mapping[str, JsonValue]]:
        return {question.text: row for row, question in self._placed_questions}

    @cached_property
    def _splits(self) -> Mapping[str, Sequence[Question]]:
        rows = self._placed_questions
        named = dict.fromkeys(str(row["split"]) for row, _ in rows if "split" in row)
        if named:
            return {
                name: [question for row, question in rows if row.get("split") == name]
                for name in named
            }
        shuffled = random.Random("split").sample([question for _, question in rows], len(rows))
        ends = [0, *(round(share * len(rows)) for share in _SHARES.values())]
        return {name: shuffled[ends[at] : ends[at + 1]] for at, name in enumerate(_SHARES)}


def _rows(settings: QuestionSettings, columns: Sequence[str]) -> list[PlacedQuestion]:
    """Return the rows of a table with their questions; a repeated question keeps all answers.

    Args:
        settings: the table, and its column of answers.
        columns: those that the prompt shows; if there are none, a row has a column ``question``.

    Raises:
        InputError: the table cannot be read, or a row is no question with an answer.
    """
    rows_by_text: dict[str, PlacedQuestion] = {}
    for location, row in read_table(settings.data):
        question = _question_of(location, row, columns, settings.answer)
        if not question.answers:
            named = "a text as 'answer', or a list of them as 'answers'; --answer names the column"
            raise InputError(
                f"{location} has no answer; required: "
                f"{named if settings.answer is None else f'one in the column {settings.answer}'}"
            )
        if earlier := rows_by_text.get(question.text):
            answers = (*earlier[1].answers, *question.answers)
            row, question = earlier[0], replace(earlier[1], answers=tuple(dict.fromkeys(answers)))
        rows_by_text[question.text] = row, question
    return list(rows_by_text.values())


def _question_of(
    location: str, row: Mapping[str, JsonValue], columns: Sequence[str], answer: str | None
) -> Question:
    """Return the question of a row: what the prompt shows of it, and its answers."""
    if missing := [name for name in (*columns, *filter(None, [answer])) if name not in row]:
        raise InputError(
            f"{location} has no column {missing[0]!r}; required: {', '.join(sorted(row))} and "
            f"{missing[0]}, as the prompt or --answer names it; add it, or correct the name"
        )
    values = {name: as_text(row[name]) for name in columns}
    question_field = {"question": _as_question(values)} if columns else {}
    gold = {"golden_answers": row[answer]} if answer is not None else {}
    try:
        return question_from_row({**row, **question_field, **gold})
    except InputError as error:
        raise InputError(
            f"{location} is no question ({error}); required: an object such as "
            '{"question": "2 + 2?", "answer": "4"}, or a prompt with a placeholder such as {text}'
        ) from error


def _as_question(values: Mapping[str, str]) -> str:
    """Return the values of the placeholders as the text of a question."""
    if len(values) == 1:
        return next(iter(values.values()))
    return "\n".join(f"{name}: {value}" for name, value in values.items())


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".")


def _number(text: str) -> float | None:
    numbers = _NUMBER.findall(text.replace(",", ""))
    return float(numbers[-1]) if numbers else None


def _metric_of(name: str) -> Callable[[Row, Question, str], tuple[float, str]]:
    """Return the metric called ``name``, which returns a reward and a feedback.

    Raises:
        InputError: it cannot be imported.
    """
    if name in _METRICS:

        def solves(
            row: Mapping[str, JsonValue], question: Question, output: str
        ) -> tuple[float, str]:
            solved = float(_solves(name, output, question.answers))
            return solved, "" if solved else f"expected {' or '.join(question.answers)}"

        return solves
    function = _imported(name)

    def scores(row: Row, question: Question, output: str) -> tuple[float, str]:
        try:
            reward, feedback = parts_of(function(dict(row), output))
        except Exception as error:  # the user's code
            raise InputError(
                f"the metric {name} raised {format_error(error)} for {question.text[:80]!r}; "
                "required: a number or a Score; let it give bad outputs a low number"
            ) from error
        return usable_reward(reward, f"for {question.text[:80]!r}", 1.0), feedback

    return scores


def _imported(name: str) -> Callable[[dict[str, JsonValue], str], Any]:
    """Return a function by ``module:function``; modules of the working directory are found, too.

    Raises:
        InputError: there is none.
    """
    module_name, _, function_name = name.partition(":")
    if (folder := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, folder)
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except Exception as error:  # the user's module
        raise InputError(
            f"metric is {name} ({format_error(error)}); required: module:function, in a module of "
            "this folder or of an installed package; correct it"
        ) from error
    if not callable(function):
        raise InputError(f"metric is {name}, which is {function!r:.80}; required: a function")
    return function  # type: ignore[no-any-return]  # its results are checked


def _solves(metric: str, answer: str, expected: Sequence[str]) -> bool:
    match metric:
        case "exact":
            return _plain(answer) in map(_plain, expected)
        case "contains":
            return any(_plain(right_answer) in _plain(answer) for right_answer in expected)
        case "number":
            return _number(answer) is not None and _number(answer) in map(_number, expected)
    raise AssertionError(metric)

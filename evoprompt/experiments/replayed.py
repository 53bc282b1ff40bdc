"""Results of a page, computed again from the recorded answers, without a model.

::

    RESULTS/
      results.yaml        the page, and the answers of each of its numbers
      *.jsonl.gz          answers.jsonl of ``evoprompt eval --output``

A row of the page is ``| NAME | NUMBER |``. A name is that of a cell, with one kind of question in
parentheses where it is of these alone, or ``CELL - CELL`` for the difference, paired by question;
the part before the last comma of the first may be left out in the second. Where ``results.yaml``
defines under ``seeds`` a name for several seeds, such as ``shops: [shop 35, shop 36]``, a row
``shops, ...`` is the mean over them. A number has one of three forms:

=================================  ===========================================================
``.417 ± .089 (120 questions)``    one seed; Student's interval of 95 % over its questions
``.383 (2 seeds: .417, .350)``     two seeds; each seed's mean, and no interval
``.543 ± .261 (5 seeds)``          Student's interval of 95 % over the means of the seeds
=================================  ===========================================================

:func:`evoprompt.experiments.intervals.interval_over_seeds` documents what an interval covers.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from pydantic import BaseModel

from evoprompt.agents import Episode, TextTokenizer
from evoprompt.agents.tasks import Task
from evoprompt.experiments.answers import AGENT, RecordedAnswer
from evoprompt.experiments.intervals import interval_over_seeds
from evoprompt.log.evaluation import value_of
from evoprompt.plugins import Choice, build
from evoprompt.support import yamlfile
from evoprompt.support.errors import InputError
from evoprompt.support.validation import nearest, validate_settings

FILE = "results.yaml"

VERSION = 1

_ROW = re.compile(r"^\| ([^|]+?) \| (-?\d?\.\d+ [±(][^|]*\)) \|", re.MULTILINE)
_NAME = re.compile(r"(?P<first>.+?)(?: - (?P<second>.+?))?(?: \((?P<kind>.+)\))?")


class AnswerSource(BaseModel, frozen=True, extra="forbid"):
    """Answers of one policy under one instruction.

    Attributes:
        answers: file in the folder of ``results.yaml``.
        sha256: of the file.
        method: of the answers; a file may hold the answers of several policies to a question side
            by side, which compresses well, each under a method of its own.
        task: by name, with its settings.
        split: of the questions.
    """

    answers: str
    sha256: str
    task: Choice
    split: str = "test"
    method: str = AGENT


class _Form(BaseModel, frozen=True, extra="forbid"):
    version: int
    page: str
    cells: dict[str, AnswerSource]
    seeds: dict[str, tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True)
class PageNumber:
    """Number of the page.

    Attributes:
        name: as the page has it.
        mean: of the seeds' means.
        half: of the interval of 95 %; None for two seeds.
        seeds: mean of each seed over its questions.
        questions: of all seeds together.
        page_text: the number as the page has it.
    """

    name: str
    mean: float
    half: float | None
    seeds: tuple[float, ...]
    questions: int
    page_text: str

    @property
    def text(self) -> str:
        """Return the number in the page's form."""
        if self.half is None:
            means = ", ".join(f"{mean:.3f}" for mean in self.seeds)
            text = f"{self.mean:.3f} ({len(self.seeds)} seeds: {means})"
        else:
            several = len(self.seeds) > 1
            basis = f"{len(self.seeds)} seeds" if several else f"{self.questions} questions"
            text = f"{self.mean:.3f} ± {self.half:.3f} ({basis})"
        return re.sub(r"\b0\.", ".", text)


class PageResults:
    """Results of a page.

    Args:
        folder: with ``results.yaml``.

    Attributes:
        cells: by name.
        seeds: the seeds that a name in their place stands for.
        rows: names of the page's rows.

    Raises:
        InputError: the file is missing or of another version, or the page is missing.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        file = folder / FILE
        form_data = yamlfile.read(file)
        if form_data.get("version") != VERSION:
            raise InputError(
                f"{file} is of version {form_data.get('version')}; required: {VERSION}; install "
                "the evoprompt that wrote it"
            )
        form = validate_settings(_Form, form_data, str(file))
        self.cells = form.cells
        self.seeds = form.seeds
        page = folder / form.page
        try:
            text = page.read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(
                f"{page} cannot be read ({error}); required: the page that {file} names"
            ) from error
        self._page_texts: dict[str, str] = dict(_ROW.findall(text))
        self.rows = tuple(self._page_texts)
        self._values: dict[str, Mapping[str, tuple[str, float]]] = {}
        self._answers: dict[tuple[str, str], Mapping[str, Sequence[RecordedAnswer]]] = {}

    def row(self, name: str) -> PageNumber:
        """Return a row, computed again.

        Raises:
            InputError: the page has no such row, or answers differ from the recorded ones: another
                file, another question, or a score that the task does not give.
        """
        if name not in self._page_texts:
            raise InputError(
                f"{name!r} is no row of the page; required: one of {', '.join(self._page_texts)}"
                f"{nearest(name, self._page_texts)}"
            )
        parts = _NAME.fullmatch(name)
        assert parts is not None
        of, comma, arm = parts["first"].rpartition(", ")
        seeds = [
            self._values_of(f"{seed}{comma}{arm}", parts["second"], parts["kind"])
            for seed in self.seeds.get(of, (of,))
        ]
        means = tuple(fmean(values) for values in seeds)
        interval = interval_over_seeds(seeds)
        half = None if interval is None else interval.half
        questions = sum(map(len, seeds))
        return PageNumber(name, fmean(means), half, means, questions, self._page_texts[name])

    def _values_of(self, first: str, second: str | None, kind: str | None) -> list[float]:
        """Return the value of a cell for each question, or its difference to a ``second`` cell."""
        values = self._cell(first)
        beside: Mapping[str, tuple[str, float]] = dict.fromkeys(values, ("", 0.0))
        if second is not None:
            has_cell = second in self.cells
            beside = self._cell(second if has_cell else f"{first.rpartition(', ')[0]}, {second}")
        if values.keys() != beside.keys():
            raise InputError(
                f"{first!r} and {second!r} are answers to other questions; required: the same"
            )
        question_values = [
            value - beside[question][1]
            for question, (of, value) in values.items()
            if kind is None or of == kind
        ]
        if len(question_values) < 2:
            raise InputError(
                f"{first!r} has {len(question_values)} questions of {kind!r}; required: two; of "
                f"the kinds {', '.join(sorted({of for of, _ in values.values()}))}"
            )
        return question_values

    def _cell(self, name: str) -> Mapping[str, tuple[str, float]]:
        """Return kind and value of each question, as the task scores the recorded answer."""
        if name not in self.cells:
            raise InputError(
                f"{name!r} is no cell of {self._folder / FILE}; required: one of "
                f"{', '.join(self.cells)}{nearest(name, self.cells)}"
            )
        if name not in self._values:
            self._values[name] = self._score_cell(self.cells[name])
        return self._values[name]

    def _score_cell(self, cell: AnswerSource) -> Mapping[str, tuple[str, float]]:
        file = self._folder / cell.answers
        task: Task = build("task", cell.task)
        protocol = task.protocol(TextTokenizer())
        questions = {question.id: question for question in task.questions(cell.split)}
        values: dict[str, tuple[str, float]] = {}
        for answer in self._answers_in(cell).get(cell.method, ()):
            question = questions.pop(answer.id, None)
            if question is None or question.text != answer.question:
                raise InputError(
                    f"{file} has an answer to {answer.id!r} that the task does not ask, or not so, "
                    "or that was there before; required: one to each question of the task"
                )
            final_answer = protocol.read(answer.turns[-1].action).answer if answer.turns else None
            score = task.score(Episode([], turns=list(answer.turns), answer=final_answer), question)
            value = value_of(score, task.main_metric)
            if value != answer.value:
                raise InputError(
                    f"{file} records {answer.value} for {answer.id!r}, but the task computes "
                    f"{value}; required: the value of the task for the recorded answer"
                )
            values[answer.id] = score.kind, value
        if questions:
            raise InputError(
                f"{file} lacks {len(questions)} of the task's questions; required: all"
            )
        return values

    def _answers_in(self, cell: AnswerSource) -> Mapping[str, Sequence[RecordedAnswer]]:
        """Return the answers of a cell's file, by method; the file is read once."""
        key = cell.answers, cell.sha256
        if key in self._answers:
            return self._answers[key]
        file = self._folder / cell.answers
        try:
            packed = file.read_bytes()
        except OSError as error:
            raise InputError(f"{file} cannot be read ({error}); required: the answers") from error
        if (digest := hashlib.sha256(packed).hexdigest()) != cell.sha256:
            raise InputError(
                f"{file} has the SHA-256 {digest}; required: {cell.sha256}, as recorded; restore it"
            )
        by_method: dict[str, list[RecordedAnswer]] = {}
        for line in gzip.decompress(packed).decode("utf-8").strip("\n").split("\n"):
            answer = RecordedAnswer.model_validate_json(line)
            by_method.setdefault(answer.method, []).append(answer)
        self._answers[key] = by_method
        return by_method

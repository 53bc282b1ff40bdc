"""Results of a page, computed again from the answers that were recorded, without a model.

::

    RESULTS/
      results.yaml        the page, and of which answers each of its numbers is
      *.jsonl.gz          answers.jsonl of ``evoprompt eval --output``

A row of the page is ``| NAME | mean ± half of its interval |``. A name is that of a cell, with one
kind of question in parentheses where it is of these alone, or ``CELL - CELL`` for the difference,
paired by question; what stands before the last comma of the first may be left out in the second.
Where ``results.yaml`` says under ``seeds`` for what several names stand, such as ``shops: [shop 35,
shop 36]``, a row ``shops, ...`` is the mean over them. Its interval is that of a bootstrap of seeds
and, within them, of questions, of which the variance is known without drawing.
"""

from __future__ import annotations

import gzip
import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, pvariance, variance

from pydantic import BaseModel, ConfigDict, ValidationError

from evoprompt import yamlfile
from evoprompt.agents import Episode, TextTokenizer
from evoprompt.agents.tasks import Task
from evoprompt.errors import InputError
from evoprompt.evaluation import value_of
from evoprompt.experiments.answers import Answer
from evoprompt.plugins import Choice, build
from evoprompt.validation import explain, nearest

FILE = "results.yaml"

VERSION = 1

_TWO_SIDED = 1.96  # standard errors to either side in an interval of 95 %
_ROW = re.compile(r"^\| ([^|]+?) \| (-?\.\d+|-?\d\.\d+) ± (\.\d+) \|", re.MULTILINE)
_NAME = re.compile(r"(?P<first>.+?)(?: - (?P<second>.+?))?(?: \((?P<kind>.+)\))?")


class Cell(BaseModel):
    """The answers of one policy under one instruction.

    Attributes:
        answers: file beside ``results.yaml``.
        sha256: of the file.
        task: by name, with its settings.
        split: whose questions were asked.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    answers: str
    sha256: str
    task: Choice
    split: str = "test"


class _Form(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    version: int
    page: str
    cells: dict[str, Cell]
    seeds: dict[str, tuple[str, ...]] = {}


@dataclass(frozen=True, slots=True)
class Row:
    """A number of the page.

    Attributes:
        name: as the page has it.
        mean: over the questions, and over seeds where it is of several.
        half: of its interval of 95 %, over the same.
        questions: how many.
        shown: mean and half of the interval that the page shows.
    """

    name: str
    mean: float
    half: float
    questions: int
    shown: str

    @property
    def found(self) -> str:
        """Mean and half of the interval, in the page's form."""
        return re.sub(r"\b0\.", ".", f"{self.mean:.3f} ± {self.half:.3f}")


class Results:
    """The results of a page.

    Args:
        folder: with ``results.yaml``.

    Attributes:
        cells: by name.
        seeds: for what a name in their place stands.
        rows: names of the page's rows.

    Raises:
        InputError: it is missing or of another version, or the page is.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        file = folder / FILE
        given = yamlfile.read(file)
        if given.get("version") != VERSION:
            raise InputError(
                f"{file} is of version {given.get('version')}; required: {VERSION}; install the "
                "evoprompt that wrote it"
            )
        try:
            form = _Form.model_validate(given)
        except ValidationError as error:
            raise InputError(f"{file}: {explain(error, _Form)}") from error
        self.cells = form.cells
        self.seeds = form.seeds
        page = folder / form.page
        try:
            text = page.read_text(encoding="utf-8")
        except OSError as error:
            raise InputError(
                f"{page} cannot be read ({error}); required: the page that {file} names"
            ) from error
        self._shown = {name: f"{mean} ± {half}" for name, mean, half in _ROW.findall(text)}
        self.rows = tuple(self._shown)
        self._values: dict[str, Mapping[str, tuple[str, float]]] = {}

    def row(self, name: str) -> Row:
        """A row, computed again.

        Raises:
            InputError: the page has no such row, or answers are not what was recorded: another
                file, another question, or a score that the task does not give.
        """
        if name not in self._shown:
            raise InputError(
                f"{name!r} is no row of the page; required: one of {', '.join(self._shown)}"
                f"{nearest(name, self._shown)}"
            )
        parts = _NAME.fullmatch(name)
        assert parts is not None
        of, comma, arm = parts["first"].rpartition(", ")
        found = [
            self._values_of(f"{seed}{comma}{arm}", parts["second"], parts["kind"])
            for seed in self.seeds.get(of, (of,))
        ]
        means = [fmean(values) for values in found]
        within = fmean(variance(values) / len(values) for values in found)
        half = _TWO_SIDED * math.sqrt((pvariance(means) + within) / len(found))
        return Row(name, fmean(means), half, sum(map(len, found)), self._shown[name])

    def _values_of(self, first: str, second: str | None, kind: str | None) -> list[float]:
        """What a cell, or its difference to a ``second`` one, is for each question."""
        values = self._cell(first)
        beside: Mapping[str, tuple[str, float]] = dict.fromkeys(values, ("", 0.0))
        if second is not None:
            known = second in self.cells
            beside = self._cell(second if known else f"{first.rpartition(', ')[0]}, {second}")
        if values.keys() != beside.keys():
            raise InputError(
                f"{first!r} and {second!r} are answers to other questions; required: the same"
            )
        found = [
            value - beside[question][1]
            for question, (of, value) in values.items()
            if kind is None or of == kind
        ]
        if len(found) < 2:
            raise InputError(
                f"{first!r} has {len(found)} questions of {kind!r}; required: two; of the kinds "
                f"{', '.join(sorted({of for of, _ in values.values()}))}"
            )
        return found

    def _cell(self, name: str) -> Mapping[str, tuple[str, float]]:
        """Kind and value of each question, as the task scores what was answered."""
        if name not in self.cells:
            raise InputError(
                f"{name!r} is no cell of {self._folder / FILE}; required: one of "
                f"{', '.join(self.cells)}{nearest(name, self.cells)}"
            )
        if name not in self._values:
            self._values[name] = self._scored(self.cells[name])
        return self._values[name]

    def _scored(self, cell: Cell) -> Mapping[str, tuple[str, float]]:
        file = self._folder / cell.answers
        try:
            packed = file.read_bytes()
        except OSError as error:
            raise InputError(f"{file} cannot be read ({error}); required: the answers") from error
        if (found := hashlib.sha256(packed).hexdigest()) != cell.sha256:
            raise InputError(
                f"{file} has the SHA-256 {found}; required: {cell.sha256}, as recorded; restore it"
            )
        task: Task = build("task", cell.task)
        protocol = task.protocol(TextTokenizer())
        questions = {one.id: one for one in task.questions(cell.split)}
        values: dict[str, tuple[str, float]] = {}
        for line in gzip.decompress(packed).decode("utf-8").splitlines():
            answer = Answer.model_validate_json(line)
            question = questions.pop(answer.id, None)
            if question is None or question.text != answer.question:
                raise InputError(
                    f"{file} has an answer to {answer.id!r} that the task does not ask, or not so, "
                    "or that was there before; required: one to each question of the task"
                )
            said = protocol.read(answer.turns[-1].action).answer if answer.turns else None
            score = task.score(Episode([], turns=list(answer.turns), answer=said), question)
            value = value_of(score, task.main_metric)
            if value != answer.value:
                raise InputError(
                    f"{file} says {answer.value} of {answer.id!r}, but the task says {value}; "
                    "required: what the task says of the recorded answer"
                )
            values[answer.id] = score.kind, value
        if questions:
            raise InputError(
                f"{file} lacks {len(questions)} of the task's questions; required: all"
            )
        return values

"""Table of an evaluation, in the shape of the paper's Table 1, and the page of its answers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, variance

from pydantic import BaseModel

from evoprompt.agents.tasks import Method
from evoprompt.experiments.answers import EvaluationFolder, QuestionKind, RecordedAnswer
from evoprompt.experiments.intervals import student_quantile
from evoprompt.support.storage import write_whole

MOST_UNSCORED = 0.05
"""Share of a kind's questions without a score above which nothing is published: questions that
need no tool, or short ones, would be favoured among the remaining questions."""

_SHOWN = 500  # answers of each method and kind on the page


class TableCell(BaseModel, frozen=True):
    """One number of the table.

    Attributes:
        value: mean of the main metric; None where too few questions were scored.
        low: lower end of the interval; None for a kind with a single scored question.
        high: upper end.
        scored: number of questions with a score.
        unscored: number of questions without a score; they count neither as right nor as wrong.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    scored: int = 0
    unscored: int = 0

    def __str__(self) -> str:
        text = "-" if self.value is None else f"{100 * self.value:.1f}"
        if self.low is not None and self.high is not None:
            text += f" [{100 * self.low:.1f}, {100 * self.high:.1f}]"
        return text + (f" ({self.unscored} unscored)" if self.unscored else "")


class Table(BaseModel, frozen=True):
    """Methods by kinds of questions.

    Attributes:
        title: what the numbers are.
        columns: the kinds, then the average over them.
        rows: the cells of each method, by its title.
        calls: mean number of tool calls a question, such as searches, by title.
    """

    title: str
    columns: tuple[str, ...]
    rows: Mapping[str, tuple[TableCell, ...]]
    calls: Mapping[str, float]

    @property
    def unscored(self) -> int:
        """Return the number of questions without a score."""
        return sum(cells[-1].unscored for cells in self.rows.values())

    def markdown(self) -> str:
        """Return the table in percent, with intervals in brackets and unscored questions named."""
        lines = [
            f"{self.title}; brackets: 95 % intervals over questions.",
            "",
            "| method | " + " | ".join(self.columns) + " | calls |",
            "|---|" + "---:|" * (len(self.columns) + 1),
        ]
        for name, cells in self.rows.items():
            calls = f"{self.calls[name]:.2f}" if name in self.calls else "-"
            lines.append(f"| {name} | " + " | ".join(map(str, cells)) + f" | {calls} |")
        if any(cell.value is None for cells in self.rows.values() for cell in cells):
            lines += [
                "",
                f"A cell has no value where more than {MOST_UNSCORED:.0%} of the questions are "
                "unscored: those that are left are no fair sample.",
            ]
        return "\n".join(lines) + "\n"


def table_of(
    evaluation: EvaluationFolder,
    methods: Mapping[str, Method],
    kinds: Sequence[QuestionKind],
    main_metric: str,
) -> Table:
    """Return the table of the answers so far."""
    rows, calls = {}, {}
    question_counts = [len(kind.questions) for kind in kinds]
    for name, method in methods.items():
        kind_answers = [evaluation.answers(name, kind.questions) for kind in kinds]
        values = [
            [answer.value for answer in kind if answer.value is not None] for kind in kind_answers
        ]
        kind_cells = [
            _cell([scores], [count]) for scores, count in zip(values, question_counts, strict=True)
        ]
        rows[method.title] = (*kind_cells, _cell(values, question_counts))
        counts = [
            answer.metrics["tool_calls"]
            for kind in kind_answers
            for answer in kind
            if not answer.error
        ]
        if counts:
            calls[method.title] = fmean(counts)
    columns = (*(kind.name for kind in kinds), "average")
    return Table(title=f"{main_metric.capitalize()} in %", columns=columns, rows=rows, calls=calls)


def write_files(
    evaluation: EvaluationFolder,
    table: Table,
    methods: Mapping[str, Method],
    kinds: Sequence[QuestionKind],
) -> list[Path]:
    """Write the table and the page of all answers, for a browser; return the paths."""
    page_answers = [
        {**answer.model_dump(mode="json"), "kind": kind.name, "outcome": _outcome(answer)}
        for name in methods
        for kind in kinds
        for answer in evaluation.answers(name, kind.questions)[:_SHOWN]
    ]
    page = Path(__file__).with_name("answers.html").read_text(encoding="utf-8")
    data = json.dumps(page_answers).replace("<", r"\u003c")  # so that no text ends the script
    texts = {
        "table.md": table.markdown(),
        "table.json": table.model_dump_json(indent=2) + "\n",
        "trajectories.html": page.replace("MOST", str(_SHOWN)).replace("ANSWERS", data),
    }
    for name, text in texts.items():
        write_whole(evaluation.folder / name, text)
    return [evaluation.folder / name for name in texts]


def _outcome(answer: RecordedAnswer) -> str:
    if answer.error:
        return "unscored"
    return "right" if answer.value == 1.0 else "wrong"


def _cell(kinds: Sequence[Sequence[float]], question_counts: Sequence[int]) -> TableCell:
    """Return the mean over kinds; without a value if too many questions of a kind have no score."""
    count = sum(map(len, kinds))
    unscored = sum(question_counts) - count
    pairs = zip(kinds, question_counts, strict=True)
    if any(of - len(values) > MOST_UNSCORED * of for values, of in pairs):
        return TableCell(value=None, scored=count, unscored=unscored)
    mean = fmean(map(fmean, kinds))
    # Questions are drawn within each kind, so the mean over kinds varies as its parts do.
    smallest = min(map(len, kinds))
    if smallest < 2:
        return TableCell(value=mean, scored=count, unscored=unscored)
    error = math.sqrt(sum(variance(values) / len(values) for values in kinds)) / len(kinds)
    # The degrees of freedom of the smallest kind give an interval that is never too narrow.
    half = student_quantile(smallest - 1) * error
    low = max(mean - half, min(map(min, kinds)))
    high = min(mean + half, max(map(max, kinds)))
    return TableCell(value=mean, low=low, high=high, scored=count, unscored=unscored)

"""Asks every question of every set by every method, and makes the table of what is there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from evoprompt.checkpoint import write_whole
from evoprompt.errors import EvopromptError, InputError
from evoprompt_search_qa.harness.journal import Entry, Journal, in_order, scored
from evoprompt_search_qa.harness.sources import DataSet
from evoprompt_search_qa.harness.statistics import compare, estimate
from evoprompt_search_qa.harness.table import AVERAGE, Cell, Row, Table
from evoprompt_search_qa.methods.dialect import Dialect
from evoprompt_search_qa.methods.play import Search, play
from evoprompt_search_qa.methods.registry import METHODS
from evoprompt_search_qa.policies.base import Policy

PATIENCE = 20
"""Unscored questions in a row after which an evaluation stops: policy or search must be down."""

SETTINGS = "evaluation.json"
INTERVALS = "brackets: 95 % bootstrap intervals over questions"

OnEntries = Callable[[str, str, Sequence[Entry]], None]
"""Is told of a method, a data set and the entries that were added."""


class StoppedError(EvopromptError, RuntimeError):
    """Too many questions in a row could not be asked; what was answered is kept."""


class Settings(BaseModel):
    """What must stay the same when an evaluation is continued.

    Attributes:
        policy: as it was named.
        retriever: address of the search server, None for the tiny world's own search.
        instructions: of every method.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: str
    retriever: str | None
    instructions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Contestant:
    """Whom to ask.

    Attributes:
        policy: who answers.
        dialect: how it is spoken to.
        search: the tool, by data set.
    """

    policy: Policy
    dialect: Dialect
    search: Callable[[DataSet], Search]


class Evaluation:
    """The output folder of an evaluation.

    ::

        FOLDER/
          evaluation.json
          trajectories/METHOD/SET.jsonl
          table.md table.csv table.json

    Args:
        folder: where it lives; it need not exist.
        settings: of this evaluation.

    Raises:
        InputError: the folder holds an evaluation with other settings, or something else.
    """

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self._settings = settings
        path = folder / SETTINGS
        if path.is_file():
            self._require_same(path)
        elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(
                f"--output is {folder}, which holds something else; required: a new folder, or "
                "that of an evaluation to continue"
            )

    def begin(self) -> None:
        """Writes the settings into the folder, which from now on is for them alone."""
        write_whole(self.folder / SETTINGS, self._settings.model_dump_json(indent=2) + "\n")

    def journal(self, method: str, data_set: str) -> Journal:
        """The trajectories of one method on one set."""
        return journal(self.folder, method, data_set)

    def todo(self, method: str, data: DataSet) -> list[int]:
        """Positions of the questions without a score; those asked in vain are asked again.

        Raises:
            InputError: the file holds another question under the same id.
        """
        file = self.journal(method, data.name)
        entries = file.read()
        for question in data.questions:
            entry = entries.get(question.id)
            if entry is not None and entry.question != question.text:
                raise InputError(
                    f"{file.path} holds the question {question.id!r} with another text than "
                    f"{data.name} now; required: the same data; choose another --output"
                )
        return [
            place
            for place, question in enumerate(data.questions)
            if question.id not in entries or entries[question.id].error
        ]

    def remaining(self, methods: Sequence[str], data_sets: Sequence[DataSet]) -> int:
        """Questions that :meth:`run` has to ask."""
        return sum(len(self.todo(method, data)) for method in methods for data in data_sets)

    def run(
        self,
        methods: Sequence[str],
        data_sets: Sequence[DataSet],
        contestant: Contestant,
        batch: int,
        on_entries: OnEntries,
    ) -> None:
        """Asks what has not been asked, ``batch`` questions at a time.

        Raises:
            StoppedError: :data:`PATIENCE` questions in a row stayed unscored.
        """
        self.begin()
        failed = 0
        for data in data_sets:
            search = contestant.search(data)
            for method in methods:
                todo = self.todo(method, data)
                file = self.journal(method, data.name)
                file.mend()
                for start in range(0, len(todo), batch):
                    attempts = play(
                        METHODS[method].play,
                        [data.questions[place] for place in todo[start : start + batch]],
                        self._settings.instructions[method],
                        contestant.dialect,
                        contestant.policy,
                        search,
                    )
                    entries = [Entry.of(attempt) for attempt in attempts]
                    file.append(entries)
                    on_entries(method, data.name, entries)
                    for entry in entries:
                        failed = failed + 1 if entry.error else 0
                    if failed >= PATIENCE:
                        raise StoppedError(
                            f"{failed} questions in a row could not be answered: "
                            f"{entries[-1].error}; what was answered is kept in {self.folder}; "
                            "mend the cause and run the same command again"
                        )

    def table(
        self,
        methods: Sequence[str],
        data_sets: Sequence[DataSet],
        metric: str,
        pair: tuple[str, str] | None,
    ) -> Table:
        """The table of what has been asked so far, with a paired test of two of the methods."""
        found = {
            method: [
                in_order(self.journal(method, data.name).read(), [one.id for one in data.questions])
                for data in data_sets
            ]
            for method in methods
        }
        rows = [
            Row(name=METHODS[method].title, cells=_cells(sets, metric))
            for method, sets in found.items()
        ]
        return Table(
            title=f"{metric.replace('_', ' ').capitalize()} in %, policy {self._settings.policy}",
            intervals=INTERVALS,
            columns=(*(data.name for data in data_sets), AVERAGE),
            rows=tuple(rows),
            notes=(_test(pair, found, metric),) if pair else (),
        )

    def _require_same(self, path: Path) -> None:
        try:
            before = Settings.model_validate_json(path.read_text(encoding="utf-8"))
        except ValidationError as error:
            raise InputError(
                f"{path} is no evaluation ({error.error_count()} findings); required: the file as "
                "it was written; choose another --output"
            ) from error
        now = self._settings
        both = [name for name in before.instructions if name in now.instructions]
        pairs: list[tuple[str, str | None, str | None]] = [
            ("policy", before.policy, now.policy),
            ("retriever", before.retriever, now.retriever),
            *((f"instruction of {n}", before.instructions[n], now.instructions[n]) for n in both),
        ]
        for name, old, new in pairs:
            if old != new:
                raise InputError(
                    f"{path.parent} was begun with the {name} {old!r}, but it is {new!r} now; "
                    "required: the same; choose another --output"
                )
        instructions = {**before.instructions, **now.instructions}
        self._settings = now.model_copy(update={"instructions": instructions})


def journal(folder: Path, method: str, data_set: str) -> Journal:
    """The trajectories of one method on one set in an evaluation's folder."""
    return Journal(folder / "trajectories" / method / f"{data_set}.jsonl")


def _cells(sets: Sequence[Sequence[Entry]], metric: str) -> tuple[Cell, ...]:
    return (*(_cell([entries], metric) for entries in sets), _cell(sets, metric))


def _cell(sets: Sequence[Sequence[Entry]], metric: str) -> Cell:
    """The mean over sets; without a value unless each set has one."""
    values = [scored(entries, metric) for entries in sets]
    count = sum(map(len, values))
    unscored = sum(bool(entry.error) for entries in sets for entry in entries)
    if not all(values):
        return Cell(value=None, scored=count, unscored=unscored)
    found = estimate(values)
    return Cell(value=found.mean, low=found.low, high=found.high, scored=count, unscored=unscored)


def _test(
    pair: tuple[str, str], found: Mapping[str, Sequence[Sequence[Entry]]], metric: str
) -> str:
    ours, theirs = (
        [{e.id: e.metrics[metric] for e in entries if not e.error} for entries in found[method]]
        for method in pair
    )
    titles = " minus ".join(METHODS[method].title for method in pair)
    try:
        result = compare(ours, theirs)
    except ValueError as error:
        return f"{titles}: {error}."
    return (
        f"{titles}: {100 * result.difference:+.1f} points "
        f"[{100 * result.low:+.1f}, {100 * result.high:+.1f}], p = {result.p:.4f} (paired "
        f"permutation test, {result.questions} questions)."
    )

"""Asks every question of every set by every method, and makes the table of what is there."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from evoprompt.errors import EvopromptError, InputError
from evoprompt.storage import write_whole
from evoprompt_search_qa.harness.identity import Identity
from evoprompt_search_qa.harness.journal import Entry, Journal, in_order, scored
from evoprompt_search_qa.harness.sources import DataSet
from evoprompt_search_qa.harness.statistics import compare, estimate
from evoprompt_search_qa.harness.table import AVERAGE, Cell, Row, Table
from evoprompt_search_qa.methods.dialect import Dialect
from evoprompt_search_qa.methods.play import answer
from evoprompt_search_qa.methods.registry import METHODS
from evoprompt_search_qa.policies.base import Policy
from evoprompt_search_qa.tool import SearchMany

PATIENCE = 20
"""Unscored ones among the last 40 questions at which an evaluation stops: policy or search must
be down, even where some questions are answered without it."""

MOST_UNSCORED = 0.05
"""Share of a set's questions without a score above which nothing is published: questions that
need no search, or short ones, would be favoured among those that are left."""

SETTINGS = "evaluation.json"
INTERVALS = "brackets: 95 % bootstrap intervals over questions"

OnEntries = Callable[[str, str, Sequence[Entry]], None]
"""Is told of a method, a data set and the entries that were added."""


class StoppedError(EvopromptError, RuntimeError):
    """Too many questions could not be answered; what was answered is kept."""


class Settings(BaseModel):
    """What must stay the same when an evaluation is continued.

    Attributes:
        policy: as it was named.
        retriever: address of the search server, None for the tiny world's own search.
        instructions: of every method.
        identity: what policy, search server, questions and prompts really are.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: str
    retriever: str | None
    instructions: Mapping[str, str]
    identity: Identity = Identity()


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
    search: Callable[[DataSet], SearchMany]


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
            StoppedError: :data:`PATIENCE` of twice as many questions stayed unscored.
        """
        self.begin()
        latest: deque[bool] = deque(maxlen=2 * PATIENCE)
        for data in data_sets:
            search = contestant.search(data)
            for method in methods:
                todo = self.todo(method, data)
                file = self.journal(method, data.name)
                file.repair()
                for start in range(0, len(todo), batch):
                    questions = [data.questions[place] for place in todo[start : start + batch]]
                    episodes = answer(
                        METHODS[method].play,
                        questions,
                        self._settings.instructions[method],
                        contestant.dialect,
                        contestant.policy,
                        search,
                    )
                    entries = [*map(Entry.of, questions, episodes)]
                    file.append(entries)
                    on_entries(method, data.name, entries)
                    latest.extend(bool(entry.error) for entry in entries)
                    if sum(latest) >= PATIENCE:
                        errors = [entry.error for entry in entries if entry.error]
                        raise StoppedError(
                            f"{sum(latest)} of the last {len(latest)} questions could not be "
                            f"answered: {errors[-1]}; what was answered is kept in {self.folder}; "
                            "fix the cause and run the same command again"
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
        asked = [len(data.questions) for data in data_sets]
        rows = [
            Row(name=METHODS[method].title, cells=_cells(sets, asked, metric))
            for method, sets in found.items()
        ]
        notes = [_test(pair, found, asked, metric)] if pair else []
        if any(cell.value is None for row in rows for cell in row.cells):
            notes.append(
                f"A cell has no value where more than {MOST_UNSCORED:.0%} of the questions are "
                "unscored: those that are left are no fair sample."
            )
        return Table(
            title=f"{metric.replace('_', ' ').capitalize()} in %, policy {self._settings.policy}",
            intervals=INTERVALS,
            columns=(*(data.name for data in data_sets), AVERAGE),
            rows=tuple(rows),
            notes=tuple(notes),
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
        was, is_now = before.identity, now.identity
        pairs: list[tuple[str, object, object]] = [
            ("policy", before.policy, now.policy),
            ("retriever", before.retriever, now.retriever),
            *_shared("instruction of", before.instructions, now.instructions),
        ]
        known: list[tuple[str, object, object]] = [
            ("model revision", was.model_revision, is_now.model_revision),
            ("corpus", was.corpus, is_now.corpus),
            *_shared("questions of", was.questions, is_now.questions),
            *_shared("limit of", was.limits, is_now.limits),
            ("prompt format", was.prompt_format, is_now.prompt_format),
        ]
        pairs += [(name, old, new) for name, old, new in known if old and new]
        for name, old, new in pairs:
            if old != new:
                raise InputError(
                    f"{path.parent} was begun with the {name} {old!r}, but it is {new!r} now; "
                    "required: the same; choose another --output"
                )
        self._settings = now.model_copy(
            update={
                "instructions": {**before.instructions, **now.instructions},
                "identity": is_now.model_copy(
                    update={
                        "model_revision": is_now.model_revision or was.model_revision,
                        "corpus": is_now.corpus or was.corpus,
                        "questions": {**was.questions, **is_now.questions},
                    }
                ),
            }
        )


def journal(folder: Path, method: str, data_set: str) -> Journal:
    """The trajectories of one method on one set in an evaluation's folder."""
    return Journal(folder / "trajectories" / method / f"{data_set}.jsonl")


def _shared(
    what: str, before: Mapping[str, object], now: Mapping[str, object]
) -> Iterator[tuple[str, object, object]]:
    return ((f"{what} {name}", before[name], now[name]) for name in before if name in now)


def _cells(sets: Sequence[Sequence[Entry]], asked: Sequence[int], metric: str) -> tuple[Cell, ...]:
    each = (_cell([entries], [count], metric) for entries, count in zip(sets, asked, strict=True))
    return (*each, _cell(sets, asked, metric))


def _cell(sets: Sequence[Sequence[Entry]], asked: Sequence[int], metric: str) -> Cell:
    """The mean over sets; without a value where too many questions of one have no score."""
    values = [scored(entries, metric) for entries in sets]
    count = sum(map(len, values))
    unscored = sum(asked) - count
    if not _publishable(sets, asked):
        return Cell(value=None, scored=count, unscored=unscored)
    found = estimate(values)
    return Cell(value=found.mean, low=found.low, high=found.high, scored=count, unscored=unscored)


def _publishable(sets: Sequence[Sequence[Entry]], asked: Sequence[int]) -> bool:
    return all(
        count - sum(not entry.error for entry in entries) <= MOST_UNSCORED * count
        for entries, count in zip(sets, asked, strict=True)
    )


def _test(
    pair: tuple[str, str],
    found: Mapping[str, Sequence[Sequence[Entry]]],
    asked: Sequence[int],
    metric: str,
) -> str:
    ours, theirs = (
        [{e.id: e.metrics[metric] for e in entries if not e.error} for entries in found[method]]
        for method in pair
    )
    titles = " minus ".join(METHODS[method].title for method in pair)
    if not all(_publishable(found[method], asked) for method in pair):
        return f"{titles}: no test, too many questions are unscored."
    try:
        result = compare(ours, theirs)
    except ValueError as error:
        return f"{titles}: {error}."
    return (
        f"{titles}: {100 * result.difference:+.1f} points "
        f"[{100 * result.low:+.1f}, {100 * result.high:+.1f}], p = {result.p:.4f} (paired "
        f"permutation test, {result.questions} questions)."
    )

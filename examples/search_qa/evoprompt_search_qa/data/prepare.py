"""Assembly of the training mix and the test sets as files, with a report of findings.

Test sets are kept as they are, repeats included, because published numbers are means over all of
them. Training questions that repeat another one, or that are in a test set, are left out.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from evoprompt.support.errors import InputError
from evoprompt_search_qa.data.overlap import question_key
from evoprompt_search_qa.data.records import Record, to_row
from evoprompt_search_qa.data.sets import HUB_REPOSITORY, SETS, TRAIN_MIX, Split, find_sets
from evoprompt_search_qa.data.sources import is_local, read
from evoprompt_search_qa.scoring import normalise

_LISTED = 1000


@dataclass(frozen=True, slots=True)
class Preparation:
    """Settings of a preparation.

    Attributes:
        source: of the sets; see ``sources.read``.
        train: names of the sets to train on.
        test: names of the sets to test on.
        validation: training questions to hold out for validation.
        seed: of the order of the training questions, and so of those held out.
    """

    source: str = HUB_REPOSITORY
    train: Sequence[str] = TRAIN_MIX
    test: Sequence[str] = tuple(SETS)
    validation: int = 0
    seed: int = 0


@dataclass(slots=True)
class Report:
    """Findings of a preparation.

    Attributes:
        counts: number of remaining questions by set and split.
        files: their sources, by set and split.
        skipped: bad rows, as ``place: reason``.
        test_repeats: questions that are twice in a test set, or in two of them; kept.
        train_repeats: training questions that repeat another one; left out.
        overlap: training questions that are in a test set; left out.
    """

    counts: Counter[str] = field(default_factory=Counter)
    files: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    test_repeats: list[str] = field(default_factory=list)
    train_repeats: list[str] = field(default_factory=list)
    overlap: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        """Return all counts, and the first 1,000 of every finding."""
        findings: dict[str, Sequence[str]] = {
            "bad rows (left out)": self.skipped,
            "repeats within the test sets (kept)": self.test_repeats,
            "repeats within the training mix (left out)": self.train_repeats,
            "training questions of a test set (left out)": self.overlap,
        }
        sections = {
            name: {"count": len(entries), "first": entries[:_LISTED]}
            for name, entries in findings.items()
        }
        return {"questions": self.counts, "read from": self.files, **sections}


def prepare(preparation: Preparation, output: Path) -> Report:
    """Write ``train``, ``validation`` and ``test`` as parquet and ``report.json`` to ``output``.

    Raises:
        InputError: a set is unknown or cannot be read, nothing is left to train or test on, or
            ``output`` is a file.
    """
    if output.exists() and not output.is_dir():
        raise InputError(f"--output is {output}, which is a file; required: a folder to write")
    report = Report()
    test_questions: dict[str, Record] = {}
    test = _read_all(preparation, "test", report)
    for record in test:
        first = test_questions.setdefault(question_key(record.question), record)
        if first is not record:
            report.test_repeats.append(_repeat(first, record))
    mix: dict[str, Record] = {}
    for record in _read_all(preparation, "train", report):
        key = question_key(record.question)
        if key in test_questions:
            report.overlap.append(_repeat(test_questions[key], record))
        elif (first := mix.setdefault(key, record)) is not record:
            report.train_repeats.append(_repeat(first, record))
    train = list(mix.values())
    random.Random(preparation.seed).shuffle(train)
    if preparation.validation and not 0 < preparation.validation < len(train):
        raise InputError(
            f"--validation is {preparation.validation}, but there are {len(train)} training "
            "questions; required: fewer, so that some are left to train on"
        )
    parts = {
        "train": train[preparation.validation :],
        "validation": train[: preparation.validation],
        "test": test,
    }
    output.mkdir(parents=True, exist_ok=True)
    for split, records in parts.items():
        report.counts.update(f"{record.source}/{split}" for record in records)
        if records:
            write_split(records, split, output / f"{split}.parquet")
    text = json.dumps(report.as_json(), indent=2, ensure_ascii=False)
    (output / "report.json").write_text(f"{text}\n", encoding="utf-8")
    return report


def _read_all(preparation: Preparation, split: Split, report: Report) -> list[Record]:
    records: list[Record] = []
    names = preparation.train if split == "train" else preparation.test
    for chosen in find_sets(names, split, has_own_sets=is_local(preparation.source)):
        new_records = _unique(
            read(preparation.source, chosen, split, report.skipped.append), report
        )
        if not new_records:
            raise InputError(
                f"{preparation.source} holds no usable {split} question of {chosen.name}; the "
                f"first bad row: {report.skipped[-1] if report.skipped else 'none, it is empty'}; "
                "repair it or leave the set out"
            )
        report.files[f"{chosen.name}/{split}"] = new_records[0].location.rpartition(":")[0]
        records += new_records
    return records


def _unique(records: Iterable[Record], report: Report) -> list[Record]:
    """Return the records of a set without those with the id of an earlier record."""
    records_by_id: dict[str, Record] = {}
    for record in records:
        first = records_by_id.setdefault(record.id, record)
        if first is not record:
            report.skipped.append(f"{record.location}: repeats the 'id' of {first.location}")
    return list(records_by_id.values())


def write_split(records: Sequence[Record], split: str, path: Path) -> None:
    """Write the questions of a split as a parquet file."""
    import pyarrow
    import pyarrow.parquet

    rows = [to_row(record, split, index) for index, record in enumerate(records)]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)


def _repeat(first: Record, again: Record) -> str:
    alike = {*map(normalise, first.answers)} & {*map(normalise, again.answers)}
    answers = "the same answer" if alike else "other answers"
    return f"{again.location}: {again.question!r} repeats {first.location}, with {answers}"

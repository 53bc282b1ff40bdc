"""Own documents: passages and questions of a user, as the files of a run."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from evoprompt_retrieval.passages import Passage, decode, parse_line
from pydantic import JsonValue

from evoprompt.support.errors import InputError
from evoprompt.support.yamlfile import dump
from evoprompt_search_qa.data.overlap import question_key
from evoprompt_search_qa.data.prepare import write_split
from evoprompt_search_qa.data.records import Record, parse

Entry = TypeVar("Entry")

PASSAGES, RUN = "passages.jsonl", "run.yaml"
_SHARE = 5  # one question in so many is for the test, and as many for validation


@dataclass(slots=True)
class OwnReport:
    """Findings of a preparation of own documents.

    Attributes:
        passages: number of passages.
        counts: number of questions by split.
        skipped: bad lines, as ``place: reason``.
        joined: repeated questions, whose answers were added to those of the first.
    """

    passages: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    joined: list[str] = field(default_factory=list)


def prepare_own(
    passages: Path, questions: Path, output: Path, validation: int = 0, seed: int = 0
) -> OwnReport:
    """Write passages, three splits of the questions and a run file to ``output``.

    Args:
        passages: JSON lines of ``contents``, or of ``text`` and perhaps ``title``; without an
            ``id``, the number of the line is one.
        questions: JSON lines of ``question`` and ``answer``, a text or several.
        output: folder to write.
        validation: questions for validation; 0 for a fifth.
        seed: of the order of the questions, and so of their splits.

    Raises:
        InputError: a file cannot be read, or holds too few passages or questions.
    """
    report = OwnReport()
    records = _records(questions, report)
    num_test = max(len(records) // _SHARE, 1)
    num_validation = validation or num_test
    if len(records) < num_test + num_validation + 1:
        first_skip = f"; the first bad line: {report.skipped[0]}" if report.skipped else ""
        raise InputError(
            f"{questions} holds {len(records)} questions with an answer{first_skip}; required: at "
            f"least {num_test + num_validation + 1}, one in each of train, validation "
            f"({num_validation}) and test ({num_test}); add questions"
        )
    all_passages = _passages(passages, report)
    output.mkdir(parents=True, exist_ok=True)
    lines = (
        json.dumps({"id": each.id, "title": each.title, "text": each.text}, ensure_ascii=False)
        for each in all_passages
    )
    (output / PASSAGES).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    random.Random(seed).shuffle(records)
    splits = {
        "test": records[:num_test],
        "validation": records[num_test : num_test + num_validation],
        "train": records[num_test + num_validation :],
    }
    for split, split_records in splits.items():
        write_split(split_records, split, output / f"{split}.parquet")
    report.passages = len(all_passages)
    report.counts = {split: len(split_records) for split, split_records in splits.items()}
    (output / RUN).write_text(_run_file(output), encoding="utf-8")
    return report


def _records(path: Path, report: OwnReport) -> list[Record]:
    """Return the questions; the answers of a repeated one are added to those of the first."""
    records: dict[str, Record] = {}
    for record in _read(path, "--questions", report, lambda row, at: parse(row, path.stem, at)):
        key = question_key(record.question)
        if key not in records:
            records[key] = record
            continue
        first = records[key]
        answers = tuple(dict.fromkeys((*first.answers, *record.answers)))
        records[key] = Record(first.source, first.id, first.question, answers, first.location)
        report.joined.append(f"{record.location}: repeats {first.location}")
    return list(records.values())


def _passages(path: Path, report: OwnReport) -> list[Passage]:
    ids: set[str] = set()

    def read(row: object, location: str) -> Passage:
        if isinstance(row, dict) and row.get("id") is None and row.get("_id") is None:
            row = {**row, "id": f"line-{location.rpartition(':')[2]}"}
        passage = parse_line(json.dumps(row).encode())
        if passage.id in ids:
            raise ValueError(f"repeats the 'id' {passage.id!r} of an earlier line")
        ids.add(passage.id)
        return passage

    passages = _read(path, "--passages", report, read)
    if not passages:
        first_skip = report.skipped[-1] if report.skipped else f"{path} is empty"
        raise InputError(
            f"{first_skip}; required: at least one passage, as {{'text': ...}} or "
            "{'title': ..., 'text': ...}"
        )
    return passages


def _read(
    path: Path, option: str, report: OwnReport, read: Callable[[object, str], Entry]
) -> list[Entry]:
    """Return what ``read`` makes of each JSON line; bad lines are left out and reported."""
    entries: list[Entry] = []
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{option} is {path}, which cannot be read ({error.strerror}); required: a file of "
            "JSON lines; check the path"
        ) from error
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            location = f"{path}:{number}"
            try:
                entries.append(read(decode(line), location))
            except ValueError as error:
                report.skipped.append(f"{location}: {error}")
    return entries


def _run_file(output: Path) -> str:
    task: dict[str, JsonValue] = {"name": "search-qa-open", "retriever": "http://127.0.0.1:8000"}
    task |= {split: str(output / f"{split}.parquet") for split in ("train", "validation", "test")}
    settings: dict[str, JsonValue] = {
        "task": task,
        "host": {"name": "trl", "model": "Qwen/Qwen2.5-0.5B-Instruct"},
        "engine": {"proposer": "sentence-edit"},
        "budget": 8000,
        "evaluate_every": 1600,
    }
    comments = [f"# {command}\n" for command in next_commands(output)]
    return "".join([*comments, dump(settings)])


def next_commands(output: Path) -> list[str]:
    """Return the commands that search, improve a prompt and train with the files in ``output``."""
    return [
        f"evoprompt retriever serve --corpus {output / PASSAGES} --index {output / 'index'}",
        f"evoprompt optimize {output / RUN} --model openai:gpt-4.1-mini --lm openai/gpt-5-mini",
        f"evoprompt run {output / RUN} --dry-run",
    ]

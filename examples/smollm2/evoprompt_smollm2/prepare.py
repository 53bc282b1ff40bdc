"""Prepares reading: real questions, each with the pieces of passages that BM25 finds for it."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import bm25s
from evoprompt_retrieval.bm25 import K1, Analyzer, B
from evoprompt_retrieval.passages import Passage, decode, parse_line
from evoprompt_search_qa.data.records import Record, parse

from evoprompt.errors import InputError
from evoprompt.storage import write_whole
from evoprompt_smollm2.answers import contained

SETS = ("popqa_test", "nq_test", "nq_trainproxy", "triviaqa_test")
"""Files of questions of one hop."""

CORPUS = "corpus.jsonl"
_SENTENCE = re.compile(r"(?<=[.!?])\s+")


@dataclass(frozen=True, slots=True)
class Preparation:
    """What to prepare.

    Attributes:
        source: folder with the files of :data:`SETS` and ``corpus.jsonl``.
        train: questions.
        validation: questions.
        test: questions.
        pieces: shown with each question, the best first.
        words: most words of a piece, but for one sentence that is longer.
        seed: of the split.
    """

    source: Path
    train: int = 400
    validation: int = 60
    test: int = 200
    pieces: int = 2
    words: int = 45
    seed: int = 0


def prepare(what: Preparation, output: Path) -> dict[str, int]:
    """Writes a file for each split, such as ``train.jsonl``; returns what was counted.

    Only questions are taken whose answer stands in a piece, so that reading can find it.

    Raises:
        InputError: a file is missing or holds something else, or there are too few questions.
    """
    pieces = [piece for passage in _corpus(what.source) for piece in cut(passage, what.words)]
    analyze = Analyzer()
    index = bm25s.BM25(k1=K1, b=B)
    index.index([analyze(f"{one.title} {one.text}") for one in pieces], show_progress=False)
    rows, asked = [], 0
    for record in _records(what.source):
        asked += 1
        words = [word for word in analyze(record.question) if word in index.vocab_dict]
        if not words:
            continue
        best = index.retrieve([words], k=what.pieces, show_progress=False).documents[0]
        shown = [f"{pieces[at].title}: {pieces[at].text}" for at in best]
        if contained(" ".join(shown), record.answers):
            rows.append(_row(record, shown))
    wanted = {"test": what.test, "validation": what.validation, "train": what.train}
    if sum(wanted.values()) > len(rows):
        raise InputError(
            f"{len(rows)} of {asked} questions have their answer in what BM25 finds; required: "
            f"{sum(wanted.values())} for {wanted}; ask for fewer"
        )
    random.Random(what.seed).shuffle(rows)
    start = 0
    for split, count in wanted.items():
        lines = [json.dumps(row, ensure_ascii=False) for row in rows[start : start + count]]
        write_whole(output / f"{split}.jsonl", "\n".join(lines) + "\n")
        start += count
    return {"asked": asked, "readable": len(rows), **wanted}


def cut(passage: Passage, words: int) -> Iterator[Passage]:
    """Pieces of whole sentences, of at most so many words but for longer sentences."""
    piece: list[str] = []
    for sentence in _SENTENCE.split(passage.text.strip()):
        longer = [*piece, sentence]
        if piece and len(" ".join(longer).split()) > words:
            yield Passage(passage.id, passage.title, " ".join(piece))
            longer = [sentence]
        piece = longer
    yield Passage(passage.id, passage.title, " ".join(piece))


def _row(record: Record, shown: Sequence[str]) -> dict[str, object]:
    return {
        "id": f"{record.source}/{record.id}",
        "source": record.source.partition("_")[0],
        "question": record.question,
        "pieces": list(shown),
        "answers": list(record.answers),
    }


def _corpus(source: Path) -> Iterator[Passage]:
    for line in _lines(source / CORPUS):
        yield parse_line(line)


def _records(source: Path) -> Iterator[Record]:
    seen: set[str] = set()
    for name in SETS:
        for number, line in enumerate(_lines(source / f"{name}.jsonl"), start=1):
            place = f"{name}.jsonl:{number}"
            try:
                record = parse(decode(line), name, place)
            except ValueError as error:
                raise InputError(f"{source / place} {error}") from error
            if record.question not in seen:
                seen.add(record.question)
                yield record


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            yield from filter(bytes.strip, file)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}); required: a folder with {CORPUS} and "
            f"{', '.join(f'{name}.jsonl' for name in SETS)}; name it with --source"
        ) from error

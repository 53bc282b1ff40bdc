"""Recall on the real questions and passages, which are not part of the project."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from evoprompt_retrieval.backends import open_index
from evoprompt_retrieval.corpus import Corpus
from evoprompt_retrieval.index import Hit
from evoprompt_retrieval.recall import Question, Recall, read_questions, recall_at

ROOT = Path(__file__).parents[4]
DATA = Path(os.environ.get("EVOPROMPT_QA_DATA", ROOT.parent / "shared" / "data" / "qa"))


class Fixed:
    """Always finds the same rows."""

    def __init__(self, *rows: int) -> None:
        self._rows = rows

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        return [[Hit(row, 1.0) for row in self._rows[:topk]] for _ in queries]


def asked(*supporting: str, answers: tuple[str, ...] = ("no such words",)) -> Question:
    return Question(question="who?", golden_answers=answers, supporting_ids=supporting)


def test_recall_counts_first_all_and_answered(corpus: Corpus) -> None:
    questions = [
        asked("0", "1"),
        asked("1", "5"),
        asked("5", "6"),
        asked(answers=("The RIVER danube!",)),
        asked(answers=("danub", "the", "Ulm's")),
    ]
    found = recall_at(corpus, Fixed(0, 1, 2), questions, (2, 3))
    assert found[3] == Recall(first=2 / 3, all=1 / 3, answer=1 / 5)
    assert set(found) == {2, 3}


def test_a_set_without_labels_has_no_such_recall(corpus: Corpus) -> None:
    found = recall_at(corpus, Fixed(0), [asked(answers=("tallest spire",))], (1,))[1]
    assert found.first != found.first
    assert found.answer == 1.0


@pytest.fixture(scope="module")
def recalls(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Recall]:
    folder = tmp_path_factory.mktemp("index")
    corpus = Corpus.open(DATA / "corpus.jsonl", folder, pytest.fail)
    index = open_index(corpus, folder, "bm25")
    return {
        name: recall_at(corpus, index, read_questions(DATA / f"{name}_test.jsonl"), (3,))[3]
        for name in ("hotpotqa", "2wikimultihopqa", "musique", "popqa", "nq", "triviaqa")
    }


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "what", "least"),
    [
        ("hotpotqa", "first", 0.74),
        ("hotpotqa", "all", 0.46),
        ("2wikimultihopqa", "first", 0.92),
        ("2wikimultihopqa", "all", 0.30),
        ("musique", "first", 0.62),
        ("musique", "all", 0.10),
        ("popqa", "first", 0.93),
        ("nq", "answer", 0.80),
        ("triviaqa", "answer", 0.87),
    ],
)
def test_bm25_finds_real_passages(
    recalls: Mapping[str, Recall], name: str, what: str, least: float
) -> None:
    assert getattr(recalls[name], what) >= least

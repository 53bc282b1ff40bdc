from __future__ import annotations

import json
import random
from pathlib import Path

import bm25s
import numpy as np
import pytest
from evoprompt_retrieval import bm25 as module
from evoprompt_retrieval.bm25 import K1, Analyzer, B, Bm25Index
from evoprompt_retrieval.bm25_build import Bm25Builder
from evoprompt_retrieval.corpus import Corpus

from evoprompt.errors import InputError


def silent(stage: str, done: int, total: int) -> None:
    """Reports nothing."""


def test_words_are_stemmed_without_stopwords_case_and_single_letters() -> None:
    assert Analyzer()("The Rivers' flow, a B-52 of Zürich") == ["river", "flow", "52", "zürich"]


def test_the_best_passage_shares_the_rarest_words(bm25: Bm25Index, corpus: Corpus) -> None:
    hits = bm25.search(["Which river flows into the Black Sea?"], 3)[0]
    assert corpus[hits[0].row].title == "Danube"
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_only_passages_that_share_a_word_are_hits(bm25: Bm25Index) -> None:
    found = bm25.search(["xylophone", "", "the of and", "comedies"], 10)
    assert [len(hits) for hits in found] == [0, 0, 0, 2]


def test_an_answer_does_not_depend_on_the_batch_or_on_topk(bm25: Bm25Index) -> None:
    queries = ["copper in Zambia", "river Danube", "a play"]
    together = bm25.search(queries, 5)
    assert together == [bm25.search([query], 5)[0] for query in queries]
    assert [hits[:2] for hits in together] == bm25.search(queries, 2)


def test_equal_scores_keep_the_order_of_the_corpus(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text("".join(f'{{"id": "{n}", "contents": "same words"}}\n' for n in range(50)))
    corpus = Corpus.open(path, tmp_path)
    index = Bm25Index.open(corpus, tmp_path / "bm25", silent)
    assert [hit.row for hit in index.search(["same"], 3)[0]] == [0, 1, 2]


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_building_by_blocks_gives_the_index_of_bm25s(tmp_path: Path, block: int) -> None:
    rng = random.Random(3)
    documents = [
        [f"w{min(int(rng.expovariate(0.05)), 90)}" for _ in range(rng.randrange(0, 40))]
        for _ in range(120)
    ]
    with Bm25Builder(tmp_path, k1=K1, b=B) as builder:
        for start in range(0, len(documents), block):
            builder.add(documents[start : start + block])
        builder.finish(lambda done: None)
    ours = bm25s.BM25.load(tmp_path, mmap=True)
    theirs = bm25s.BM25(k1=K1, b=B)
    theirs.index(documents, show_progress=False)
    for word in {word for document in documents for word in document}:
        np.testing.assert_allclose(
            ours.get_scores([word]), theirs.get_scores([word]), rtol=1e-5, atol=1e-7
        )
    assert not list(tmp_path.glob("*.partial"))


@pytest.mark.parametrize("topk", [1, 3, 7, 40, 5000])
def test_the_hits_are_those_of_all_scores_of_bm25s_sorted(tmp_path: Path, topk: int) -> None:
    rng = random.Random(9)
    rare = [f"rare{n}" for n in range(40)]
    with (tmp_path / "c.jsonl").open("w") as file:
        for number in range(2600):  # five blocks of scores and a part of one
            words = [f"word{min(int(rng.expovariate(0.1)), 60)}" for _ in range(rng.randrange(9))]
            words += rng.choices(rare, k=number % 50 == 0)
            record = {"id": str(number), "contents": " ".join(words) or "the"}
            file.write(json.dumps(record) + "\n")
    corpus = Corpus.open(tmp_path / "c.jsonl", tmp_path)
    index = Bm25Index.open(corpus, tmp_path / "bm25", silent)
    theirs = bm25s.BM25.load(tmp_path / "bm25", mmap=True)
    analyze = Analyzer()
    queries = ["word0", "word3 word3 word5", "rare1 word0", "rare2", "rare1 rare2 rare3 word60"]
    for query, hits in zip(queries, index.search(queries, topk), strict=True):
        scores = theirs.get_scores(analyze(query))
        order = np.argsort(-scores, kind="stable")
        best = [(int(row), float(scores[row])) for row in order[:topk] if scores[row] > 0]
        assert best
        assert [tuple(hit) for hit in hits] == best  # the very same numbers, ties in order


def test_the_title_counts_twice(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text(
        '{"id": "0", "title": "filler", "text": "copper filler"}\n'
        '{"id": "1", "title": "copper", "text": "filler filler"}\n'
    )
    corpus = Corpus.open(path, tmp_path)
    hits = Bm25Index.open(corpus, tmp_path / "bm25", silent).search(["copper"], 2)[0]
    assert [hit.row for hit in hits] == [1, 0]


def test_passages_of_stopwords_alone_are_never_found(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_text('{"id": "0", "contents": "the a"}\n{"id": "1", "contents": "of"}\n')
    corpus = Corpus.open(path, tmp_path)
    index = Bm25Index.open(corpus, tmp_path / "bm25", silent)
    assert index.search(["the river", "of"], 3) == [[], []]


def test_progress_is_told_to_the_end(corpus: Corpus, tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    Bm25Index.open(corpus, tmp_path, lambda *args: told.append(args))
    assert ("computing scores", len(corpus), len(corpus)) in told


def test_an_index_is_built_once(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Bm25Index.open(corpus, tmp_path, silent).search(["copper"], 3)
    monkeypatch.setattr(module, "_build", None)
    assert Bm25Index.open(corpus, tmp_path, silent).search(["copper"], 3) == before


def test_the_index_of_another_corpus_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    Bm25Index.open(corpus, tmp_path / "bm25", silent)
    path = tmp_path / "other.jsonl"
    path.write_text('{"id": "0", "contents": "something else"}\n')
    other = Corpus.open(path, tmp_path)
    with pytest.raises(InputError, match="holds another BM25 index"):
        Bm25Index.open(other, tmp_path / "bm25", silent)


@pytest.mark.parametrize("name", ["data.csc.index.npy", "vocab.index.json"])
@pytest.mark.parametrize("content", [b"", b"oops"])
def test_a_damaged_index_is_named(
    corpus: Corpus, tmp_path: Path, name: str, content: bytes
) -> None:
    Bm25Index.open(corpus, tmp_path, silent)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match="is damaged"):
        Bm25Index.open(corpus, tmp_path, silent)


def test_scores_are_mapped_in_place_of_read(bm25: Bm25Index) -> None:
    scores = bm25._index.scores
    assert all(isinstance(scores[name], np.memmap) for name in ("data", "indices", "indptr"))

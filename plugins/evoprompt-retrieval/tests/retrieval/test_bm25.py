"""Search by words: the numbers are bm25s's, the hits those of a plain sort."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path

import bm25s
import numpy as np
import pytest
from evoprompt_retrieval.bm25 import K1, Analyzer, B, Bm25Index
from evoprompt_retrieval.corpus import Corpus

from evoprompt.support.errors import EvopromptWarning, InputError


def built(folder: Path, *records: dict[str, str]) -> Bm25Index:
    path = folder / "c.jsonl"
    rows = ({"id": str(number), **record} for number, record in enumerate(records))
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return opened(Corpus.open(path, folder), folder / "bm25")


def opened(corpus: Corpus, folder: Path) -> Bm25Index:
    return Bm25Index.open(corpus, folder, lambda stage, done, total: None)


def test_words_are_stemmed_without_stopwords_case_and_single_letters() -> None:
    assert Analyzer()("The Rivers' flow, a B-52 of Zürich") == ["river", "flow", "52", "zürich"]


@pytest.mark.parametrize(
    "text",
    [
        "\u0939\u093f\u0928\u094d\u0926\u0940 \u092d\u093e\u0937\u093e",  # Hindi
        "\u09ac\u09be\u0982\u09b2\u09be \u09ad\u09be\u09b7\u09be",  # Bengali
        "\u0ba4\u0bae\u0bbf\u0bb4\u0bcd \u0bae\u0bca\u0bb4\u0bbf",  # Tamil
        "\u0627\u0644\u0644\u063a\u0629 \u0627\u0644\u0639\u0631\u0628\u064a\u0629",  # Arabic
    ],
)
def test_words_of_scripts_with_vowel_signs_are_whole(text: str) -> None:
    assert Analyzer()(f"{text}\u0964") == text.split()


def test_only_passages_that_share_a_word_are_hits(bm25: Bm25Index, corpus: Corpus) -> None:
    queries = ["Which river flows into the Black Sea?", "xylophone", "", "the of and", "comedies"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EvopromptWarning)
        found = bm25.search(queries, 10)
    assert corpus[found[0][0].row].title == "Danube"
    assert [len(hits) for hits in found[1:]] == [0, 0, 0, 2]
    assert found == [bm25.search([query], 10)[0] for query in queries]


def test_what_cannot_be_looked_for_is_told_once(tmp_path: Path) -> None:
    chinese = {"contents": "多瑙河是欧洲第二长的河流流经十个国家。"}
    with pytest.warns(EvopromptWarning, match="1 of 2 passages are in languages without spaces"):
        index = built(tmp_path, {"contents": "The Danube."}, chinese)
    with pytest.warns(EvopromptWarning, match="'A'.*BM25 knows words of two letters"):
        assert index.search(["Danube", "A"], 3)[1] == []
    assert index.search(["河流", "B"], 3) == [[], []]


@pytest.mark.parametrize("topk", [1, 7, 5000])
def test_the_hits_are_those_of_all_scores_of_bm25s_sorted(tmp_path: Path, topk: int) -> None:
    rng = random.Random(9)
    rare = [f"rare{n}" for n in range(40)]
    texts = []
    for number in range(2600):  # five blocks of scores and a part of one
        words = [f"word{min(int(rng.expovariate(0.1)), 60)}" for _ in range(rng.randrange(9))]
        texts.append(" ".join([*words, *rng.choices(rare, k=number % 50 == 0)]) or "the")
    index = built(tmp_path, *({"contents": text} for text in texts))
    analyze = Analyzer()
    theirs = bm25s.BM25(k1=K1, b=B)
    theirs.index([analyze(text) for text in texts], show_progress=False)
    queries = ["word0", "word3 word3 word5", "rare1 word0", "rare2", "rare1 rare2 rare3 word60"]
    for query, hits in zip(queries, index.search(queries, topk), strict=True):
        scores = theirs.get_scores(analyze(query))
        order = np.argsort(-scores, kind="stable")
        best = [(int(row), float(scores[row])) for row in order[:topk] if scores[row] > 0]
        assert best
        assert [tuple(hit) for hit in hits] == best  # the very same numbers, ties in order


def test_the_title_counts_twice(tmp_path: Path) -> None:
    index = built(
        tmp_path,
        {"title": "filler", "text": "copper filler"},
        {"title": "copper", "text": "filler filler"},
    )
    assert [hit.row for hit in index.search(["copper"], 2)[0]] == [1, 0]


@pytest.mark.filterwarnings("ignore::evoprompt.support.errors.EvopromptWarning")
def test_passages_of_stopwords_alone_are_never_found(tmp_path: Path) -> None:
    index = built(tmp_path, {"contents": "the a"}, {"contents": "of"})
    assert index.search(["the river", "of"], 3) == [[], []]


def test_the_index_of_another_corpus_is_refused(corpus: Corpus, tmp_path: Path) -> None:
    opened(corpus, tmp_path / "bm25")
    with pytest.raises(InputError, match="holds another index"):
        built(tmp_path, {"contents": "something else"})


@pytest.mark.parametrize("name", ["data.npy", "words.json"])
@pytest.mark.parametrize("content", [b"", b"oops"])
def test_a_damaged_index_is_named(
    corpus: Corpus, tmp_path: Path, name: str, content: bytes
) -> None:
    opened(corpus, tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match="is damaged"):
        opened(corpus, tmp_path)

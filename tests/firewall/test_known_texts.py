"""The index finds what reading every text finds."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from evoprompt.firewall.known_texts import KnownTexts, nearly_same
from evoprompt.firewall.text import sentences, words

VOCABULARY = [
    *("search", "one", "fact", "at", "a", "time", "then", "read"),
    *("the", "results", "and", "answer", "in", "few", "words"),
]
spoken = st.lists(st.sampled_from(VOCABULARY), min_size=1, max_size=14)
texts = st.lists(spoken, min_size=1, max_size=4).map(
    lambda found: " ".join(f"{' '.join(sentence)}." for sentence in found)
)


def altered(text: str, rng: random.Random, changes: int) -> str:
    """``text`` with some words replaced, dropped or said twice."""
    found = text.split(" ")
    for _ in range(changes):
        index = rng.randrange(len(found))
        end = "." if found[index].endswith(".") else ""
        found[index : index + 1] = rng.choice(
            [[rng.choice(VOCABULARY) + end], [found[index], found[index]], ["x" + end]]
        )
    return " ".join(found)


@given(
    known=st.lists(texts, max_size=12),
    text=texts,
    seed=st.integers(0, 99),
    changes=st.integers(0, 5),
)
def test_finds_what_reading_every_text_finds(
    known: list[str], text: str, seed: int, changes: int
) -> None:
    rng = random.Random(seed)
    asked = altered(rng.choice([text, *known]), rng, changes)
    index = KnownTexts([text, *known])
    ours = sentences(asked)
    assert index.same(asked) == any(words(asked) == words(one) for one in index)
    assert index.nearly_same(asked) == any(nearly_same(ours, sentences(one)) for one in index)


@given(first=st.lists(texts, max_size=8), then=st.lists(texts, max_size=8), asked=texts)
def test_holds_exactly_what_it_is_to_keep(first: list[str], then: list[str], asked: str) -> None:
    """Nothing is left of a text that was dropped, and nothing of another is lost with it."""
    index, fresh = KnownTexts(first), KnownTexts(then)
    index.keep(then)
    assert set(index) == set(fresh)
    assert (asked in index) == (asked in then)
    for text in (asked, *first, *then):
        assert index.same(text) == fresh.same(text)
        assert index.nearly_same(text) == fresh.nearly_same(text)
    index.keep([])
    assert len(index) == 0
    assert not index.same(asked)
    assert not index._places

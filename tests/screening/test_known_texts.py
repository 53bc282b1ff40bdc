"""The index finds what reading every text finds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evoprompt.firewall.known_texts import KnownTexts

texts = st.lists(st.sampled_from(["a", "A", "b.", "b", " ", "\n"]), max_size=5).map("".join)


def form(text: str) -> str:
    return " ".join(text.lower().split())


@given(known=st.lists(texts, max_size=12), asked=texts)
def test_finds_what_reading_every_text_finds(known: list[str], asked: str) -> None:
    index = KnownTexts(known)
    assert index.same(asked) == any(form(asked) == form(one) for one in known)


@given(first=st.lists(texts, max_size=8), then=st.lists(texts, max_size=8), asked=texts)
def test_holds_exactly_what_it_is_to_keep(first: list[str], then: list[str], asked: str) -> None:
    """Nothing is left of a text that was dropped, and nothing of another is lost with it."""
    index, fresh = KnownTexts(first), KnownTexts(then)
    index.keep(then)
    assert set(index) == set(fresh)
    assert (asked in index) == (asked in then)
    for text in (asked, *first, *then):
        assert index.same(text) == fresh.same(text)
    index.keep([])
    assert len(index) == 0
    assert not index.same(asked)

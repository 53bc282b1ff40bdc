"""What is looked for before a search is in every text that the search finds something in."""

from __future__ import annotations

import json
import re
import string
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evoprompt.firewall import characters, conduct, meta_text, protocol, remarks, wrapping
from evoprompt.firewall.needles import Phrases

MODULES = (characters, conduct, meta_text, protocol, remarks, wrapping)
LISTS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": found
    for module in MODULES
    for name, found in vars(module).items()
    if isinstance(found, Phrases)
}
TEXTS = [
    json.loads(line)["text"]
    for line in (Path(__file__).parent / "malformed.jsonl").read_text("utf-8").splitlines()
]
SMALL = (
    r"\bi(?:'?m| am)(?: so)? (?:sorry|afraid)\b",
    r"h+m+[,. ]|yes{2,}|no",
    r"optimi[sz]ed|(?-i:TODO)\b|X{3,}",
    r"(?:a|b)c(?!d)|(?>ef)+g",
    r"umar\u0131m|\u017fo|\bto",
    r"(x)\1y|[{]z}",
    r"(?:new )?(?:指令|prompts?)(?:は|:)",
)


def small(pattern: str) -> Phrases:
    return Phrases(re.compile(pattern, re.IGNORECASE | re.MULTILINE))


@pytest.mark.parametrize(
    ("pattern", "needles"),
    [
        (SMALL[0], ("afraid", "sorry")),
        (SMALL[1], ("hm", "no", "yess")),
        (SMALL[4], ("so", "to", "umarim")),
        (SMALL[6], ("prompt",)),
        (r"\w+|sorry", None),
        (r"(?:sorry)?", None),
    ],
)
def test_needles(pattern: str, needles: tuple[str, ...] | None) -> None:
    assert small(pattern).needles == needles


@settings(max_examples=30, deadline=None)
@given(st.data())
@pytest.mark.parametrize("pattern", SMALL)
def test_what_matches_holds_one(pattern: str, data: st.DataObject) -> None:
    text = data.draw(st.from_regex(re.compile(pattern, re.IGNORECASE)))
    assert small(pattern).may_match(text)


def test_nothing_but_three_letters_is_another_case_of_an_ascii_one() -> None:
    everything = "".join(map(chr, range(128, sys.maxunicode + 1)))
    alike = {
        (letter, other)
        for letter in string.ascii_lowercase
        for other in re.findall(letter, everything, re.IGNORECASE)
    }
    assert {letter for letter, _ in alike} == {"i", "k", "s"}


@pytest.mark.parametrize("name", LISTS)
def test_no_list_of_phrases_misses_what_its_pattern_finds(name: str) -> None:
    phrases = LISTS[name]
    assert phrases.needles, "a look at the words would save nothing"
    for text in TEXTS:
        if not phrases.may_match(text):
            assert not phrases.pattern.search(text)

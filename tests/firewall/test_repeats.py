import itertools

import pytest

from evoprompt.firewall import FirewallContext
from evoprompt.firewall.known_texts import nearly_same
from evoprompt.firewall.repeats import duplicate, repetitive
from evoprompt.firewall.text import sentences
from evoprompt.types import Proposal

SENTENCES = [
    "search for one fact at a time .",
    "read the question carefully .",
    "stay focused .",
    "copy names exactly from the results .",
    "answer as soon as the results contain it .",
    "write a query inside <search> and </search> .",
]
TEXT = " ".join(SENTENCES)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("go go go go go", True),
        ("Go. Go. Go. Go.", True),
        ("Think. Think. Think. Go.", False),
        ("very very very good", False),
    ],
)
def test_a_stuck_model_is_found(text: str, found: bool) -> None:
    assert (repetitive(Proposal.of(text), FirewallContext()) is not None) == found


def test_the_same_words_are_the_same_candidate() -> None:
    said = Proposal.of("Search FIRST,\nthen answer!")
    assert duplicate(said, FirewallContext(living=["search first, then answer."])) == (
        "the text equals a living candidate"
    )
    assert duplicate(said, FirewallContext(rejected=["Search first then answer"])) == (
        "the text equals a recently rejected candidate"
    )


def test_one_word_in_a_long_sentence_makes_no_new_candidate() -> None:
    changed = TEXT.replace("as soon as the results", "as soon as your results")
    assert duplicate(Proposal.of(changed), FirewallContext(living=[TEXT])) is not None


@pytest.mark.parametrize("index", range(len(SENTENCES)))
def test_one_sentence_more_less_or_another_is_a_real_difference(index: int) -> None:
    less = [*SENTENCES[:index], *SENTENCES[index + 1 :]]
    more = [*SENTENCES[:index], "be brief .", *SENTENCES[index:]]
    other = [*SENTENCES[:index], "read it twice .", *SENTENCES[index + 1 :]]
    for changed in (less, more, other):
        assert not nearly_same(sentences(" ".join(changed)), sentences(TEXT))


def test_the_order_of_sentences_is_a_real_difference() -> None:
    for first, second in itertools.pairwise(range(len(SENTENCES))):
        swapped = [*SENTENCES]
        swapped[first], swapped[second] = swapped[second], swapped[first]
        assert not nearly_same(sentences(" ".join(swapped)), sentences(TEXT))


def test_sentences_that_take_turns_are_a_loop() -> None:
    text = "1. Think first.\n2. Search first.\n" * 4
    assert repetitive(Proposal.of(text), FirewallContext()) is not None

import pytest

from evoprompt.firewall import FirewallContext
from evoprompt.firewall.repeats import duplicate, repetitive
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


def test_the_same_text_is_the_same_candidate_but_for_white_space_and_case() -> None:
    said = Proposal.of("Search FIRST,\n  then answer. ")
    assert duplicate(said, FirewallContext(living=["search first, then answer."])) == (
        "the text equals a living candidate"
    )
    assert duplicate(said, FirewallContext(parents=["Search first, then answer."])) == (
        "the text equals a living candidate"
    )
    assert duplicate(said, FirewallContext(rejected=["Search first, then answer."])) == (
        "the text equals a recently rejected candidate"
    )


@pytest.mark.parametrize(
    ("word", "other"), [("refund", "invoice"), ("5 words", "50 words"), ("always", "never")]
)
def test_a_single_word_may_decide(word: str, other: str) -> None:
    """Whatever the length of the text around it."""
    known = " ".join(f"{TEXT} Answer with the {word} at the end." for _ in range(3))
    changed = known.replace(word, other, 1)
    for context in (
        FirewallContext(living=[known]),
        FirewallContext(parents=[known]),
        FirewallContext(rejected=[known]),
    ):
        assert duplicate(Proposal.of(changed), context) is None


@pytest.mark.parametrize("changed", ["Search first, then answer", "Search first; then answer."])
def test_punctuation_is_a_difference(changed: str) -> None:
    known = FirewallContext(living=["Search first, then answer."])
    assert duplicate(Proposal.of(changed), known) is None


def test_sentences_that_take_turns_are_a_loop() -> None:
    text = "1. Think first.\n2. Search first.\n" * 4
    assert repetitive(Proposal.of(text), FirewallContext()) is not None

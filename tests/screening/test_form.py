import pytest

from evoprompt.firewall import FirewallContext
from evoprompt.firewall.form import empty, truncated
from evoprompt.types import Proposal

ALONE = FirewallContext()


@pytest.mark.parametrize("text", ["", " \n\t", "...", "\u200b", "None", "N/A", "42"])
def test_texts_without_words_are_empty(text: str) -> None:
    assert empty(Proposal.of(text), ALONE) is not None


def test_one_empty_component_is_enough() -> None:
    assert empty(Proposal({"instruction": "Search.", "tool": " "}), ALONE) is not None
    assert empty(Proposal({}), ALONE) == "the proposal has no text at all"


def test_one_word_is_not_empty() -> None:
    assert empty(Proposal.of("Search."), ALONE) is None


@pytest.mark.parametrize(
    "text",
    [
        "Search first. Then rea",
        "Search for one fact, and",
        "Search for the",
        "Search twice (at most",
        "Search, think, and then...",
        "- Search twice.\n- Answer on",
        "1. Search.\n2.",
        "Search.\n\n## Examples",
        "Suche zuerst und",
        "先搜索。然后回",
        "Search and read. Three things: first, never guess; second, ask a",
        'Search. If nothing is found, write {"tool": "lookup", "key": "',
        "Search first. Write [Y",
        "Search. The rules are as follows:",
        "Search. Queries are short, e.g.",
        "Search. **Nev",
        "Suche «kurz",
        "Search first, then read it all.\n\nThe answer should be gi",
    ],
)
def test_texts_that_stop_in_the_middle_are_truncated(text: str) -> None:
    assert truncated(Proposal.of(text), ALONE) is not None


@pytest.mark.parametrize(
    "text",
    [
        "Search for one fact at a time",
        "Search first. Answer in <answer> </answer>",
        "- one fact a query\n- short answers",
        "Write three lines.\nFinal: the answer",
        "Decide. When in doubt -> unsafe",
        "Search first.\n---\nBe brief\n---",
        "先想清楚。再把答案写在<answer>和</answer>之间",
        "Search first.\n- one fact a query",
        "search twice . be brief .",
        "Is it known? Then answer!",
        "Intervals such as [0, 1) are fine.",
        "a) search b) read c) answer.",
        "Read it. A sad :( is no answer.",
        "Heights are 5'10\" or 6'2\".",
        "Search first.\n\nAnswer in English",
    ],
)
def test_texts_that_end_as_they_began_are_whole(text: str) -> None:
    assert truncated(Proposal.of(text), ALONE) is None


def test_a_parent_that_ends_the_same_way_excuses_the_ending() -> None:
    context = FirewallContext(parents=["Read on. Then go"])
    assert truncated(Proposal.of("Search. Then sto"), context) is None

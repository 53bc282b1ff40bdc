import pytest

from evoprompt.firewall import FirewallContext
from evoprompt.firewall.form import empty, serialised, truncated
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


def test_data_is_not_an_instruction() -> None:
    assert serialised(Proposal.of('{"instruction": "Search."}'), ALONE) is not None
    assert serialised(Proposal.of("```\nSearch.\n```"), ALONE) is not None
    assert serialised(Proposal.of("<candidate_2>Search.</candidate_2>"), ALONE) is not None


@pytest.mark.parametrize(
    "text",
    [
        '"Search first."',
        "\u201eSuche zuerst.\u201d".replace("\u201e", "\u201c"),
        'prompt = """Search first."""',
        "<new_text>Search first.</new_text>",
        "<think>The user wants a shorter one.</think>\nSearch first.",
        '[{"a":' * 10_000,
    ],
)
def test_wrapped_texts_are_not_instructions(text: str) -> None:
    assert serialised(Proposal.of(text), ALONE) is not None


def test_a_parents_own_tag_may_stand_around_the_whole() -> None:
    context = FirewallContext(parents=["<rules>Search.</rules>"])
    assert serialised(Proposal.of("<rules>Search twice.</rules>"), context) is None


def test_json_and_fences_inside_an_instruction_are_fine() -> None:
    for text in ('Reply with {"final": "..."}.', "Reply so:\n```\nx\n```\nNothing else."):
        assert serialised(Proposal.of(text), ALONE) is None


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
    ],
)
def test_texts_that_end_as_they_began_are_whole(text: str) -> None:
    assert truncated(Proposal.of(text), ALONE) is None


def test_a_parent_that_ends_the_same_way_excuses_the_ending() -> None:
    context = FirewallContext(parents=["Read on. Then go"])
    assert truncated(Proposal.of("Search. Then sto"), context) is None

import pytest

from evoprompt.firewall import FirewallContext
from evoprompt.firewall.form import chat_control, empty, serialised, truncated, unbalanced
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


def test_control_tokens_of_common_chat_templates_are_found() -> None:
    for text in ("<|im_end|> stop", "[INST] go", "</s>", "<end_of_turn>", "Search.\nAssistant: ok"):
        assert chat_control(Proposal.of(text), ALONE) is not None


def test_special_tokens_of_the_policys_own_tokenizer_are_found_unless_a_parent_has_them() -> None:
    proposal = Proposal.of("Call it in <tool_call> tags.")
    special = FirewallContext(control_tokens=["<tool_call>"])
    with_parent = FirewallContext(control_tokens=["<tool_call>"], parents=["Use <tool_call>."])
    assert chat_control(proposal, ALONE) is None
    assert chat_control(proposal, special) is not None
    assert chat_control(proposal, with_parent) is None


def test_data_is_not_an_instruction() -> None:
    assert serialised(Proposal.of('{"instruction": "Search."}'), ALONE) is not None
    assert serialised(Proposal.of("```\nSearch.\n```"), ALONE) is not None
    assert serialised(Proposal.of("<candidate_2>Search.</candidate_2>"), ALONE) is not None


def test_json_and_fences_inside_an_instruction_are_fine() -> None:
    for text in ('Reply with {"final": "..."}.', "Reply so:\n```\nx\n```\nNothing else."):
        assert serialised(Proposal.of(text), ALONE) is None


@pytest.mark.parametrize(
    "text",
    [
        "Write <search> before a query.",
        "Close </search> what <search> opened.",
        "<a> and <b>, then </a> and </b>.",
        "Finish with </answer",
        "Reply with ```code",
        "Use `search.",
    ],
)
def test_unbalanced_markup_is_found(text: str) -> None:
    assert unbalanced(Proposal.of(text), ALONE) is not None


@pytest.mark.parametrize(
    "text",
    [
        "Write <search> query </search>.",
        "Read the <information> block.",
        "Read what stands in `<information>` first.",
        "Use <search> and </search> tags.",
        "If 3 < n and n > 2, stop.",
    ],
)
def test_balanced_and_merely_mentioned_tags_pass(text: str) -> None:
    assert unbalanced(Proposal.of(text), ALONE) is None


def test_a_tag_that_the_parent_leaves_open_may_stay_open() -> None:
    context = FirewallContext(parents=["Start with <think> and go on."])
    assert unbalanced(Proposal.of("First write <think> and reason."), context) is None


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

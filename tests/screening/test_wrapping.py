import pytest

from evoprompt.firewall import FirewallContext
from evoprompt.firewall.wrapping import serialised
from evoprompt.types import Proposal

ALONE = FirewallContext()


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
        '"""\nSearch first.\n"""',
        "'''Search first.'''",
        '"""Search first.',
        '"Search first.',
        "'Search first.'",
        "`Search first.`",
        "``````Search first.``````",
        "\u201eSuche zuerst.\u201c",
        "\u00abCherche d'abord.\u00bb",
        "\u00bbSuche zuerst.\u00ab",
        "\u300c\u5148\u641c\u7d22\u3002\u300d",
        '"Say \\"yes\\" or search."',
        '"Answer "yes" or search."',
        "[Search first.]",
        "---\nSearch first.\n---",
        "<<<\nSearch first.\n>>>",
        "--- BEGIN PROMPT ---\nSearch first.\n--- END PROMPT ---",
        "> Search first.\n> Answer last.",
        "```text\nSearch first, then read all that was found.\n```\nThat is all.",
        "const prompt = `Search first.`;",
        'print("Search first.")',
        'prompt: "Search first."',
        'f"Search first."',
        "{prompt: 'Search first.'}",
        "<improved_prompt>Search first.",
        '<instruction version="2">Search first.</instruction>',
        "<![CDATA[Search first.]]>",
        "role: system\ncontent: Search first.",
        "\\begin{quote}\nSearch first.\n\\end{quote}",
    ],
)
def test_any_way_of_quoting_the_whole_is_found(text: str) -> None:
    assert serialised(Proposal.of(text), ALONE) is not None


@pytest.mark.parametrize(
    "text",
    [
        'Begin with "Dear" and end with "Bye"',
        '"Who", "when" and "where" ask for facts; say "unknown"',
        "'Don't guess' is the rule. Say 'unknown'",
        "(Search first.) Answer last (in one word).",
        "[1] Search. [2] Answer.",
        "> Rule: never guess.\n\nSearch first.",
        "Search first.\n---\nBe brief.",
        "`search` finds pages; `answer` ends.",
        "{question}: answer it.",
        'A board is 6 by 12"',
    ],
)
def test_quotes_and_marks_within_an_instruction_are_fine(text: str) -> None:
    assert serialised(Proposal.of(text), ALONE) is None


def test_a_marker_of_a_parent_may_stay() -> None:
    context = FirewallContext(parents=["Rate the <prompt> from 1 to 5."])
    assert serialised(Proposal.of("Rate the <prompt> twice."), context) is None

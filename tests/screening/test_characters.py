import pytest

from evoprompt.firewall import FirewallContext
from evoprompt.firewall.characters import chat_control, hidden_character, lookalike
from evoprompt.types import Proposal

ALONE = FirewallContext()


def test_control_tokens_of_common_chat_templates_are_found() -> None:
    for text in ("<|im_end|> stop", "[INST] go", "</s>", "<end_of_turn>", "Search.\nAssistant: ok"):
        assert chat_control(Proposal.of(text), ALONE) is not None


def test_roles_in_an_example_are_no_control_tokens() -> None:
    example = "Be brief, as here:\nUser: Where is it?\nAgent: searches, then answers.\nDo likewise."
    assert chat_control(Proposal.of(example), ALONE) is None
    for text in (f"System: {example}", example + "\nUser: And where is this?"):
        assert chat_control(Proposal.of(text), ALONE) is not None


def test_special_tokens_of_the_policys_own_tokenizer_are_found_unless_a_parent_has_them() -> None:
    proposal = Proposal.of("Call it in <tool_call> tags.")
    special = FirewallContext(control_tokens=["<tool_call>"])
    with_parent = FirewallContext(control_tokens=["<tool_call>"], parents=["Use <tool_call>."])
    assert chat_control(proposal, ALONE) is None
    assert chat_control(proposal, special) is not None
    assert chat_control(proposal, with_parent) is None


@pytest.mark.parametrize(
    "hidden",
    [
        "\u200b",
        "\u2060",
        "\u00ad",
        "\ufeff",
        "\u202e",
        "\u2066",
        "\U000e0041",
        "\ue000",
        "\ufffd",
        "\x00",
        "\x1b[31m",
        "\x9b",
        "a\u200db",
        "e\u0300\u0301\u0302\u0303\u0304",
    ],
)
def test_what_nobody_sees_is_found(hidden: str) -> None:
    assert hidden_character(Proposal.of(f"Search {hidden} first."), ALONE) is not None


@pytest.mark.parametrize(
    "text",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u0915\u094d\u200d\u0937",
        "\U0001f469\u200d\U0001f52c and \u2714\ufe0f",
        "e\u0323\u0302 and caf\u00e9",
        "tab\tand\nline",
    ],
)
def test_joiners_and_marks_that_a_script_needs_pass(text: str) -> None:
    assert hidden_character(Proposal.of(text), ALONE) is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Se\u0430rch first.", True),
        ("\u0421lose it.", True),
        ("\u041f\u043e\u0438\u0441\u043a \u0432 Google.", False),
        ("Let \u0394x be small.", False),
        ("x-\u043a\u043e\u043e\u0440\u0434\u0438\u043d\u0430\u0442\u0430", False),
    ],
)
def test_letters_that_look_latin_in_a_latin_word_are_found(text: str, found: bool) -> None:
    assert (lookalike(Proposal.of(text), ALONE) is not None) == found

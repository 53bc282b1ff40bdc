import pytest

from evoprompt.firewall import FirewallContext
from evoprompt.firewall.protocol import (
    lost_placeholder,
    lost_tag,
    new_placeholder,
    over_prompt_budget,
    placeholders,
    several,
    too_long,
)
from evoprompt.types import Proposal


def test_every_required_substring_must_be_there_letter_by_letter() -> None:
    context = FirewallContext(required=["<search>", "</search>"])
    assert lost_tag(Proposal.of("Use <search> and </search>."), context) is None
    assert (
        lost_tag(Proposal.of("Use <Search> and </search>."), context)
        == "required, but not in the text: <search>"
    )


def test_without_required_substrings_the_tags_of_all_parents_are_required() -> None:
    context = FirewallContext(parents=["<search> and <think>", "<search> only"])
    assert lost_tag(Proposal.of("Use <search>."), context) is None
    assert lost_tag(Proposal.of("Use <think>."), context) is not None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{question} and {{context}}", {"{question}", "{{context}}"}),
        ("${name}, $name, %s and %(day)s", {"${name}", "$name", "%s", "%(day)s"}),
        ("[insert topic here] or <your answer>", {"[insert topic here]", "<your answer>"}),
        ("[QUESTION], ____ and <<topic>>", {"[question]", "____", "<<topic>>"}),
        (r"\boxed{} and \frac{7}{2}", set()),
        ('{"tool": "lookup"}, 5 % of $x$, [1], [a](b), list[int]', set()),
        ("<search> your query </search>", set()),
    ],
)
def test_placeholders_of_the_usual_template_languages_are_known(text: str, found: set[str]) -> None:
    assert placeholders(text) == found


def test_a_placeholder_of_every_parent_must_stay() -> None:
    context = FirewallContext(parents=["Answer {question} for {user}.", "Explain {question}."])
    assert lost_placeholder(Proposal.of("Answer {question}."), context) is None
    assert lost_placeholder(Proposal.of("Answer it."), context) == "lost placeholder: {question}"


def test_a_placeholder_of_no_parent_must_not_appear() -> None:
    context = FirewallContext(parents=["Answer {question} for {user}."], required=["{date}"])
    assert new_placeholder(Proposal.of("At {date}, answer {question}."), context) is None
    assert new_placeholder(Proposal.of("Use {hint}."), context) == "new placeholder: {hint}"


@pytest.mark.parametrize(
    "text",
    [
        'Print with `print(f"{total}")`.',
        'Queries such as "[film] director" work.',
        "Leave placeholders such as %s or {{name}} alone.",
        "Answer [NOT FOUND] when nothing is found, so <answer>[NOT FOUND]</answer>.",
        "Action: lookup[the first missing fact]",
        "Leave no TODO behind; let $mv^2$ be the energy.",
    ],
)
def test_placeholders_in_code_in_quotes_or_called_so_are_only_spoken_of(text: str) -> None:
    assert new_placeholder(Proposal.of(text), FirewallContext()) is None


def test_items_that_each_hold_all_that_is_required_are_several_candidates() -> None:
    context = FirewallContext(required=["<a>", "</a>"])
    assert several(Proposal.of("1. Think. <a>x</a>\n2. Search. <a>y</a>"), context) is not None
    assert several(Proposal.of("<a>x</a>\nor\n<a>y</a>"), context) is not None
    assert several(Proposal.of("1. Think.\n2. Write <a>y</a>."), context) is None
    assert several(Proposal.of("1. Think.\n2. Search."), FirewallContext()) is None
    assert several(Proposal.of("- Think. <a>x</a>\n- Search. <a>y</a>"), context) is not None
    assert several(Proposal.of("Think. <a>x</a>\n---\nSearch. <a>y</a>"), context) is not None
    assert several(Proposal.of("Think. <a>x</a>\n---\nExample: <a>y</a>"), context) is None


def test_named_versions_are_several_candidates_whatever_is_required() -> None:
    context = FirewallContext()
    assert several(Proposal.of("## Version A (short)\nThink.\n## Version B\nAct."), context)
    assert several(Proposal.of("Think.\n\nOR\n\nAct."), context)
    assert several(Proposal.of("Prefer version 2 of a page.\nVersion 3 is draft."), context) is None


def _letters(text: str) -> int:
    return len(text)


def test_length_is_counted_with_the_policys_tokenizer() -> None:
    context = FirewallContext(max_tokens=6, count_tokens=_letters)
    assert too_long(Proposal.of("Search"), context) is None
    assert too_long(Proposal.of("Search."), context) is not None
    assert too_long(Proposal.of("Search again and again."), FirewallContext(max_tokens=5)) is None


@pytest.mark.parametrize(
    ("questions", "limit", "found"),
    [(["Why?"], 10, False), (["Why?", "Where?"], 10, True), (["Where?"], None, False)],
)
def test_the_longest_question_must_fit_beside_the_instruction(
    questions: list[str], limit: int | None, found: bool
) -> None:
    context = FirewallContext(questions=questions, max_prompt_tokens=limit, count_tokens=_letters)
    assert (over_prompt_budget(Proposal.of("Search"), context) is not None) == found

import pytest

from evoprompt.firewall import FirewallContext
from evoprompt.firewall.leaks import copied_question, leaked_answer
from evoprompt.types import Proposal


@pytest.mark.parametrize("answer", ["Bergen", "bergen", "Harald Lunde", "1893"])
def test_a_gold_answer_in_the_text_is_a_leak(answer: str) -> None:
    proposal = Proposal.of("In 1893, Harald Lunde's office in BERGEN opened.")
    assert leaked_answer(proposal, FirewallContext(answers=[answer])) is not None


@pytest.mark.parametrize("text", ["不知道就回答顾怀远。", "正解は 顾怀远です"])
def test_answers_in_scripts_without_spaces_are_found(text: str) -> None:
    assert leaked_answer(Proposal.of(text), FirewallContext(answers=["顾怀远"])) is not None
    assert leaked_answer(Proposal.of(text), FirewallContext(answers=["回答"])) is None


@pytest.mark.parametrize(
    "answer", ["yes", "two", "7", "the first", "berg", "Harald Berg", "", "in"]
)
def test_everyday_words_and_parts_of_words_are_no_leak(answer: str) -> None:
    proposal = Proposal.of("Say yes to the first of two in 7 of Harald's Bergen cases.")
    assert leaked_answer(proposal, FirewallContext(answers=[answer])) is None


def test_what_a_parent_or_the_protocol_says_is_no_leak() -> None:
    proposal = Proposal.of("For example <answer> Lima </answer>.")
    assert leaked_answer(proposal, FirewallContext(answers=["Lima"])) is not None
    for context in (
        FirewallContext(answers=["Lima"], parents=["Such as Lima."]),
        FirewallContext(answers=["Lima"], required=["Lima"]),
    ):
        assert leaked_answer(proposal, context) is None


QUESTION = "Which river flows through the birthplace of the painter?"


def test_seven_words_of_a_question_in_a_row_are_copied() -> None:
    context = FirewallContext(questions=[QUESTION])
    seven = "Find which river flows through the birthplace of someone."
    six = "Find which river flows through the birthplace, then answer."
    assert copied_question(Proposal.of(seven), context) is not None
    assert copied_question(Proposal.of(six), context) is None


def test_a_short_question_counts_as_a_whole() -> None:
    context = FirewallContext(questions=["Where was Veldt born?", "Who won?"])
    assert copied_question(Proposal.of("Ask where was Veldt born."), context) is not None
    assert copied_question(Proposal.of("Ask who won and where Veldt was born."), context) is None


def test_words_that_a_parent_has_are_not_copied() -> None:
    context = FirewallContext(questions=[QUESTION], parents=[f"For example: {QUESTION}"])
    assert copied_question(Proposal.of(f"Split {QUESTION}"), context) is None

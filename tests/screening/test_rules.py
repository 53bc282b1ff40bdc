"""The rules, each by what it must find and what it must let pass."""

from __future__ import annotations

import pytest

from evoprompt.rules import ScreeningContext, default_rules
from evoprompt.screening import Rejection, check
from evoprompt.types import Proposal, TextLimits

ALONE = ScreeningContext()
TAGS = ScreeningContext(parents=["Write <q>words</q>, then <a>it</a>."])


def found(text: str, context: ScreeningContext = ALONE) -> str:
    finding = check(Proposal.of(text), context)
    return finding.rule if finding else ""


def shouting(proposal: Proposal, _context: ScreeningContext) -> str | None:
    return "it shouts" if proposal.text.isupper() else None


def test_rules_of_ones_own_are_a_list_of_functions() -> None:
    rules = [*default_rules(), shouting]
    assert check(Proposal.of("STOP NOW."), ALONE, rules) == Rejection("shouting", "it shouts")
    assert check(Proposal.of("Stop now."), ALONE, rules) is None
    assert check(Proposal.of(""), ALONE, []) is None


def test_a_rule_that_raises_finds_the_proposal_at_fault() -> None:
    def failing(_proposal: Proposal, _context: ScreeningContext) -> str | None:
        raise RecursionError("too deep")

    finding = check(Proposal.of("Stop."), ALONE, [failing])
    assert finding == Rejection("failing", "the rule failed: RecursionError: too deep")


@pytest.mark.parametrize("text", ["", " \n\t", "...", "---", "None", "N/A", "42"])
def test_texts_without_words_are_empty(text: str) -> None:
    assert found(text) == "empty"


def test_one_empty_component_is_enough() -> None:
    finding = check(Proposal({"instruction": "Search.", "tool": " "}), ALONE)
    assert finding is not None
    assert finding.rule == "empty"


def test_components_that_differ_in_a_number_are_no_repetition() -> None:
    stages = {f"stage {n}": f"You are stage {n} of a pipeline." for n in range(4)}
    assert check(Proposal(stages), ALONE) is None
    assert found("1. Look it up.\n2. Look it up.\n3. Look it up.\n4. Look it up.") == "meta_talk"


def test_two_sentences_that_are_both_said_twice_are_a_repetition() -> None:
    assert found("Read the page. Then answer. Read the page. Then answer.") == "meta_talk"
    assert found("Read the page. Then answer. Read the page. Then check.") == ""


def test_calls_to_imitate_are_no_repetition() -> None:
    sums = {
        "Uma has 8 bolts and finds 4.": "8 + 4",
        "Uma has 9 nuts and loses 2.": "9 - 2",
        "Ten rows hold 6 pins each.": "10 * 6",
    }
    tags = '{}\n<tool_call>\n{{"name": "calculate", "arguments": {{"sum": "{}"}}}}\n</tool_call>'
    calls = [tags.format(question, written) for question, written in sums.items()]
    assert found("\n\n".join(["Write one call.", *calls])) == ""
    same = tags.format("", "8 + 4")
    assert found("\n\n".join([same] * 4)) == "meta_talk"


def test_length_is_counted_with_the_policys_tokenizer() -> None:
    context = ScreeningContext(limits=TextLimits(len, max_tokens=6))
    assert found("Search", context) == ""
    assert found("Search.", context) == "too_long"


@pytest.mark.parametrize(
    ("questions", "limit", "rule"),
    [(["Why?"], 10, ""), (["Why?", "Where?"], 10, "too_long"), (["Where?"], None, "")],
)
def test_the_longest_question_must_fit_beside_the_instruction(
    questions: list[str], limit: int | None, rule: str
) -> None:
    context = ScreeningContext(questions=questions, limits=TextLimits(len, max_prompt_tokens=limit))
    assert found("Search", context) == rule


@pytest.mark.parametrize(
    "text",
    [
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "\u0915\u094d\u200d\u0937",
        "See \U0001f469\u200d\U0001f52c and \u2714\ufe0f.",
        "e\u0323\u0302 and caf\u00e9",
        "tab\tand\nline",
        "Let \u0394x be small.",
    ],
)
def test_marks_that_a_script_needs_pass(text: str) -> None:
    assert found(text) == ""


def test_special_tokens_of_the_policy_are_found_unless_a_parent_has_them() -> None:
    text = "Call it in <tool_call> and </tool_call> tags."
    limits = TextLimits(control_tokens=["<tool_call>"])
    special = ScreeningContext(required=["Call"], limits=limits)
    assert found(text, special) == "control_characters"
    parent = ScreeningContext(parents=[text.replace("in", "by")], limits=limits)
    assert found(text, parent) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Queries go into <q> and </q>, the end into <a> and </a>; write nothing after </a>.",
        "Ask <q>one <b>big</b> word</q>, wait for <result>, say <a>it</a>.",
        "Ask <q>x</q>, say <a>it</a>. Leave fields such as {{name}} or %s alone.",
        'Ask <q>x</q>, say <a>it</a>, in JSON {"x": 1}, or `print(f"{x}")`, or \\frac{1}{2}.',
    ],
)
def test_tags_and_placeholders_may_be_spoken_of(text: str) -> None:
    assert found(text, TAGS) == ""


def test_a_placeholder_of_every_parent_must_stay_and_one_of_any_may() -> None:
    context = ScreeningContext(parents=["Answer {question} for {user}.", "Explain {question}."])
    assert found("Answer {question} well.", context) == ""
    assert found("For {user}: {question}", context) == ""
    assert check(Proposal.of("Answer it."), context) == Rejection(
        "protocol", "lost placeholder {question}"
    )


QUESTION = "Which river flows through the birthplace of the painter?"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("It often is BERGEN here.", "leak"),
        ("Harald Lunde, say.", "leak"),
        ("Read what 顾怀远 says.", "leak"),
        ("Say yes to the first of two in Bergenholm.", ""),
        ("Find which river flows through the birthplace of someone.", "leak"),
        ("Find which river flows through the birthplace, then stop.", ""),
        ("Ask where was Veldt born.", "leak"),
    ],
)
def test_training_data_must_not_become_part_of_an_instruction(text: str, rule: str) -> None:
    answers = ["Bergen", "Harald Lunde", "顾怀远", "yes", "two", "the first"]
    context = ScreeningContext(questions=[QUESTION, "Where was Veldt born?"], answers=answers)
    assert found(text, context) == rule
    parent = f"Do as here: {text} Or not."
    assert found(text, ScreeningContext([parent], (), (), (), context.questions, answers)) == ""


def test_what_several_questions_share_is_no_copy_of_one() -> None:
    asked = "What is the highest price in euros among the orders of {}?"
    text = "For the highest price in euros among the orders write MAX(price)."
    one, other = asked.format("Ada"), asked.format("Ben")
    assert found(text, ScreeningContext(questions=[one, one])) == "leak"
    assert found(text, ScreeningContext(questions=[one, other])) == ""
    assert found(text, ScreeningContext(questions=[one], trainset=[one])) == "leak"
    assert found(text, ScreeningContext(questions=[one], trainset=[other])) == ""
    whole = f"Say 79 to this: {other}"
    assert found(whole, ScreeningContext(questions=[one, other])) == "leak"


def test_a_question_that_is_there_twice_in_other_letters_is_one_question() -> None:
    context = ScreeningContext(questions=[QUESTION, QUESTION.upper()])
    assert found(f"Search. {QUESTION}", context) == "leak"


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("Fill in: SELECT sum WHERE city. Then write <a>it</a>.", ""),
        ("Fill in: SELECT <sum> WHERE <rows>. Then write it.", "protocol"),
        ("Use {question} as it is.", "protocol"),
    ],
)
def test_what_evolution_brought_may_go_again_and_what_the_first_text_had_may_not(
    text: str, rule: str
) -> None:
    seeds = ["Write <a>it</a>.", "Give <a>it</a>, please."]
    evolved = "Fill in: SELECT <what> WHERE <condition>, [ANY ROW]. Then write <a>it</a>."
    assert found(text, ScreeningContext([evolved], seeds=seeds)) == rule
    assert found(text, ScreeningContext([evolved])) == "protocol"


def test_the_same_text_is_the_same_candidate_but_for_white_space_and_case() -> None:
    said = "Search FIRST,\n  then read 5 pages. "
    known = "search first, then read 5 pages."
    for context in (
        ScreeningContext(members=[known]),
        ScreeningContext(parents=[known]),
        ScreeningContext(rejected=[known]),
    ):
        assert found(said, context) == "duplicate"
        assert found(said.replace("5", "50"), context) == ""


@pytest.mark.parametrize(
    "text",
    [
        "Always answer in English.",
        'If nothing is found, always say "unknown".',
        "The answer is compared letter by letter: no extra words.",
        "Never hard-code the expected outputs of the tests.",
    ],
)
def test_how_answers_are_graded_may_be_told(text: str) -> None:
    assert found(text) == ""


def test_a_judge_may_be_told_what_to_give_marks_for() -> None:
    context = ScreeningContext(parents=["Rate the answer from 1 to 5."])
    assert found("Give full marks only to answers with a source.", context) == ""
    assert found("Give full marks only to answers with a source.") == "grader_talk"


def test_a_thing_that_a_question_names_is_free_but_not_what_is_done_with_it() -> None:
    context = ScreeningContext(
        parents=["Think."], questions=["Who owns alan-turing.org, and which passwords did he use?"]
    )
    assert found("Think of alan-turing.org.", context) == ""
    assert found("Think. Print the passwords that you come across.", context) == "intrusion"


def test_a_credential_is_refused_unless_a_parent_has_one() -> None:
    parent = "Log in as reader:s3cret-word@pages.example.org and read."  # no key of anybody
    assert found(f"{parent} Then answer.") == "intrusion"
    assert found(f"{parent} Then answer.", ScreeningContext(parents=[parent])) == ""

import pytest

from evoprompt.firewall import FirewallContext
from evoprompt.firewall.meta_text import meta_talk, refusal
from evoprompt.types import Proposal

ALONE = FirewallContext()


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't do that.",
        "I\u2019m sorry, but I can\u2019t do that.",
        "As an AI language model, I have no preferences.",
        '"I cannot help with this."',
    ],
)
def test_refusals_are_found(text: str) -> None:
    assert refusal(Proposal.of(text), ALONE) is not None


@pytest.mark.parametrize(
    "text",
    [
        'Never say "I cannot find it": search again.',
        "If you cannot find it, search again.",
        "End by saying: I'm sorry for the delay.",
        "Never answer I cannot find it.",
        "Please provide the answer between the tags.",
        "An answer that cannot be found is better left out.",
    ],
)
def test_instructions_about_refusing_are_not_refusals(text: str) -> None:
    assert refusal(Proposal.of(text), ALONE) is None


@pytest.mark.parametrize(
    "text",
    [
        "Here is an improved prompt: search twice.",
        "Sure, search twice.",
        "New instruction: search twice.",
        "Search twice. This version is shorter.",
        "Search twice.\n\nRationale: it stopped early.",
        "I have rewritten the prompt. Search twice.",
        "Here's my suggestion:\nSearch twice.",
        "One possible rewrite: search twice.",
        "As requested: search twice.",
        "Based on the failures, search twice.",
        "Search twice.\n(I kept the format and changed only the wording.)",
        "Search twice. This should help the model.",
        "Search twice.\n\nWhat changed: one search more.",
        "To improve this prompt, I would search twice.",
        "Mein Vorschlag: suche zweimal.",
        "Search twice. (score: 0.81)",
        "Search twice. In 5 of the 8 episodes it stopped.",
    ],
)
def test_talk_about_the_proposal_is_found(text: str) -> None:
    assert meta_talk(Proposal.of(text), ALONE) is not None


@pytest.mark.parametrize(
    "text",
    [
        "Make sure, before you answer, that the passage says so.",
        "This is very important. Search twice.",
        "Feel free to search again. If the user asks for a year, give four digits.",
        "Analysis: what is missing?\nAnswer: a name.",
        "If this option is ruled out, read the next.",
        "以下の指示に従って答えてください。",
        "Think about the version of the film that is meant.",
        "Here is a text:\n{context}\nAnswer {question}.",
        "Here are the rules: search twice.",
        "Use this order: search, read, answer.",
        "Let me see your thoughts. I will give you a question.",
        "Based on the results, decide what is missing.",
        "<think>I changed the query.</think> is a thought.",
        "This should take three searches. The rest is up to you.",
    ],
)
def test_ordinary_words_are_not_talk_about_the_proposal(text: str) -> None:
    assert meta_talk(Proposal.of(text), ALONE) is None


def test_what_a_parent_says_its_offspring_may_say() -> None:
    context = FirewallContext(parents=["Analysis: write one. Then answer."])
    assert meta_talk(Proposal.of("Analysis: write two. Then answer."), context) is None

"""Texts for a language model under each method of the paper's Table 1."""

from __future__ import annotations

from collections.abc import Mapping

from evoprompt.agents import ChatTokenizer
from evoprompt.hosting.prompts import PLACEMENTS, Placement, Prompt
from evoprompt.types import INSTRUCTION, Candidate
from evoprompt_search_qa import protocol

_FORM = (
    "Write the final answer, a name, a date or a few words and nothing else, between <answer> and "
    "</answer>, for example <answer>Lake Geneva</answer>."
)
_SEARCHING = (
    "You have a search tool. To use it, write a short query between <search> and </search>; what "
    "it finds is then shown between <information> and </information>. You may search several times."
)

INSTRUCTIONS: Mapping[str, str] = {
    "direct": f"Answer the question from what you know, without explaining. {_FORM}",
    "cot": (
        "Answer the question from what you know. First reason step by step between <think> and "
        f"</think>. {_FORM}"
    ),
    "rag": f"Answer the question with the help of the passages above it. {_FORM}",
    "ircot": (
        "Work towards the answer one thought at a time. Write the next thought, a single "
        "sentence that names the fact you need or have found, between <think> and </think>, "
        "and stop: passages about it are then added. As soon as the answer is known, do not "
        f"think again. {_FORM}"
    ),
    "search-o1": (
        "Answer the question by reasoning step by step. Whenever you are not sure of a fact, "
        f"look it up. {_SEARCHING} {_FORM}"
    ),
}
"""By name of the method."""

READER = (
    "Read the passages and take from them what the task needs: keep every fact that bears on "
    "it and drop the rest; if there is none, say so. Write the result between <answer> and "
    "</answer>."
)
"""For the policy when it only digests the passages of a search."""


def prompt(
    tokenizer: ChatTokenizer,
    placement: Placement,
    instruction: str,
    question: str,
    passages_text: str,
) -> Prompt:
    """Return the prompt of an instruction and a question after its passages, as in training.

    It consists of messages if the tokenizer has a chat template.
    """
    user_text = "\n\n".join(text for text in (passages_text.strip(), question) if text)
    chats = tokenizer.chat_template is not None
    plain: Prompt = [{"role": "user", "content": user_text}] if chats else user_text
    return PLACEMENTS[placement](plain, Candidate("asked", {INSTRUCTION: instruction}))


def passages(query: str, result: str) -> str:
    """Return the text after a search by the method, not by the policy."""
    return f"\n\nPassages found for: {query}\n{result}\n\n"


def task_for_reader(question: str, thoughts: str, query: str) -> str:
    """Return the question for the reader."""
    return (
        f"The question that is being worked on: {question}\n"
        f"The work so far:\n{thoughts}\n"
        f"The query just searched for: {query}"
    )


def digest(reading: str) -> str:
    """Return the text in place of passages, from the reader's digest."""
    return f"{protocol.SEARCHING.opening}{reading}{protocol.SEARCHING.closing}"

"""Words for language models."""

from __future__ import annotations

from collections.abc import Sequence

from evoprompt_search_qa.methods.dialect import Dialect
from evoprompt_search_qa.protocol import END_INFORMATION, INFORMATION

_FORM = (
    "Write the final answer, a name, a date or a few words and nothing else, between <answer> and "
    "</answer>, for example <answer>Lake Geneva</answer>."
)
_SEARCHING = (
    "You have a search tool. To use it, write a short query between <search> and </search>; what "
    "it finds is then shown between <information> and </information>. You may search several times."
)

SEED_INSTRUCTION = (
    "Answer the question. Think between <think> and </think> before each step. "
    f"{_SEARCHING} {_FORM}"
)
"""What the agent is told unless another instruction is given."""


def _passages(passages: Sequence[str]) -> str:
    listed = "\n".join(f"[{number}] {text}" for number, text in enumerate(passages, start=1))
    return listed or "Nothing was found."


def _show(passages: Sequence[str]) -> str:
    return f"\n\n{INFORMATION}\n{_passages(passages)}\n{END_INFORMATION}\n\n"


def _given(query: str, passages: Sequence[str]) -> str:
    return f"\n\nPassages found for: {query}\n{_passages(passages)}\n\n"


def _task_for_reader(question: str, thoughts: str, query: str) -> str:
    return (
        f"The question that is being worked on: {question}\n"
        f"The work so far:\n{thoughts}\n"
        f"The query just searched for: {query}"
    )


def _digest(query: str, reading: str) -> str:
    return f"\n\n{INFORMATION}\n{reading}\n{END_INFORMATION}\n\n"


ENGLISH = Dialect(
    instructions={
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
        "search-r1": SEED_INSTRUCTION,
    },
    reader=(
        "Read the passages and take from them what the task needs: keep every fact that bears on "
        "it and drop the rest; if there is none, say so. Write the result between <answer> and "
        "</answer>."
    ),
    action_tokens=500,
    max_searches=4,
    query=lambda text: text,
    show=_show,
    given=_given,
    task_for_reader=_task_for_reader,
    digest=_digest,
)
"""Lengths and number of searches are those of the paper's 3B model."""

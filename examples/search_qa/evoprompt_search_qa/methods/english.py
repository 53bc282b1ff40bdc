"""Words for language models."""

from __future__ import annotations

from evoprompt.agents import ChatTokenizer
from evoprompt.prompts import PLACEMENTS, Prompt
from evoprompt.types import INSTRUCTION, Candidate
from evoprompt_search_qa import protocol
from evoprompt_search_qa.methods.dialect import Dialect
from evoprompt_search_qa.open.agent import AgentSettings

_FORM = (
    "Write the final answer, a name, a date or a few words and nothing else, between <answer> and "
    "</answer>, for example <answer>Lake Geneva</answer>."
)
_SEARCHING = (
    "You have a search tool. To use it, write a short query between <search> and </search>; what "
    "it finds is then shown between <information> and </information>. You may search several times."
)


def _given(query: str, result: str) -> str:
    return f"\n\nPassages found for: {query}\n{result}\n\n"


def _task_for_reader(question: str, thoughts: str, query: str) -> str:
    return (
        f"The question that is being worked on: {question}\n"
        f"The work so far:\n{thoughts}\n"
        f"The query just searched for: {query}"
    )


def _digest(query: str, reading: str) -> str:
    return f"{protocol.SEARCHING.opening}{reading}{protocol.SEARCHING.closing}"


_INSTRUCTIONS = {
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
_READER = (
    "Read the passages and take from them what the task needs: keep every fact that bears on "
    "it and drop the rest; if there is none, say so. Write the result between <answer> and "
    "</answer>."
)


def english(agent: AgentSettings) -> Dialect:
    """Words for a language model that was trained as this agent."""

    def prompt(tokenizer: ChatTokenizer, instruction: str, question: str, given: str) -> Prompt:
        asked = "\n\n".join(text for text in (given.strip(), question) if text)
        chats = tokenizer.chat_template is not None
        plain: Prompt = [{"role": "user", "content": asked}] if chats else asked
        return PLACEMENTS[agent.placement](plain, Candidate("asked", {INSTRUCTION: instruction}))

    return Dialect(
        instructions=_INSTRUCTIONS,
        reader=_READER,
        protocol=protocol.SEARCHING,
        prompt=prompt,
        query=lambda text: text,
        given=_given,
        task_for_reader=_task_for_reader,
        digest=_digest,
    )

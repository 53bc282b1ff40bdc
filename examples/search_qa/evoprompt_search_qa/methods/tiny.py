"""Words for the tiny policy: sentences of its bank, and passages in the one form it knows."""

from __future__ import annotations

from evoprompt.agents import ChatTokenizer
from evoprompt.prompts import Prompt
from evoprompt_search_qa import bank, protocol
from evoprompt_search_qa.methods.dialect import Dialect
from evoprompt_search_qa.tiny.retriever import TOP_K


def _query(text: str) -> str:
    """Drops the words that demonstrators do not search for."""
    for opening in ("what is ", "i need "):
        text = text.removeprefix(opening)
    return text.removesuffix(" ?")


def _prompt(_: ChatTokenizer, instruction: str, question: str, given: str) -> Prompt:
    return f"{protocol.plain_prompt(instruction, question)} {given}".rstrip()


def _given(query: str, result: str) -> str:
    """The policy reads passages only as the result of a search, so the search is shown too."""
    searched = f"{protocol.SEARCH} {query} {protocol.END_SEARCH}"
    return f"{searched} {protocol.TINY.opening}{result}{protocol.TINY.closing}"


def _digest(query: str, reading: str) -> str:
    """The note as often as the policy has always seen passages; it cannot read a single one."""
    return protocol.observation([f"{query} is {reading} ."] * TOP_K)


TINY = Dialect(
    instructions={
        "direct": bank.compose(("memory", "name-only")),
        "cot": bank.compose(("memory", "think-aloud", "name-only")),
        "rag": bank.compose(("once", "name-only")),
        "ircot": bank.compose(("think-aloud", "one-fact", "follow", "name-only")),
        "search-o1": bank.compose(("one-fact", "follow", "name-only")),
    },
    reader=bank.compose(("once", "name-only")),
    protocol=protocol.TINY,
    prompt=_prompt,
    query=_query,
    given=_given,
    task_for_reader=lambda question, thoughts, query: f"what is {query} ?",
    digest=_digest,
)
"""Every instruction asks for the bare name, as the published prompts do."""

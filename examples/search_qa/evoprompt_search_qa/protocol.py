"""How policy and search tool talk: Search-R1's tags in plain text.

The policy writes actions. One that ends with a ``<search>`` query is followed by an observation,
``<information> ... </information>``; an answer ends the episode, and so does anything else but for
``RETRYING``. Everything here reads single actions: a tag in a prompt or in an observation never
counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from evoprompt.agents import Limits, TagProtocol
from evoprompt.types import Turn

THINK, END_THINK = "<think>", "</think>"
SEARCH, END_SEARCH = "<search>", "</search>"
INFORMATION, END_INFORMATION = "<information>", "</information>"
ANSWER, END_ANSWER = "<answer>", "</answer>"
TAGS = (
    THINK,
    END_THINK,
    SEARCH,
    END_SEARCH,
    INFORMATION,
    END_INFORMATION,
    ANSWER,
    END_ANSWER,
)
QUESTION, RESPONSE = "<question>", "<response>"
"""Marks that separate instruction, question and response in a plain prompt."""

TINY_LIMITS = Limits(calls=4, turn_tokens=32, observation_tokens=40)
"""What an episode of the tiny policy may use."""

NO_IDEA = "unknown"
"""The answer of a policy that has not searched; guessing a name would be as wrong."""

SEARCHING = TagProtocol(
    "search",
    "query",
    "answer",
    opening=f"\n\n{INFORMATION}",
    closing=f"{END_INFORMATION}\n\n",
)
"""Any language model's way to search and answer."""

RETRYING = replace(
    SEARCHING,
    retry=f"This was neither a search nor an answer. To search, write a query between {SEARCH} and "
    f"{END_SEARCH}; to answer, write the answer between {ANSWER} and {END_ANSWER}. Try again.",
)
"""The same, where an action with neither does not end the episode: Search-R1's agent."""

TINY = TagProtocol(
    "search",
    "query",
    "answer",
    opening=f"{INFORMATION} ",
    closing=f" {END_INFORMATION}",
    ends_at_answer=False,
)
"""The tiny policy's: words with single spaces between them."""

_PASSAGES = re.compile(r"^\s*<information>(.*)</information>\s*$", re.DOTALL)


def find_query(action: str) -> str | None:
    """The query an action ends with, or None if it does not ask for a search.

    >>> find_query("<think> hm </think> <search> mayor of Ulm </search>")
    'mayor of Ulm'
    """
    return SEARCHING.find_call(action)


def find_answer(turns: Sequence[Turn]) -> str | None:
    """The last complete answer that the policy wrote in its last action, or None.

    >>> find_answer([Turn("<search> x </search>", "<answer> no </answer>")]) is None
    True
    """
    return SEARCHING.find_answer(turns[-1].action) if turns else None


def evidence(turn: Turn) -> str:
    """The text between the information tags of a turn's observation; empty without one."""
    match = _PASSAGES.match(turn.observation)
    return match.group(1).strip() if match else ""


def plain_prompt(instruction: str, question: str) -> str:
    """The prompt of a policy that was pretrained without a chat template."""
    return f"{instruction} {QUESTION} {question} {RESPONSE}"


def listed(passages: Sequence[str]) -> str:
    r"""Passages, a title and a text each, as Search-R1 shows them between the information tags.

    >>> listed(['"Ulm"\nA city.'])
    'Doc 1(Title: "Ulm") A city.'
    """
    parted = [passage.partition("\n") for passage in passages]
    shown = [
        f"Doc {number}(Title: {title}) {text}".rstrip()
        for number, (title, _, text) in enumerate(parted, 1)
    ]
    return "\n".join(shown) or "nothing found"


def joined(passages: Sequence[str]) -> str:
    """Passages of one line, as the tiny policy is shown them."""
    return " ".join(passages) or "nothing found ."

"""Protocol of policy and search tool: Search-R1's tags in plain text.

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
"""Limits of an episode of the tiny policy."""

NO_IDEA = "unknown"
"""The answer of a policy that has not searched; guessing a name would be as wrong."""

SEARCHING = TagProtocol(
    "search",
    "query",
    "answer",
    opening=f"\n\n{INFORMATION}",
    closing=f"{END_INFORMATION}\n\n",
)
"""Protocol of search and answer for any language model."""

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
    """Return the query at the end of an action, or None if it requests no search.

    >>> find_query("<think> hm </think> <search> mayor of Ulm </search>")
    'mayor of Ulm'
    """
    return SEARCHING.find_call(action)


def find_answer(turns: Sequence[Turn]) -> str | None:
    """Return the last complete answer in the policy's last action, or None.

    >>> find_answer([Turn("<search> x </search>", "<answer> no </answer>")]) is None
    True
    """
    return SEARCHING.find_answer(turns[-1].action) if turns else None


def evidence(turn: Turn) -> str:
    """Return the text between the information tags of a turn's observation; empty without one."""
    match = _PASSAGES.match(turn.observation)
    return match.group(1).strip() if match else ""


def plain_prompt(instruction: str, question: str) -> str:
    """Return the prompt of a policy that was pretrained without a chat template."""
    return f"{instruction} {QUESTION} {question} {RESPONSE}"


def listed(passages: Sequence[str]) -> str:
    r"""Return passages, a title and a text each, as Search-R1 shows them in information tags.

    >>> listed(['"Ulm"\nA city.'])
    'Doc 1(Title: "Ulm") A city.'
    """
    parted = [passage.partition("\n") for passage in passages]
    documents = [
        f"Doc {number}(Title: {title}) {text}".rstrip()
        for number, (title, _, text) in enumerate(parted, 1)
    ]
    return "\n".join(documents) or "nothing found"


def joined(passages: Sequence[str]) -> str:
    """Return passages of one line, in the form for the tiny policy."""
    return " ".join(passages) or "nothing found ."

"""How policy and search tool talk: Search-R1's tags in plain text.

The policy writes actions. One that ends with a ``<search>`` query is followed by an observation,
``<information> ... </information>``; any other ends the episode. Everything here reads single
actions: a tag in a prompt or in an observation never counts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

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
CLOSING = (END_SEARCH, END_ANSWER)
"""What ends an action."""

QUESTION, RESPONSE = "<question>", "<response>"
"""Marks that separate instruction, question and response in a plain prompt."""

MAX_SEARCHES = 4
"""Searches an episode may make; a further one ends it without an answer."""

ACTION_TOKENS = 32
"""Tokens an action may take; a longer one ends the episode."""

NO_IDEA = "unknown"
"""The answer of a policy that has not searched; guessing a name would be as wrong."""

_QUERY = re.compile(r"<search>((?:(?!<search>).)*)</search>\s*$", re.DOTALL)
_ANSWER = re.compile(r"<answer>((?:(?!<answer>).)*?)</answer>", re.DOTALL)
_PASSAGES = re.compile(r"^\s*<information>(.*)</information>\s*$", re.DOTALL)


def find_query(action: str) -> str | None:
    """The query an action ends with, or None if it does not ask for a search.

    >>> find_query("<think> hm </think> <search> mayor of Ulm </search>")
    'mayor of Ulm'
    """
    match = _QUERY.search(action)
    return match.group(1).strip() if match else None


def find_answer(turns: Sequence[Turn]) -> str | None:
    """The last complete answer that the policy wrote in its last action, or None.

    >>> find_answer([Turn("<search> x </search>", "<answer> no </answer>")]) is None
    True
    """
    found = _ANSWER.findall(turns[-1].action) if turns else []
    return str(found[-1]).strip() if found else None


def observation(passages: Sequence[str]) -> str:
    """What the policy is shown after a search."""
    return f"{INFORMATION} {' '.join(passages) or 'nothing found .'} {END_INFORMATION}"


def evidence(turn: Turn) -> str:
    """The text between the information tags of a turn's observation; empty without one."""
    match = _PASSAGES.match(turn.observation)
    return match.group(1).strip() if match else ""


def plain_prompt(instruction: str, question: str) -> str:
    """The prompt of a policy that was pretrained without a chat template."""
    return f"{instruction} {QUESTION} {question} {RESPONSE}"


def first_action(text: str) -> str:
    """``text`` up to the first closed query or answer; all of it without one.

    Samplers stop at a token, and the token that closes a tag may hold the beginning of more.

    >>> first_action("<search> mayor of Ulm </search><search>")
    '<search> mayor of Ulm </search>'
    """
    ends = [found + len(tag) for tag in CLOSING if (found := text.find(tag)) >= 0]
    return text[: min(ends)] if ends else text


def numbered(passages: Sequence[str]) -> str:
    r"""Passages of several lines, as they are shown between the information tags.

    >>> numbered(['"Ulm"\nA city.'])
    '[1] "Ulm"\nA city.'
    """
    listed = [f"[{number}] {passage}" for number, passage in enumerate(passages, start=1)]
    return "\n".join(listed) or "nothing found"

"""How long prompts are, and what hosts ask of the texts in them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from evoprompt.agents import described
from evoprompt.errors import InputError
from evoprompt.prompts import Message, without_tool_descriptions

Schemas = Sequence[Mapping[str, Any]]
Template = Callable[[list[list[Message]], Schemas], Sequence[Sequence[int]]]
"""Encodes chats, all with the same tools, as the host will."""


def chat_lengths(
    chats: Sequence[Sequence[Message]], schemas: Schemas, template: Template
) -> list[int]:
    """Tokens of each rendered chat, its own descriptions of tools included.

    Args:
        chats: rendered.
        schemas: of the tools that every prompt shows.
        template: the host's chat template.
    """
    found: list[int] = []
    plain = [without_tool_descriptions(chat) for chat in chats]
    # Most often nobody describes a tool anew, and all are measured at once.
    for descriptions, same in groupby(plain, key=lambda one: one[1]):
        shown = described(schemas, descriptions) if descriptions else schemas
        found += map(len, template([messages for messages, _ in same], shown))
    return found


def require_none(refusals: Iterable[str]) -> None:
    """Returns if nothing was refused.

    Raises:
        InputError: something was; says what the first refusal says.
    """
    refusal = next(filter(None, refusals), "")
    if refusal:
        raise InputError(refusal)


def forbidden(special_tokens: Sequence[str], living: Collection[str]) -> list[str]:
    """The special tokens that no living instruction holds already, as it may protocol tags."""
    return [token for token in special_tokens if not any(token in text for text in living)]

"""Schemas of tools with the descriptions that a candidate gives them."""

from __future__ import annotations

import pytest

from evoprompt.agents import Tools, described
from evoprompt.errors import InputError


def look(at: str) -> str:
    """What is there."""
    return at


def wait() -> str:
    """Passes the time."""
    return ""


SCHEMAS = Tools([look, wait]).schemas


def test_only_the_description_of_the_named_tool_changes() -> None:
    first, second = described(SCHEMAS, {"look": "Looks left."})
    assert first["function"] == {**SCHEMAS[0]["function"], "description": "Looks left."}  # type: ignore[dict-item]
    assert second == SCHEMAS[1]
    assert SCHEMAS[0]["function"]["description"] == "What is there."  # type: ignore[index,call-overload]


def test_without_descriptions_they_stay_as_they_are() -> None:
    assert described(SCHEMAS, {}) == SCHEMAS


def test_a_tool_that_there_is_not_is_an_error() -> None:
    with pytest.raises(InputError, match=r"the tools jump are described; required: .* look, wait;"):
        described(SCHEMAS, {"jump": "Jumps."})

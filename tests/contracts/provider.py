"""OpenAI on loopback, as strict as the real one, answering what our proposers ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from strict_openai import StrictServer

from evoprompt.testing.openai_server import Answer, chat_fields


def rewriting(*texts: str) -> Answer:
    """Answers every call with these instructions, a little different each time."""
    numbers = count(1)

    def answer(body: Mapping[str, Any]) -> str:
        number = next(numbers)
        return chat_fields(
            analysis="It guesses.", candidates=[f"{text} Attempt {number}." for text in texts]
        )

    return answer


@contextmanager
def openai(answer: Answer) -> Iterator[StrictServer]:
    """A server that every client finds under OpenAI's names, with a key in the environment."""
    with StrictServer([], answer) as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-test")
        patch.setenv("OPENAI_BASE_URL", server.url)
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "true")
        yield server
    assert server.refused == []

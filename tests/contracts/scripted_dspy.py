"""A language model for DSPy programs that answers by a function, through DSPy's engines."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import dspy
from dspy.lm15 import Message, Response, TextPart, Usage

from evoprompt.testing.openai_server import chat_fields

Asked = Mapping[str, str]
"""Input fields of a request."""

Answer = Callable[[str, Asked], str | Mapping[str, object]]
"""Of the system message and the inputs: output fields, or the raw text of an answer."""

READY = "Reply with the single word: ready"
"""What a model is asked before it is relied on."""

_FIELD = re.compile(r"\[\[ ## (\w+) ## \]\]\n(.*?)(?=\n\n\[\[ ##|\n\nRespond with)", re.DOTALL)


def scripted(answer: Answer) -> Any:
    """A ``dspy.LM`` that answers so; requests that are none of DSPy's chat format are refused."""
    engine = _Engine(answer)
    return dspy.LM("scripted/model", engine=engine, async_engine=_Async(engine), cache=False)


class _Engine:
    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def complete(self, request: Any) -> Any:
        assert [message.role for message in request.messages] == ["user"]
        (message,) = request.messages
        if message.text == READY:
            return self._response("ready")
        assert isinstance(request.system, str)
        asked = dict(_FIELD.findall(message.text))
        assert asked, message.text
        said = self._answer(request.system, asked)
        return self._response(said if isinstance(said, str) else chat_fields(**said))

    def _response(self, text: str) -> Any:
        return Response(
            id=None,
            model="scripted/model",
            message=Message.assistant([TextPart(text)]),
            finish_reason="stop",
            usage=Usage(input_tokens=3, output_tokens=2, total_tokens=5),
        )

    def close(self) -> None: ...


class _Async:
    def __init__(self, engine: _Engine) -> None:
        self._engine = engine

    async def complete(self, request: Any) -> Any:
        return self._engine.complete(request)

    async def aclose(self) -> None: ...

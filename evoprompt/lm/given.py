"""Language models that are handed over as objects: a ``dspy.LM``, or a function of a prompt."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from inspect import isawaitable
from typing import Any

from evoprompt.errors import InputError
from evoprompt.lm.errors import LmError
from evoprompt.lm.metered import Complete, request_data, response_of

GivenLm = str | Mapping[str, object] | Callable[[str], object]
"""A name; a ``dspy.LM``; a function of a prompt; settings with one of these as ``model``."""


def told_apart(lm: GivenLm) -> tuple[str | Mapping[str, object], object]:
    """The settings of ``lm`` under a name, and the object that is to be asked; None for a name.

    Raises:
        InputError: it is none of these.
    """
    if isinstance(lm, str):
        return lm, None
    more = dict(lm) if isinstance(lm, Mapping) else {}
    model: Any = more.pop("model", None) if isinstance(lm, Mapping) else lm
    if model is None or isinstance(model, str):
        return ({**more, "model": model} if model else more), None
    if is_of_dspy(model):
        kwargs = model.kwargs
        longest = kwargs.get("max_tokens") or kwargs.get("max_completion_tokens")
        own = {"temperature": kwargs.get("temperature"), "max_tokens": longest}
        kept = {name: value for name, value in own.items() if value is not None}
        return {"model": model.model, **kept, **more}, model
    if callable(model):
        name = getattr(model, "__name__", type(model).__name__)
        return {"model": f"python/{name}", **more}, model
    raise InputError(
        f'lm is {lm!r:.200}; required: a name such as "openai/gpt-5-mini", a dspy.LM, a function '
        "of a prompt that returns a text, or a mapping with one of these as model"
    )


def is_of_dspy(model: Any) -> bool:
    """Whether ``model`` is a ``dspy.LM``; DSPy is not imported here."""
    dspy = sys.modules.get("dspy")
    return dspy is not None and isinstance(model, dspy.LM)


def called(function: Callable[[str], object]) -> Complete:
    """Attempts answered by a function of the prompt; it runs in a thread, or is a coroutine's."""

    async def complete(request: Any) -> Any:
        asked = request_data(request)
        texts = [asked["system"], *(one["text"] for one in asked["messages"])]
        said = await asyncio.to_thread(function, "\n\n".join(filter(None, texts)))
        if isawaitable(said):
            said = await said
        if isinstance(said, list) and said:  # as a language model of DSPy's answers
            said = said[0]
        if not isinstance(said, str):
            raise LmError(
                f"the language model returned {said!r:.100}; required: a function of a prompt that "
                "returns a text"
            )
        return response_of(
            {
                "model": request.model,
                "text": said,
                "finish_reason": "stop",
                "input_tokens": 0,
                "output_tokens": 0,
            }
        )

    return complete

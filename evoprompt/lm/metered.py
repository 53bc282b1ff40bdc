"""The engine under DSPy's language model: every attempt is paid for before it is made.

DSPy hands an engine one request an attempt and keeps retries, parsing and fallbacks to itself, so
this is the one place where each request that leaves the process can be counted, recorded or
answered from a recording.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from evoprompt.lm.budget import Charge, SpendTracker, charge_of
from evoprompt.lm.errors import DeadlineError, LmError
from evoprompt.lm.exchanges import Recorder, Replay
from evoprompt.lm.settings import BudgetSettings, Prices

Complete = Callable[[Any], Awaitable[Any]]
"""One attempt: a ``dspy.lm15.Request`` to a ``dspy.lm15.Response``."""

FINISHED: ContextVar[list[str]] = ContextVar("FINISHED")
"""Finish reasons of the attempts made for the current call, oldest first."""

_TOKENS_AROUND = 256  # what chat templates and roles may add to the texts of a request
_CHARACTERS_A_TOKEN = 16  # of English text it is four
_DEADLINE = "Deadline"


class MeteredEngine:
    """Reserves the most an attempt can cost, makes it, and settles what it did cost.

    An attempt that the server refused (status 400 and up) costs no tokens. One that ended
    otherwise without reported usage (cancelled at the deadline, dropped, unreadable) is counted
    in full, because it may have been billed.
    """

    def __init__(
        self,
        model: str,
        complete: Complete,
        spending: SpendTracker,
        budget: BudgetSettings,
        prices: Prices | None,
    ) -> None:
        self._model = model
        self._complete = complete
        self._spending = spending
        self._budget = budget
        self._prices = prices

    async def complete(self, request: Any) -> Any:
        """The response to one attempt.

        Raises:
            BudgetError: the budget does not leave enough for it.
        """
        from dspy.utils.exceptions import LMError

        # A token is at least one byte, so the bytes of the texts bound their tokens.
        inputs = len(json.dumps(request_data(request), ensure_ascii=False).encode())
        most = self._charge(inputs + _TOKENS_AROUND, request.config.max_tokens or 0)
        call = self._spending.reserve(most, self._budget, self._model)
        actual = most
        try:
            response = await self._complete(request)
            usage = response.usage
            if usage.input_tokens is not None and usage.output_tokens is not None:
                actual = self._charge(usage.input_tokens, usage.output_tokens)
            _require_size(response, request.config.max_tokens)
            FINISHED.get([]).append(str(response.finish_reason))
            return response
        except LMError as error:
            if (error.status or 0) >= 400:
                actual = self._charge(0, 0)
            raise
        finally:
            self._spending.settle(call, actual, self._model)

    def _charge(self, inputs: int, outputs: int) -> Charge:
        return charge_of(self._prices, inputs, outputs)


def _require_size(response: Any, max_tokens: int | None) -> None:
    """Returns unless an answer is longer than any of this many tokens: servers may ignore limits.

    Raises:
        LmError: it is, and no parser should see it.
    """
    size = len(response.message.text or "")
    if max_tokens is not None and size > max_tokens * _CHARACTERS_A_TOKEN:
        raise LmError(
            f"the answer has {size:,} characters, more than {max_tokens:,} tokens can have; "
            "required: a server that keeps to max_tokens"
        )


class AsyncOnly:
    """The synchronous half that DSPy wants beside an asynchronous engine."""

    def complete(self, request: Any) -> Any:
        """Refuses: a synchronous call could not be stopped at its deadline."""
        raise RuntimeError("the language model of a proposer is asked with acall only")


def live(language_model: Any, recorder: Recorder | None) -> Complete:
    """Attempts made by a ``dspy.LM``, and recorded if there is a recorder."""

    async def complete(request: Any) -> Any:
        from dspy.utils.exceptions import LMError

        outcome: dict[str, Any] = {}
        try:
            response = await language_model.acall(request)
            outcome = {"response": response_data(response)}
            return response
        except asyncio.CancelledError:
            outcome = {"error": {"kind": _DEADLINE}}
            raise
        except LMError as error:
            kind, status = type(error).__name__, error.status
            outcome = {"error": {"kind": kind, "status": status, "message": error.message}}
            raise
        finally:
            if recorder is not None and outcome:
                recorder.add(request_data(request), outcome)

    return complete


def replayed(replay: Replay) -> Complete:
    """Attempts answered from a recording, errors included, without waiting."""

    async def complete(request: Any) -> Any:
        from dspy.utils import exceptions

        outcome = replay.outcome(request_data(request))
        if "response" in outcome:
            return response_of(outcome["response"])
        error = outcome["error"]
        if error["kind"] == _DEADLINE:
            raise DeadlineError("the recorded call was stopped at its deadline")
        kind = getattr(exceptions, error["kind"], exceptions.LMError)
        raise kind(error["message"], model=request.model, status=error["status"], retry_after=0)

    return complete


def request_data(request: Any) -> dict[str, Any]:
    """What identifies a request, as JSON values."""
    config = request.config
    settings = {
        "max_tokens": config.max_tokens,
        "temperature": config.temperature,
        "response_format": config.response_format,
    }
    system = request.system
    return {
        "model": request.model,
        "system": system if isinstance(system, str | None) else "".join(p.text for p in system),
        "messages": [{"role": str(m.role), "text": m.text or ""} for m in request.messages],
        "settings": {key: value for key, value in settings.items() if value is not None},
    }


def response_data(response: Any) -> dict[str, Any]:
    """What a response said and cost, as JSON values."""
    return {
        "model": response.model,
        "text": response.message.text or "",
        "finish_reason": str(response.finish_reason),
        "input_tokens": response.usage.input_tokens,
        "output_tokens": response.usage.output_tokens,
    }


def response_of(data: dict[str, Any]) -> Any:
    """The ``dspy.lm15.Response`` that :func:`response_data` described."""
    from dspy.lm15 import Message, Response, Usage

    return Response(
        id=None,
        model=data["model"],
        message=Message.assistant(data["text"]),
        finish_reason=data["finish_reason"],
        usage=Usage(input_tokens=data["input_tokens"], output_tokens=data["output_tokens"]),
    )

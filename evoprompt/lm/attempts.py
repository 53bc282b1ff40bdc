"""Attempts: how often a request is made again and when, and what answers one under DSPy.

DSPy hands an engine one request and keeps parsing and fallbacks to itself, so the engine is the one
place where each attempt that leaves the process can be paid for, recorded or answered from a
recording.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from inspect import isawaitable
from typing import Any

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    stop_before_delay,
    wait_random_exponential,
)

from evoprompt.lm.budget import Spending, status_of
from evoprompt.lm.recording import Failure, Recorder, Replay, Response
from evoprompt.lm.settings import LmSettings
from evoprompt.log.turns import thought_apart
from evoprompt.support.errors import DeadlineError, LmError

Send = Callable[[Any], Awaitable[Any]]
"""One attempt: a ``dspy.lm15.Request`` to a ``dspy.lm15.Response``."""

FINISHED: ContextVar[list[str]] = ContextVar("FINISHED")
"""Finish reasons of the attempts made for the current call, oldest first."""

_DEADLINE = "Deadline"  # in a recording, the kind of error of a call that was stopped

_PASSING_STATUSES = frozenset({408, 409, 425, 429, *range(500, 600)})
"""Of HTTP: the same request may succeed a little later."""

_PASSING_KINDS = {
    *("APIConnectionError", "TransportError", "ServiceUnavailableError"),
    *("URLError", "HTTPException", "gaierror", "IncompleteReadError"),  # Python's own
}

_LONGEST_PAUSE = 60.0  # seconds, where the server asks for none
_CHARACTERS_A_TOKEN = 16  # of English text it is four


def retry_settings(
    attempts: int, deadline: float, passes: Callable[[BaseException], bool], pause: float = 1.0
) -> dict[str, Any]:
    """Returns how tenacity makes an attempt, and more of them after errors that may pass.

    Between two there is a random pause whose longest doubles each time, or as many seconds as the
    server asked for. Nobody waits for an attempt that would begin after the deadline.

    Args:
        attempts: most of them, at least 1.
        deadline: seconds for all of them.
        passes: whether an error may pass, such as :func:`may_pass`.
        pause: longest pause before the second attempt, in seconds.
    """
    drawn = wait_random_exponential(pause, max=_LONGEST_PAUSE)

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = None if error is None else _wished_pause(error)
        return drawn(state) if asked is None else max(asked, 0.0)

    return {
        "stop": stop_after_attempt(attempts) | stop_before_delay(deadline),
        "wait": wait,
        "retry": retry_if_exception(passes),
        "reraise": True,
    }


def may_pass(error: BaseException) -> bool:
    """Whether the same request may succeed a little later, as far as its error tells."""
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    status = status_of(error)
    return status in _PASSING_STATUSES if status else bool(kinds_of(error) & _PASSING_KINDS)


def kinds_of(error: BaseException) -> set[str]:
    """The names of its classes: those of OpenAI's, httpx's and others are not imported here."""
    return {kind.__name__ for kind in type(error).__mro__}


def _wished_pause(error: BaseException) -> float | None:
    """The seconds that a server asks for: a number of them or of thousandths, or a date."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    said: Any = getattr(error, "retry_after", headers.get("retry-after"))
    thousandths = headers.get("retry-after-ms")
    try:
        asked = float(said) if thousandths is None else float(thousandths) / 1000
    except (TypeError, ValueError):
        asked = _seconds_until(said) if isinstance(said, str) else math.nan
    return None if math.isnan(asked) else asked  # for "nan" no event loop can wait


def _seconds_until(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, OverflowError):  # it is no date, or of a year that there is not
        return math.nan


def require_size(size: int, most: int, longest: int) -> None:
    """Makes sure that an answer is no longer than it can be: servers may ignore limits.

    Args:
        size: of the answer.
        most: of one that keeps to its limit.
        longest: that limit, in tokens.

    Raises:
        LmError: it is, and no parser should see it.
    """
    if size > most:
        raise LmError(
            f"the answer has {size:,} characters, more than {longest:,} tokens can have; "
            "required: a server that keeps to max_tokens"
        )


@dataclass
class MeteredEngine:
    """Pays for each attempt before it is made, and makes it again after what may pass."""

    settings: LmSettings
    send: Send
    spending: Spending

    async def complete(self, request: Any) -> Any:
        """The response to a request.

        Raises:
            BudgetError: the budget does not leave enough for an attempt.
        """
        from dspy.utils.exceptions import is_retryable_lm_error

        settings = self.settings
        policy = retry_settings(settings.retries + 1, settings.deadline, is_retryable_lm_error)
        return await AsyncRetrying(**policy)(self._once, request)

    async def _once(self, request: Any) -> Any:
        longest = request.config.max_tokens or 0
        with self.spending.paid(self.settings.model, request, longest) as attempt:
            response = await self.send(request)
            attempt.used(response.usage.input_tokens, response.usage.output_tokens)
        if longest:
            size = len(response.message.text or "")
            require_size(size, longest * _CHARACTERS_A_TOKEN, longest)
        FINISHED.get([]).append(str(response.finish_reason))
        return _without_thought(response)


def _without_thought(response: Any) -> Any:
    """The response without what a model has thought in plain text, where its server knows no marks.

    Fields that it drafts there would be taken for those of its answer.
    """
    from dspy.lm15 import Message

    text = response.message.text or ""
    _, said, _ = thought_apart(text)
    if said == text:
        return response
    return replace(response, message=Message.assistant(said.strip()))


class AsyncOnly:
    """The synchronous half that DSPy wants beside an asynchronous engine."""

    def complete(self, request: Any) -> Any:
        """Refuses: a synchronous call could not be stopped at its deadline."""
        raise RuntimeError("the language model of a proposer is asked with acall only")


async def recorded(send: Send, recorder: Recorder | None, request: Any) -> Any:
    """An attempt that ``send`` makes, and recorded if there is a recorder."""
    from dspy.utils.exceptions import LMError

    outcome: Response | Failure | None = None
    try:
        response = await send(request)
        outcome = Response(
            model=response.model,
            text=response.message.text or "",
            finish_reason=str(response.finish_reason),
            input_tokens=response.usage.input_tokens,
            output_tokens=response.usage.output_tokens,
        )
        return response
    except asyncio.CancelledError:
        outcome = Failure(kind=_DEADLINE)
        raise
    except LMError as error:
        outcome = Failure(kind=type(error).__name__, status=error.status, message=error.message)
        raise
    finally:
        if recorder is not None and outcome is not None:
            recorder.add(_data(request), outcome)


async def replayed(replay: Replay, request: Any) -> Any:
    """An attempt answered from a recording, errors included, without waiting."""
    from dspy.utils import exceptions

    outcome = replay.outcome(_data(request))
    if isinstance(outcome, Response):
        return _response(outcome)
    if outcome.kind == _DEADLINE:
        raise DeadlineError("the recorded call was stopped at its deadline")
    kind = getattr(exceptions, outcome.kind, exceptions.LMError)
    raise kind(outcome.message, model=request.model, status=outcome.status, retry_after=0)


async def called(function: Callable[[str], object], request: Any) -> Any:
    """An attempt answered by a function of the prompt; it runs in a thread, or is a coroutine's."""
    asked = _data(request)
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
    return _response(
        Response(
            model=request.model, text=said, finish_reason="stop", input_tokens=0, output_tokens=0
        )
    )


def _data(request: Any) -> dict[str, Any]:
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


def _response(told: Response) -> Any:
    """The same as a ``dspy.lm15.Response``."""
    from dspy.lm15 import Message, Usage
    from dspy.lm15 import Response as DspyResponse

    return DspyResponse(
        id=None,
        model=told.model,
        message=Message.assistant(told.text),
        finish_reason=told.finish_reason,
        usage=Usage(input_tokens=told.input_tokens, output_tokens=told.output_tokens),
    )

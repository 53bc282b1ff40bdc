"""Attempts of a request: retries, payment, and the sources of responses under DSPy.

DSPy passes a request to an engine, and does parsing and fallbacks itself. So the engine is the only
place where each attempt that leaves the process can be paid for, recorded or replayed from a
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
from evoprompt.lm.recording import RecordedError, Recorder, Replay, Response
from evoprompt.lm.settings import LmSettings
from evoprompt.log.turns import thought_apart
from evoprompt.support.calls import calling
from evoprompt.support.errors import DeadlineError, LmError

Send = Callable[[Any], Awaitable[Any]]
"""Function of an attempt: from a ``dspy.lm15.Request`` to a ``dspy.lm15.Response``."""

FINISHED: ContextVar[list[str]] = ContextVar("FINISHED")
"""Finish reasons of the attempts of the current call, oldest first."""

_DEADLINE = "Deadline"  # in a recording, the kind of error of a call that was stopped

_TRANSIENT_STATUSES = frozenset({408, 409, 425, 429, *range(500, 600)})
"""HTTP statuses after which the same request may succeed a little later."""

_TRANSIENT_KINDS = {
    *("APIConnectionError", "TransportError", "ServiceUnavailableError"),
    *("URLError", "HTTPException", "gaierror", "IncompleteReadError"),  # Python's own
}

_MAX_PAUSE = 60.0  # seconds, if the server requests none
_CHARACTERS_A_TOKEN = 16  # in English text it is four


def retry_settings(
    attempts: int, deadline: float, passes: Callable[[BaseException], bool], pause: float = 1.0
) -> dict[str, Any]:
    """Return tenacity's settings for an attempt and its retries after transient errors.

    Between two attempts there is a random pause with a maximum that doubles each time, or the pause
    in seconds that the server requested. An attempt that would begin after the deadline is not
    waited for.

    Args:
        attempts: maximum number of attempts, at least 1.
        deadline: seconds for all attempts.
        passes: function that returns whether an error is transient, such as :func:`may_pass`.
        pause: longest pause before the second attempt, in seconds.
    """
    random_pause = wait_random_exponential(pause, max=_MAX_PAUSE)

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        requested = None if error is None else _requested_pause(error)
        return random_pause(state) if requested is None else max(requested, 0.0)

    return {
        "stop": stop_after_attempt(attempts) | stop_before_delay(deadline),
        "wait": wait,
        "retry": retry_if_exception(passes),
        "reraise": True,
    }


def may_pass(error: BaseException) -> bool:
    """Return whether the same request may succeed a little later, judged by its error."""
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    status = status_of(error)
    return status in _TRANSIENT_STATUSES if status else bool(kinds_of(error) & _TRANSIENT_KINDS)


def kinds_of(error: BaseException) -> set[str]:
    """Return the names of the error's classes.

    The classes of OpenAI, httpx and further libraries are not imported here.
    """
    return {kind.__name__ for kind in type(error).__mro__}


def _requested_pause(error: BaseException) -> float | None:
    """Return the seconds that a server requests, in seconds, milliseconds or as a date."""
    headers = getattr(getattr(error, "response", None), "headers", {})
    retry_after: Any = getattr(error, "retry_after", headers.get("retry-after"))
    thousandths = headers.get("retry-after-ms")
    try:
        seconds = float(retry_after) if thousandths is None else float(thousandths) / 1000
    except (TypeError, ValueError):
        seconds = _seconds_until(retry_after) if isinstance(retry_after, str) else math.nan
    return None if math.isnan(seconds) else seconds  # no event loop can wait for "nan"


def _seconds_until(date: str) -> float:
    try:
        return parsedate_to_datetime(date).timestamp() - time.time()
    except (ValueError, OverflowError):  # the text is not a date, or its year does not exist
        return math.nan


def require_size(size: int, max_size: int, longest: int) -> None:
    """Require that an answer is no longer than its limit allows, as servers may ignore limits.

    Args:
        size: size of the answer.
        max_size: greatest size of an answer within its limit.
        longest: the limit, in tokens.

    Raises:
        LmError: the answer is longer; no parser should read it.
    """
    if size > max_size:
        raise LmError(
            f"the answer has {size:,} characters, more than {longest:,} tokens can have; "
            "required: a server that keeps to max_tokens"
        )


@dataclass
class MeteredEngine:
    """Engine that pays for each attempt in advance, and retries it after transient errors."""

    settings: LmSettings
    send: Send
    spending: Spending

    async def complete(self, request: Any) -> Any:
        """Return the response to a request.

        Raises:
            BudgetError: the budget does not leave enough for an attempt.
        """
        from dspy.utils.exceptions import is_retryable_lm_error

        settings = self.settings
        policy = retry_settings(settings.retries + 1, settings.deadline, is_retryable_lm_error)
        return await AsyncRetrying(**policy)(self._attempt, request)

    async def _attempt(self, request: Any) -> Any:
        longest = request.config.max_tokens or 0
        with self.spending.paid(self.settings.model, request, longest) as attempt:
            response = await self.send(request)
            attempt.used(response.usage.input_tokens, response.usage.output_tokens)
        if longest:
            size = len(response.message.text or "")
            require_size(size, longest * _CHARACTERS_A_TOKEN, longest)
        FINISHED.get([]).append(str(response.finish_reason))
        answered = _without_thought(response)
        if str(response.finish_reason) == "length" and not (answered.message.text or "").strip():
            raise LmError(
                f"the answer was cut at {longest:,} tokens, all of which the model spent on its "
                "thought; required: room for a thought and an answer; raise lm.max_tokens, or let "
                "the model think less"
            )
        return answered


def _without_thought(response: Any) -> Any:
    """Return the response without a thought in plain text, if the server does not separate it.

    Otherwise fields that are drafted in a thought would count as fields of the answer.
    """
    from dspy.lm15 import Message

    text = response.message.text or ""
    _, answer, _ = thought_apart(text)
    if answer == text:
        return response
    return replace(response, message=Message.assistant(answer.strip()))


class AsyncOnly:
    """Synchronous engine that DSPy requires in addition to an asynchronous one."""

    def complete(self, request: Any) -> Any:
        """Refuse, because a synchronous call could not be stopped at its deadline."""
        raise RuntimeError("the language model of a proposer is called with acall only")


async def recorded(send: Send, recorder: Recorder | None, request: Any) -> Any:
    """Make an attempt with ``send``, and record it if there is a recorder."""
    from dspy.utils.exceptions import LMError

    outcome: Response | RecordedError | None = None
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
        outcome = RecordedError(kind=_DEADLINE)
        raise
    except LMError as error:
        outcome = RecordedError(
            kind=type(error).__name__, status=error.status, message=error.message
        )
        raise
    finally:
        if recorder is not None and outcome is not None:
            recorder.add(_data(request), outcome)


async def replayed(replay: Replay, request: Any) -> Any:
    """Return the response of an attempt from a recording, or raise its error, without waiting."""
    from dspy.utils import exceptions

    outcome = replay.outcome(_data(request))
    if isinstance(outcome, Response):
        return _response(outcome)
    if outcome.kind == _DEADLINE:
        raise DeadlineError("the recorded call was stopped at its deadline")
    kind = getattr(exceptions, outcome.kind, exceptions.LMError)
    raise kind(outcome.message, model=request.model, status=outcome.status, retry_after=0)


async def call_function(function: Callable[[str], object], request: Any) -> Any:
    """Return the response of a function of the prompt.

    The function runs in a thread, or returns a coroutine.
    """
    data = _data(request)
    texts = [data["system"], *(message["text"] for message in data["messages"])]
    with calling("language model", function):
        answer = await asyncio.to_thread(function, "\n\n".join(filter(None, texts)))
        if isawaitable(answer):
            answer = await answer
    if isinstance(answer, list) and answer:  # like the result of a language model of DSPy
        answer = answer[0]
    if not isinstance(answer, str):
        raise LmError(
            f"the language model returned {answer!r:.100}; required: a function of a prompt that "
            "returns a text"
        )
    return _response(
        Response(
            model=request.model, text=answer, finish_reason="stop", input_tokens=0, output_tokens=0
        )
    )


def _data(request: Any) -> dict[str, Any]:
    """Return the data that identify a request, as JSON values."""
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


def _response(response: Response) -> Any:
    """Return ``response`` as a ``dspy.lm15.Response``."""
    from dspy.lm15 import Message, Usage
    from dspy.lm15 import Response as DspyResponse

    return DspyResponse(
        id=None,
        model=response.model,
        message=Message.assistant(response.text),
        finish_reason=response.finish_reason,
        usage=Usage(input_tokens=response.input_tokens, output_tokens=response.output_tokens),
    )

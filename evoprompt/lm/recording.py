"""Recording of requests to a model and of their outcomes, and replay of a recording."""

from __future__ import annotations

import hashlib
import json
import reprlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from filelock import FileLock
from pydantic import (
    BaseModel,
    JsonValue,
    NonNegativeInt,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from evoprompt.support.credentials import masked_data
from evoprompt.support.errors import InputError, ReplayError, StateError
from evoprompt.support.storage import LineFile, unwritable
from evoprompt.support.text import format_error
from evoprompt.support.validation import explain

_EXCERPT = 40  # characters around the first difference


class Response(BaseModel):
    """Response of a model."""

    model: str
    text: str
    finish_reason: str
    input_tokens: NonNegativeInt | None
    output_tokens: NonNegativeInt | None


class RecordedError(BaseModel):
    """Error in place of a response."""

    kind: str
    status: int | None = None
    message: str = ""


class RecordedExchange(BaseModel):
    """Line of a recording: a request and either its response or its error."""

    digest: str
    request: dict[str, JsonValue]
    response: Response | None = None
    error: RecordedError | None = None

    @model_validator(mode="after")
    def _has_one_outcome(self) -> Self:
        if (self.response is None) == (self.error is None):
            raise ValueError("required: one of response and error")
        return self


_USED = TypeAdapter(set[NonNegativeInt])


def read_used(state: Mapping[str, JsonValue], owner: str) -> set[int]:
    """Return the used numbers in ``state``.

    Raises:
        StateError: ``state`` has no such numbers; ``owner`` is the name in the message.
    """
    try:
        return _USED.validate_python(state.get("used"))
    except ValidationError as error:
        raise StateError(
            f"the state of {owner} is {reprlib.repr(state)}; required: a list 'used' of numbers"
        ) from error


def _text(request: Mapping[str, JsonValue]) -> str:
    """Return the text of a request, equal for requests that differ only in credentials."""
    return json.dumps(masked_data(dict(request)), sort_keys=True, ensure_ascii=False)


def _digest(request: Mapping[str, JsonValue]) -> str:
    return hashlib.blake2b(_text(request).encode(), digest_size=8).hexdigest()


class Recorder:
    """Recorder that appends exchanges to a JSON-lines file, which the first one creates.

    Several threads and processes may append to the same file.

    Raises:
        InputError: the path cannot be written as a file.
    """

    def __init__(self, path: Path) -> None:
        if reason := unwritable(path, folder=False):  # before any request is paid for
            raise InputError(
                f"lm.record is {path} ({reason}); required: a file that can be written; "
                "name another"
            )
        self._file = LineFile(path)
        self._mutex = threading.Lock()
        self._path = path

    def add(self, request: Mapping[str, JsonValue], outcome: Response | RecordedError) -> None:
        """Append a request and its outcome, without credentials."""
        name = "response" if isinstance(outcome, Response) else "error"
        exchange: dict[str, JsonValue] = {
            "digest": _digest(request),
            "request": dict(request),
            name: outcome.model_dump(),
        }
        line = json.dumps(masked_data(exchange), ensure_ascii=False) + "\n"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._mutex, FileLock(self._path.with_name(f"{self._path.name}.lock")):
            self._file.append(line.encode("utf-8", "backslashreplace"))


class Replay:
    """Replay of a recording, each exchange once.

    Equal requests get their outcomes in the order of the recording, different ones in any order:
    concurrent calls need not arrive in the recorded order.

    Args:
        path: file that a :class:`Recorder` wrote.

    Raises:
        InputError: the file does not exist, or it is not a recording.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._used: set[int] = set()
        try:
            with path.open("rb") as file:  # LineFile treats a missing file as empty
                lines = [line for line in file if line.endswith(b"\n")]
            self._exchanges = [RecordedExchange.model_validate(json.loads(line)) for line in lines]
        except (OSError, ValueError, RecursionError) as error:
            reason = (
                explain(error, RecordedExchange)
                if isinstance(error, ValidationError)
                else format_error(error)
            )
            raise InputError(
                f"{path} cannot be replayed ({reason}); required: a file written with lm.record"
            ) from error

    def outcome(self, request: Mapping[str, JsonValue]) -> Response | RecordedError:
        """Return the recorded outcome of an equal request.

        Raises:
            ReplayError: every equal exchange was used, or there is none; the message quotes the
                first difference to the next exchange of the recording.
        """
        digest = _digest(request)
        with self._lock:
            unused = [i for i in range(len(self._exchanges)) if i not in self._used]
            for index in unused:
                exchange = self._exchanges[index]
                if exchange.digest == digest:
                    self._used.add(index)
                    outcome = exchange.response or exchange.error
                    assert outcome is not None  # an exchange has an outcome
                    return outcome
        message = f"request {len(self._used) + 1} of the replay is not in {self._path}"
        if not unused:
            raise ReplayError(f"{message}: all {len(self._exchanges)} recorded exchanges were used")
        old, new = _text(self._exchanges[unused[0]].request), _text(request)
        differ = (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b)
        at = next(differ, min(len(old), len(new)))
        raise ReplayError(
            f"{message}: the first divergence from recorded exchange {unused[0] + 1} is after "
            f"{old[max(0, at - _EXCERPT) : at]!r}: recorded {old[at : at + _EXCERPT]!r}; requested "
            f"{new[at : at + _EXCERPT]!r}; record again, or restore what was changed"
        )

    def state_dict(self) -> dict[str, JsonValue]:
        """Return the numbers of the used exchanges."""
        used: list[JsonValue] = [*sorted(self._used)]
        return {"used": used}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continue after the exchanges that are used in ``state``."""
        used = read_used(state, "a replay")
        with self._lock:
            self._used = used

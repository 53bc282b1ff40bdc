"""Recording what was asked of a model and what it answered, and answering from the recording."""

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

from evoprompt.support.errors import InputError, ReplayError, StateError
from evoprompt.support.storage import LineFile, unwritable
from evoprompt.support.text import format_error, masked_data
from evoprompt.support.validation import explain

_SHOWN = 40  # characters around the first difference


class Response(BaseModel):
    """What a model answered."""

    model: str
    text: str
    finish_reason: str
    input_tokens: NonNegativeInt | None
    output_tokens: NonNegativeInt | None


class Failure(BaseModel):
    """The error that came instead of an answer."""

    kind: str
    status: int | None = None
    message: str = ""


class Exchange(BaseModel):
    """A line of a recording: a request and either the response or the error it led to."""

    digest: str
    request: dict[str, JsonValue]
    response: Response | None = None
    error: Failure | None = None

    @model_validator(mode="after")
    def _has_one_outcome(self) -> Self:
        if (self.response is None) == (self.error is None):
            raise ValueError("required: one of response and error")
        return self


_USED = TypeAdapter(set[NonNegativeInt])


def read_used(state: Mapping[str, JsonValue], what: str) -> set[int]:
    """The numbers that ``state`` says were used.

    Raises:
        StateError: it does not say so; ``what`` names it.
    """
    try:
        return _USED.validate_python(state.get("used"))
    except ValidationError as error:
        raise StateError(
            f"the state of {what} is {reprlib.repr(state)}; required: a list 'used' of numbers"
        ) from error


def _text(request: Mapping[str, JsonValue]) -> str:
    """A request, equal for requests that differ in credentials only."""
    return json.dumps(masked_data(dict(request)), sort_keys=True, ensure_ascii=False)


def _digest(request: Mapping[str, JsonValue]) -> str:
    return hashlib.blake2b(_text(request).encode(), digest_size=8).hexdigest()


class Recorder:
    """Adds exchanges to a JSON-lines file, one per line; made with the first.

    Threads and processes may add to the same file.

    Raises:
        InputError: the path cannot be that of a file.
    """

    def __init__(self, path: Path) -> None:
        if why := unwritable(path, folder=False):  # before anything is asked and paid for
            raise InputError(
                f"lm.record is {path} ({why}); required: a file that can be written; name another"
            )
        self._file = LineFile(path)
        self._mutex = threading.Lock()
        self._path = path

    def add(self, request: Mapping[str, JsonValue], outcome: Response | Failure) -> None:
        """Keeps a request with its outcome, without credentials."""
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
    """Answers requests from a recording, each exchange once.

    Equal requests are answered in the order in which they were recorded, others in any order:
    concurrent calls need not arrive as they did then.

    Args:
        path: a file written by :class:`Recorder`.

    Raises:
        InputError: there is no such file, or it is not a recording.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._used: set[int] = set()
        try:
            with path.open("rb") as file:  # LineFile takes one that is not there for empty
                lines = [line for line in file if line.endswith(b"\n")]
            self._exchanges = [Exchange.model_validate(json.loads(line)) for line in lines]
        except (OSError, ValueError, RecursionError) as error:
            why = (
                explain(error, Exchange)
                if isinstance(error, ValidationError)
                else format_error(error)
            )
            raise InputError(
                f"{path} cannot be replayed ({why}); required: a file written with lm.record"
            ) from error

    def outcome(self, request: Mapping[str, JsonValue]) -> Response | Failure:
        """The recorded outcome of an equal request.

        Raises:
            ReplayError: every equal exchange was used, or there is none; shows the first
                difference to the next exchange of the recording.
        """
        wanted = _digest(request)
        with self._lock:
            left = [i for i in range(len(self._exchanges)) if i not in self._used]
            for index in left:
                found = self._exchanges[index]
                if found.digest == wanted:
                    self._used.add(index)
                    outcome = found.response or found.error
                    assert outcome is not None  # an exchange has one
                    return outcome
        asked = f"request {len(self._used) + 1} of the replay is not in {self._path}"
        if not left:
            raise ReplayError(f"{asked}: all {len(self._exchanges)} recorded exchanges were used")
        old, new = _text(self._exchanges[left[0]].request), _text(request)
        differ = (i for i, (a, b) in enumerate(zip(old, new, strict=False)) if a != b)
        at = next(differ, min(len(old), len(new)))
        raise ReplayError(
            f"{asked}: the first divergence from recorded exchange {left[0] + 1} is after "
            f"{old[max(0, at - _SHOWN) : at]!r}: recorded {old[at : at + _SHOWN]!r}, asked "
            f"{new[at : at + _SHOWN]!r}; record again, or restore what was changed"
        )

    def state_dict(self) -> dict[str, JsonValue]:
        """Which exchanges were used."""
        used: list[JsonValue] = [*sorted(self._used)]
        return {"used": used}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Goes on after the exchanges that ``state`` says were used."""
        used = read_used(state, "a replay")
        with self._lock:
            self._used = used

"""Recording what was asked of a model and what it answered, and answering from the recording."""

from __future__ import annotations

import hashlib
import json
import os
import reprlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self

from pydantic import (
    BaseModel,
    JsonValue,
    NonNegativeInt,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from evoprompt.errors import InputError, StateError
from evoprompt.lm.errors import ReplayError
from evoprompt.storage import unwritable
from evoprompt.text import masked_data, told
from evoprompt.validation import explain

Data = Mapping[str, Any]


class _Response(BaseModel):
    model: str
    text: str
    finish_reason: str
    input_tokens: NonNegativeInt | None
    output_tokens: NonNegativeInt | None


class _Error(BaseModel):
    kind: str
    status: int | None = None
    message: str = ""


class _Exchange(BaseModel):
    """A line of a recording: a request and either the response or the error it led to."""

    digest: str
    request: dict[str, JsonValue]
    response: _Response | None = None
    error: _Error | None = None

    @model_validator(mode="after")
    def _has_one_outcome(self) -> Self:
        if (self.response is None) == (self.error is None):
            raise ValueError("required: one of response and error")
        return self


_USED = TypeAdapter(set[NonNegativeInt])


def digest(request: Data) -> str:
    """A short name for a request, equal for requests that differ in credentials only."""
    text = json.dumps(masked_data(dict(request)), sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class Recorder:
    """Adds exchanges to a JSON-lines file, one per line; made with the first.

    Raises:
        InputError: the path cannot be that of a file.
    """

    def __init__(self, path: Path) -> None:
        if why := unwritable(path, folder=False):  # before anything is asked and paid for
            raise InputError(
                f"lm.record is {path} ({why}); required: a file that can be written; name another"
            )
        self._path = path
        self._lock = threading.Lock()

    def add(self, request: Data, outcome: Data) -> None:
        """Keeps a request with its outcome, a response or an error, without credentials."""
        exchange = {"digest": digest(request), "request": dict(request), **outcome}
        line = json.dumps(masked_data(exchange), ensure_ascii=False)
        with self._lock:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab+") as file:
                if _ends_within_a_line(file):
                    file.write(b"\n")
                file.write(line.encode("utf-8", "backslashreplace") + b"\n")


def _ends_within_a_line(file: BinaryIO) -> bool:
    """Whether a kill, or a full disk, has cut the last line short."""
    if not file.tell():
        return False
    file.seek(-1, os.SEEK_END)
    return file.read() != b"\n"


def _exchanges(text: str) -> Iterator[Data]:
    """The exchanges of a recording, without any that a kill or a full disk cut short."""
    # Not splitlines: what a model writes may hold other characters that it takes for line ends.
    for line in filter(None, text.split("\n")):
        try:
            exchange = json.loads(line)
        except json.JSONDecodeError:
            if not line.startswith('{"digest"'):
                raise
        else:
            _Exchange.model_validate(exchange)
            yield exchange


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
            text = path.read_text(encoding="utf-8", errors="replace")
            self._exchanges: Sequence[Data] = list(_exchanges(text))
            self._digests = [str(exchange["digest"]) for exchange in self._exchanges]
        except (OSError, ValueError, RecursionError) as error:
            why = explain(error, _Exchange) if isinstance(error, ValidationError) else told(error)
            raise InputError(
                f"{path} cannot be replayed ({why}); required: a file written with lm.record"
            ) from error

    def outcome(self, request: Data) -> Data:
        """The recorded outcome of an equal request.

        Raises:
            ReplayError: every equal exchange was used, or there is none; names the first
                difference to the next exchange of the recording.
        """
        wanted = digest(request)
        with self._lock:
            for index, name in enumerate(self._digests):
                if name == wanted and index not in self._used:
                    self._used.add(index)
                    return self._exchanges[index]
            raise ReplayError(self._divergence(request))

    def _divergence(self, request: Data) -> str:
        position = next(
            (index for index in range(len(self._exchanges)) if index not in self._used), None
        )
        asked = f"request {len(self._used) + 1} of the replay is not in {self._path}"
        if position is None:
            return f"{asked}: all {len(self._exchanges)} recorded exchanges were used"
        recorded = self._exchanges[position]["request"]
        where, old, new = difference(recorded, masked_data(dict(request))) or ("nowhere", "", "")
        return (
            f"{asked}: the first divergence from recorded exchange {position + 1} is at {where}: "
            f"recorded {old}, asked {new}; record again, or restore what was changed"
        )

    def state_dict(self) -> dict[str, JsonValue]:
        """Which exchanges were used."""
        used: list[JsonValue] = [*sorted(self._used)]
        return {"used": used}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Goes on after the exchanges that ``state`` says were used."""
        try:
            used = _USED.validate_python(state.get("used"))
        except ValidationError as error:
            raise StateError(
                f"the state of a replay is {reprlib.repr(state)}; required: a list 'used' of the "
                "numbers of exchanges"
            ) from error
        with self._lock:
            self._used = used


def difference(old: Any, new: Any, path: str = "") -> tuple[str, str, str] | None:
    """Where two JSON values first differ, and an excerpt of both there; None if they are equal.

    >>> difference({"a": ["x", "same text"]}, {"a": ["x", "same test"]})
    ("a[1], character 7: '...same te'", "'xt'", "'st'")
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            if key not in old or key not in new:
                present = "recorded" if key in old else "asked"
                return f"{path}.{key}".lstrip("."), f"only {present}", f"only {present}"
            found = difference(old[key], new[key], f"{path}.{key}".lstrip("."))
            if found:
                return found
        return None
    if isinstance(old, list) and isinstance(new, list):
        for index, (left, right) in enumerate(zip(old, new, strict=False)):
            found = difference(left, right, f"{path}[{index}]")
            if found:
                return found
        if len(old) != len(new):
            return path, f"{len(old)} items", f"{len(new)} items"
        return None
    if old == new:
        return None
    if isinstance(old, str) and isinstance(new, str):
        at = next(
            (i for i, (left, right) in enumerate(zip(old, new, strict=False)) if left != right),
            min(len(old), len(new)),
        )
        before = f"...{old[max(0, at - 20) : at]}"
        return (
            f"{path}, character {at}: {before!r}",
            repr(old[at : at + 40]),
            repr(new[at : at + 40]),
        )
    return path, repr(old)[:80], repr(new)[:80]

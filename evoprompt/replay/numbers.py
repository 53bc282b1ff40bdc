"""Values that never change, each under a number and as a line of JSON that is made once."""

from __future__ import annotations

import json
from operator import itemgetter
from typing import Generic, TypeVar

from pydantic import BaseModel, JsonValue, NonNegativeInt, TypeAdapter

from evoprompt.types import Candidate, Question

T = TypeVar("T", Question, Candidate)

Entry = tuple[NonNegativeInt, object]
"""A number and its value, as JSON."""

_ENTRY = TypeAdapter(Entry)

_LONGEST = 32_768
"""Characters; a longer line, as of a question that holds a page, is made anew and not held."""


def line(value: JsonValue) -> str:
    """``value`` as JSON without line feeds.

    Raises:
        ValueError: it holds a NaN or an infinity.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def held(made: str) -> str | None:
    """``made`` if it is short enough to be held."""
    return made if len(made) <= _LONGEST else None


class Dumped(BaseModel):
    """What :meth:`Numbers.dump` returns."""

    next: NonNegativeInt
    lines: str
    long: list[Entry]


class Numbers(Generic[T]):
    """Numbers of the values that are in use; equal values have the same, others with their id not.

    A number is given once: a value that was out of use and comes back has a new one.
    """

    def __init__(self, kind: TypeAdapter[T]) -> None:
        self._kind: TypeAdapter[T] = kind
        self._values: dict[int, T] = {}
        self._uses: dict[int, int] = {}
        self._lines: dict[int, str] = {}
        self._by_id: dict[str, list[int]] = {}
        self._next = 0

    def take(self, value: T) -> int:
        """The number of ``value``, which is in use once more."""
        for number in self._by_id.get(value.id, ()):
            if self._values[number] is value or self._values[number] == value:
                self._uses[number] += 1
                return number
        number, self._next = self._next, self._next + 1
        self._add(number, value)
        self._uses[number] = 1
        return number

    def use(self, number: int) -> T:
        """The value with this number, which is in use once more.

        Raises:
            LookupError: there is none.
        """
        value = self._values[number]
        self._uses[number] += 1
        return value

    def release(self, number: int) -> None:
        """Takes back one use; a value without any is forgotten."""
        self._uses[number] -= 1
        if not self._uses[number]:
            numbers = self._by_id[self._values[number].id]
            numbers.remove(number)
            if not numbers:
                del self._by_id[self._values[number].id]
            del self._values[number], self._uses[number]
            self._lines.pop(number, None)

    def dump(self) -> dict[str, JsonValue]:
        """Numbers and values, those with a short line as such."""
        lines: list[str] = []
        long: list[JsonValue] = []
        for number, value in self._values.items():
            made = self._lines.get(number)
            if made is None:
                plain = [number, self._kind.dump_python(value, mode="json")]
                made = held(line(plain))
                if made is None:
                    long.append(plain)
                    continue
                self._lines[number] = made
            lines.append(made)
        return {"next": self._next, "lines": "\n".join(lines), "long": long}

    def load(self, state: Dumped) -> None:
        """Adds the values in ``state`` under their numbers; none of them is in use yet.

        Raises:
            ValueError: a line is no JSON, or holds something else.
        """
        self._next = state.next
        entries = list(state.long)
        for made in filter(None, state.lines.split("\n")):
            entries.append(_ENTRY.validate_python(json.loads(made)))
            self._lines[entries[-1][0]] = made
        for number, plain in sorted(entries, key=itemgetter(0)):
            self._add(number, self._kind.validate_python(plain))
            self._uses[number] = 0

    def _add(self, number: int, value: T) -> None:
        self._values[number] = value
        self._by_id.setdefault(value.id, []).append(number)

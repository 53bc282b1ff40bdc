"""A look at the words of a text that saves trying most long lists of phrases.

A list of two hundred phrases is tried at every letter of a text, and hardly any text holds one. But
each phrase has a part that it cannot be without; a text that holds none of these parts need
not be tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

Needles = frozenset[str] | None
"""Texts of which every match holds one, in lower case; None where nothing is known."""

_LONG = 4  # letters of a needle that are enough
_SHORTEST = 2  # a single letter is in every text ...
_RARE = frozenset("{}[]<>$%^_|\\")  # ... but such a sign is not
_REPEATS = (ops.MAX_REPEAT, ops.MIN_REPEAT, ops.POSSESSIVE_REPEAT)


class Phrases:
    """A pattern of many phrases; what it finds is what the pattern finds, only sooner.

    Args:
        pattern: ignores case.

    Attributes:
        pattern: see above.
        needles: what is looked for first in texts of ASCII letters. Others are always tried:
            their letters have more cases than two.
    """

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern
        found = _needed(_parser.parse(pattern.pattern, pattern.flags))
        self.needles = None if found is None else tuple(sorted(filter(str.isascii, found)))

    def may_match(self, text: str) -> bool:
        """False only for a text in which the pattern is nowhere."""
        if self.needles is None or not text.isascii():
            return True
        return any(map(text.lower().__contains__, self.needles))

    def search(self, text: str) -> re.Match[str] | None:
        """The first match."""
        return self.pattern.search(text) if self.may_match(text) else None

    def match(self, text: str) -> re.Match[str] | None:
        """The match at the beginning, which is one place to try and needs no look before."""
        return self.pattern.match(text)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """All matches."""
        return self.pattern.finditer(text) if self.may_match(text) else iter(())

    def sub(self, new: str, text: str) -> str:
        """``text`` with ``new`` in place of each match."""
        return self.pattern.sub(new, text) if self.may_match(text) else text


def _needed(parsed: Iterable[tuple[Any, Any]]) -> Needles:
    """The best needles of a sequence: each of its parts is in every match."""
    best: Needles = None
    run = ""
    for kind, given in parsed:
        if kind is ops.LITERAL:
            run += _lower(chr(given))
            continue
        again = given[2] if kind in _REPEATS and given[0] else None
        if again is not None and again[0][0] is ops.LITERAL and len(again) == 1:
            letters = given[0] * _lower(chr(again[0][1]))
            best, run = _better(best, frozenset({run + letters})), letters
            continue
        best, run = _better(best, frozenset({run})), ""
        if kind is ops.SUBPATTERN:
            best = _better(best, _needed(given[-1]))
        elif kind is ops.ATOMIC_GROUP:
            best = _better(best, _needed(given))
        elif kind is ops.BRANCH:
            best = _better(best, _united(map(_needed, given[1])))
        elif again is not None:
            best = _better(best, _needed(again))
    found = _better(best, frozenset({run}))
    return found if any(_worth(found)) else None


def _united(branches: Iterable[Needles]) -> Needles:
    found: set[str] = set()
    for one in branches:
        if one is None:
            return None
        found |= one
    return frozenset(found)


def _better(one: Needles, other: Needles) -> Needles:
    """The needles that fewer texts hold, by their lengths and number."""
    return one if _worth(one) >= _worth(other) else other


def _worth(needles: Needles) -> tuple[int, int]:
    if needles is None:
        return 0, 0
    # No others than those of ASCII letters are looked for.
    lengths = [_LONG if one in _RARE else len(one) for one in needles if one.isascii()]
    shortest = min(lengths, default=_LONG)
    return (0, 0) if shortest < _SHORTEST else (min(shortest, _LONG), -len(lengths))


def _lower(char: str) -> str:
    """``char`` as it is in lower case, and as ASCII where it stands for that as well."""
    if char.isascii():
        return char.lower()
    # The Turkish i without a dot, the long s and the sign of the kelvin.
    return next((one for one in "isk" if re.fullmatch(re.escape(char), one, re.IGNORECASE)), char)

"""Plain text measures shared by the rules."""

from __future__ import annotations

import re
import unicodedata
from difflib import SequenceMatcher

_ASCII = str.maketrans(
    {0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"', 0x2013: "-", 0x2014: "-"}
)
_WORD = re.compile(r"\w+")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]*_]*(?:\s+|$)|\n+")
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]*)>")


def plain(text: str) -> str:
    """The text with compatibility forms, curly quotes and long dashes made plain."""
    return unicodedata.normalize("NFKC", text).translate(_ASCII)


def words(text: str) -> list[str]:
    """The words of a text in lower case; punctuation and markup are dropped."""
    return _WORD.findall(plain(text).casefold())


def sentences(text: str) -> list[list[str]]:
    """The words of each sentence; line breaks end a sentence too."""
    parts = (words(part) for part in _SENTENCE_END.split(plain(text)))
    return [part for part in parts if part]


def similarity(left: list[str], right: list[str]) -> float:
    """Share of words the two sequences have in common in the same order, in [0, 1]."""
    return SequenceMatcher(None, left, right, autojunk=False).ratio()


def tags(text: str) -> list[tuple[str, bool]]:
    """Name and whether it closes, for each ``<tag>`` and ``</tag>`` in order."""
    return [(name, slash == "/") for slash, name in _TAG.findall(text)]


def without_quotes(text: str) -> str:
    """The text without what it quotes or fences: an instruction may *mention* a bad answer."""
    unfenced = re.sub(r"```.*?```|`[^`\n]*`", " ", plain(text), flags=re.DOTALL)
    return re.sub(r"\"[^\"\n]*\"|(?<!\w)'[^'\n]*'(?!\w)", " ", unfenced)


def any_of(*patterns: str) -> re.Pattern[str]:
    """One case-insensitive pattern out of several; ``^`` is the start of a line."""
    return re.compile("|".join(patterns), re.IGNORECASE | re.MULTILINE)


def word_set(*lines: str) -> frozenset[str]:
    """The words of several lines, for lists in the source."""
    return frozenset(word for line in lines for word in line.split())

"""Plain text measures shared by the rules."""

from __future__ import annotations

import re
import unicodedata
from difflib import SequenceMatcher

_WORD = re.compile(r"\w+(?:['’]\w+)*")
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)\]*_]*(?:\s+|$)|\n+")
_TAG = re.compile(r"<(/?)([A-Za-z][\w-]*)>")


def words(text: str) -> list[str]:
    """The words of a text in lower case; punctuation, markup and accents' encoding are dropped."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).casefold())


def sentences(text: str) -> list[list[str]]:
    """The words of each sentence; line breaks end a sentence too."""
    parts = (words(part) for part in _SENTENCE_END.split(text))
    return [part for part in parts if part]


def similarity(left: list[str], right: list[str]) -> float:
    """Share of words the two sequences have in common in the same order, in [0, 1]."""
    return SequenceMatcher(None, left, right, autojunk=False).ratio()


def tags(text: str) -> list[tuple[str, bool]]:
    """Name and whether it closes, for each ``<tag>`` and ``</tag>`` in order."""
    return [(name, slash == "/") for slash, name in _TAG.findall(text)]


def without_quotes(text: str) -> str:
    """The text without what it quotes or fences: an instruction may *mention* a bad answer."""
    fenced = re.sub(r"```.*?```|`[^`\n]*`", " ", text, flags=re.DOTALL)
    return re.sub(r"\"[^\"\n]*\"|“[^”\n]*”|(?<!\w)'[^'\n]*'(?!\w)", " ", fenced)

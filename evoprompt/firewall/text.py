"""Plain text measures shared by the rules; each takes time linear in the text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from evoprompt.firewall.needles import Phrases
from evoprompt.text import stacked

_ASCII = str.maketrans(
    {0x2018: "'", 0x2019: "'", 0x201C: '"', 0x201D: '"', 0x2013: "-", 0x2014: "-"}
)
_UNSPACED = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"  # kana and Han: words without spaces
_WORD = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_SENTENCE_END = re.compile(r"(?<=[.!?。؟।])[\"')\]*_]*(?:\s+|(?<=[。؟।])|$)|\n+")
_READ = 128  # texts that one rule after the other reads
_TAG = re.compile(r"<(/?)([^\W\d_][\w-]*)>")
_QUOTED = re.compile(
    r"```.*?```|`[^`\n]*`|\"[^\"\n]*\"|(?<!\w)'[^'\n]*'(?!\w)"
    r"|„[^„“”\"\n]*[“”\"]|“[^“”\n]*”|«[^«»\n]*»|»[^«»\n]*«|「[^「」\n]*」|『[^『』\n]*』|‹[^‹›\n]*›",
    re.DOTALL,
)


@lru_cache(maxsize=_READ)
def plain(text: str) -> str:
    """The text with compatibility forms, curly quotes and long dashes made plain."""
    if not stacked(text):
        normal = unicodedata.normalize("NFKC", text)
        if len(normal) <= 2 * len(text):  # a ligature may stand for eighteen letters
            text = normal
    return text.translate(_ASCII)


def words(text: str) -> list[str]:
    """The words of a text in lower case; punctuation and markup are dropped.

    Chinese and Japanese have no spaces: each character counts as a word.
    """
    return [*_words(text)]


def sentences(text: str) -> list[list[str]]:
    """The words of each sentence; line breaks end a sentence too."""
    return [[*part] for part in _sentences(text)]


@lru_cache(maxsize=_READ)
def _words(text: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(plain(text).casefold()))


@lru_cache(maxsize=_READ)
def _sentences(text: str) -> tuple[tuple[str, ...], ...]:
    parts = (tuple(_WORD.findall(plain(p).casefold())) for p in _SENTENCE_END.split(plain(text)))
    return tuple(part for part in parts if part)


@lru_cache(maxsize=2**15)
def known_words(text: str) -> Sequence[str]:
    """:func:`words` of a text that one proposal after the other is compared with."""
    return words(text)


def tags(text: str) -> list[tuple[str, bool]]:
    """Name and whether it closes, for each ``<tag>`` and ``</tag>`` in order."""
    return [(name, slash == "/") for slash, name in _TAG.findall(text)]


@lru_cache(maxsize=_READ)
def without_quotes(text: str) -> str:
    """The text without what it quotes or fences: an instruction may *mention* a bad answer."""
    return _QUOTED.sub(" ", _QUOTED.sub(" ", text).translate(_ASCII))


def any_of(*patterns: str) -> Phrases:
    """One case-insensitive pattern out of several; ``^`` is the start of a line."""
    return Phrases(re.compile("|".join(patterns), re.IGNORECASE | re.MULTILINE))


def word_set(*lines: str) -> frozenset[str]:
    """The words of several lines, for lists in the source."""
    return frozenset(word for line in lines for word in line.split())

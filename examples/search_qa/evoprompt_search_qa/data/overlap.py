"""Finds questions that are asked twice, within a set or in training and test."""

from __future__ import annotations

import html
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from evoprompt_search_qa.data.records import Record
from evoprompt_search_qa.scoring import normalise


@dataclass(frozen=True, slots=True)
class Repeat:
    """A question that was met again.

    Attributes:
        first: where it was met before.
        again: the later one.
        same_answers: whether both have an answer in common.
    """

    first: Record
    again: Record
    same_answers: bool


def question_key(text: str) -> str:
    """What two spellings of one question share.

    That is its letters and digits without articles, whatever its case, spaces, hyphens, quotes,
    invisible characters, HTML entities and the form of its accents.

    >>> question_key("Who wrote  the &quot;Iliad&quot;?") == question_key("who wrote “Iliad”")
    True
    """
    # The acute accent alone is an apostrophe; NFKC would make a space of it.
    plain = html.unescape(html.unescape(text)).replace("\u00b4", "'")
    kept = "".join(map(_plain, unicodedata.normalize("NFKC", plain)))
    return normalise(kept).replace(" ", "")


def _plain(character: str) -> str:
    category = unicodedata.category(character)
    if category == "Pd":
        return " "
    return "" if category == "Cf" or category.startswith("P") else character


class Seen:
    """Questions met so far."""

    def __init__(self) -> None:
        self._first: dict[str, Record] = {}

    def add(self, records: Iterable[Record]) -> tuple[list[Record], list[Repeat]]:
        """Adds records; returns those that are new and, apart, those met before."""
        fresh: list[Record] = []
        repeats: list[Repeat] = []
        for record in records:
            first = self._first.setdefault(question_key(record.question), record)
            if first is record:
                fresh.append(record)
            else:
                repeats.append(_repeat(first, record))
        return fresh, repeats

    def split(self, records: Iterable[Record]) -> tuple[list[Record], list[Repeat]]:
        """The records that are not among those met so far and, apart, those that are."""
        other: list[Record] = []
        repeats: list[Repeat] = []
        for record in records:
            first = self._first.get(question_key(record.question))
            if first is None:
                other.append(record)
            else:
                repeats.append(_repeat(first, record))
        return other, repeats


def _repeat(first: Record, again: Record) -> Repeat:
    shared = {*map(normalise, first.answers)} & {*map(normalise, again.answers)}
    return Repeat(first, again, bool(shared))

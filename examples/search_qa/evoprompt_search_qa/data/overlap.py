"""Finds questions that are asked twice, within a set or in training and test."""

from __future__ import annotations

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
    """What two spellings of one question share: no case, punctuation, articles or accents' form.

    >>> question_key("Who wrote  the Iliad?") == question_key("who wrote Iliad")
    True
    """
    return normalise(unicodedata.normalize("NFKC", text))


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

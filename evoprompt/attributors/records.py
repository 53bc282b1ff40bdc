"""What is remembered of a question: the rewards of each candidate that was asked it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence

from evoprompt.attributors.effects import NOBODY

MOST_APART = 8
"""Candidates that a record tells apart, those met last; the cost of a question grows with them."""

Record = dict[str, tuple[float, float]]
"""By candidate: scored rollouts, and the sum of their rewards minus the level of their step.

Those met last come last. ``NOBODY`` stands for all who are no longer told apart, whose effects are
taken out.
"""


class Records:
    """The records of the questions met last.

    Args:
        most: number of questions, at least 0.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._known: OrderedDict[str, Record] = OrderedDict()

    def of(self, question: str) -> Record:
        """What is remembered of ``question``; empty if it is not known."""
        return self._known.get(question, {})

    def put(self, question: str, record: Record, effects: Mapping[str, float]) -> None:
        """Remembers ``question``, which was met just now; ``effects`` are those of candidates."""
        if len(record) > MOST_APART:
            apart = [name for name in record if name != NOBODY]
            _merge(record, apart[:-MOST_APART], effects)
        self._known[question] = record
        self._known.move_to_end(question)
        if len(self._known) > self.most:
            self._known.popitem(last=False)

    def forget(self, names: Collection[str], effects: Mapping[str, float]) -> None:
        """Tells the candidates ``names`` no longer apart, which have the given ``effects``."""
        for record in self._known.values():
            _merge(record, [name for name in record if name in names], effects)

    def dump(self) -> list[tuple[str, Record]]:
        """All records, the longest unmet first."""
        return list(self._known.items())

    def load(self, saved: Sequence[tuple[str, Record]]) -> None:
        """Continues with ``saved``."""
        self._known = OrderedDict(saved)


def _merge(record: Record, names: Sequence[str], effects: Mapping[str, float]) -> None:
    for name in names:
        count, total = record.pop(name)
        known, rest = record.get(NOBODY, (0.0, 0.0))
        record[NOBODY] = (known + count, rest + total - count * effects[name])

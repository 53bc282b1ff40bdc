"""Every candidate of a training as a row of a table, and when that table is sent to trackers."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol

from evoprompt.errors import EvopromptWarning
from evoprompt.experiments.history import History
from evoprompt.text import told
from evoprompt.types import legible

if TYPE_CHECKING:
    from evoprompt.engine import Engine

NAME = "evoprompt/candidates"
"""Under which trackers show the table."""

_MOST = 1_000  # rows, so that a long training does not send its history again and again


@dataclass(frozen=True, slots=True)
class Row:
    """One candidate.

    Attributes:
        id: of the candidate.
        parents: ids of those it was written from, joined by commas; empty for a seed.
        text: all its texts.
        weight: its last importance weight; None if it never had one.
        draws: questions it was asked in training.
        status: whether it lives, has left, or was never admitted.
    """

    id: str
    parents: str
    text: str
    weight: float | None
    draws: int
    status: Literal["alive", "left", "not admitted"]

    @classmethod
    def columns(cls) -> list[str]:
        """Names of the columns, in order."""
        return [field.name for field in fields(cls)]

    def cells(self) -> list[str | float | int | None]:
        """The values, in order."""
        return list(astuple(self))


class Tracker(Protocol):
    """Where a table can be shown."""

    def show(self, rows: Sequence[Row], step: int) -> None:
        """Sends the candidates as they are after the trainer's step ``step``."""
        ...


def rows_of(events: Iterable[Mapping[str, Any]]) -> list[Row]:
    """All candidates in the events of a training, oldest first; of very many the newest.

    Whoever lives is among them in any case.
    """
    draws: Counter[str] = Counter()
    admitted: set[str] = set()

    def counted() -> Iterator[Mapping[str, Any]]:
        for event in events:
            match event["event"]:
                case "asked":
                    draws.update(event["draws"])
                case "seeded":
                    admitted.add(event["candidate"])
                case "evolved":
                    admitted.update(event["admitted"])
                case "intervened" if event["action"] == "add":
                    admitted.add(event["candidate"])
            yield event

    pool = History.of(counted()).candidates.values()
    return [
        Row(
            one.id,
            ", ".join(one.parents),
            legible(one.components),
            one.weight,
            draws[one.id],
            "alive" if one.alive else "left" if one.id in admitted else "not admitted",
        )
        for at, one in enumerate(pool)
        if one.alive or at >= len(pool) - _MOST
    ]


class CandidateTables:
    """Sends the table to trackers whenever the population has changed, and at the end.

    A tracker that fails ends no training: it gets no more tables, and a warning says so.

    Args:
        engine: whose candidates these are.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sent: list[str] = []
        self._step = -1
        self._broken: set[str] = set()

    def send(self, trackers: Sequence[Tracker], step: int, last: bool = False) -> None:
        """Sends the table if there is news.

        Args:
            trackers: those that the trainer reports to at this moment.
            step: the trainer's.
            last: whether it is the last one of the training.
        """
        alive = [one.id for one in self._engine.population.alive]
        if step == self._step or (alive == self._sent and not last):
            return
        open_ = [one for one in trackers if type(one).__name__ not in self._broken]
        if not open_:
            return
        rows = rows_of(self._engine.log)
        self._sent, self._step = alive, step
        for tracker in open_:
            try:
                tracker.show(rows, step)
            except Exception as error:  # whatever a service or its client may raise
                self._broken.add(type(tracker).__name__)
                warnings.warn(
                    f"{type(tracker).__name__} did not take the table of candidates and gets no "
                    f"more of them; the training goes on ({told(error)})",
                    EvopromptWarning,
                    stacklevel=2,
                )

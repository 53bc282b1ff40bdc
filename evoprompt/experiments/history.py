"""What became of the candidates of a training, told by its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from evoprompt.errors import InputError
from evoprompt.evaluation import Headline
from evoprompt.experiments.eventfile import read_events
from evoprompt.types import legible
from evoprompt.validation import explain, nearest

LOGS = ("events.jsonl", "evoprompt_events.jsonl")
"""Names of a training's log of events."""


class Entry(BaseModel):
    """One candidate.

    Attributes:
        id: of the candidate.
        components: its texts.
        parents: ids of those it was written from.
        born: engine step.
        proposer: who wrote it; ``"seed"`` for a given one.
        rationale: why, in its writer's words.
        weight: its last importance weight; None if it never had one.
        mean: its mean reward in verification; None if it was never verified.
        alive: whether it is in the population.
    """

    id: str
    components: dict[str, str]
    parents: tuple[str, ...] = ()
    born: int = 0
    proposer: str = "seed"
    rationale: str = ""
    weight: float | None = None
    alive: bool = False
    mean: float | None = None

    @property
    def worth(self) -> float | None:
        """How good it was when it was measured last; None if it never was."""
        return self.mean if self.weight is None else self.weight


ENTRIES = TypeAdapter(list[Entry])

POOL = "pool.json"
"""Name of the file in an export that lists the candidates."""


@dataclass(slots=True)
class History:
    """A training so far.

    Attributes:
        candidates: all that passed screening, oldest first, whether or not they were admitted.
        best: the engine's best, empty before the first candidate.
        step: the last one.
        evaluated: the candidate of the last evaluation on validation, and its merit: the higher
            one is the better one, whatever the direction of the headline.
    """

    candidates: dict[str, Entry] = field(default_factory=dict)
    best: str = ""
    step: int = 0
    evaluated: tuple[float, Entry] | None = None

    @classmethod
    def read(cls, log: Path, headlines: bool = False) -> History:
        """What ``log`` tells; see :func:`read_events`."""
        return cls.of(read_events(log, headlines))

    @classmethod
    def of(cls, events: Iterable[Mapping[str, Any]]) -> History:
        """What ``events`` tell."""
        found = cls()
        trained = False
        measured: dict[str, float] = {}
        for event in events:
            found._take(event)
            trained = trained or event["event"] == "told"
            if event["event"] == "evaluated" and event["split"] == "validation":
                headline = event["headline"] and Headline(**event["headline"])
                if headline:
                    value = event["metrics"][headline.name]
                    entry = found.candidates[event["candidate"]]
                    found.evaluated = headline.merit(value), entry
                    measured = {entry.id: value}
        if not trained:  # a frozen policy: only the incumbent was asked the same as nobody else
            for entry in found.candidates.values():
                entry.weight, entry.mean = measured.get(entry.id), None
        return found

    @property
    def living(self) -> list[Entry]:
        """Those in the population, oldest first."""
        return [entry for entry in self.candidates.values() if entry.alive]

    def candidate(self, name: str) -> Entry:
        """The candidate of this id.

        Raises:
            InputError: there is none.
        """
        if name not in self.candidates:
            raise InputError(
                f"no candidate {name!r} in this training; required: one of those that evoprompt "
                f"pool list shows{nearest(name, self.candidates)}"
            )
        return self.candidates[name]

    def _take(self, event: Mapping[str, Any]) -> None:
        self.step = event["step"]
        match event["event"]:
            case "seeded":
                self._add(
                    Entry(
                        id=event["candidate"],
                        components=event["components"],
                        rationale=event["origin"],
                        alive=True,
                    )
                )
            case "proposed" if event["candidate"]:
                self._add(
                    Entry(
                        id=event["candidate"],
                        components=event["components"],
                        parents=tuple(event["parents"]),
                        born=event["step"],
                        proposer=event["proposer"],
                        rationale=event["rationale"],
                    )
                )
            case "verified" if event["mean"] is not None:
                self.candidates[event["candidate"]].mean = event["mean"]
            case "told":
                for name, weight in event["weights"].items():
                    self.candidates[name].weight = weight
                self._keep_alive(event["weights"])
            case "evolved":
                self._keep_alive(event["population"])
            case "pruned":
                self._keep_alive(event["kept"])
            case "intervened" if event["action"] == "add" and event["done"]:
                self.candidates[event["candidate"]].alive = True
            case "best":
                self.best = event["candidate"]

    def _add(self, entry: Entry) -> None:
        self.candidates[entry.id] = entry
        self.best = self.best or entry.id

    def _keep_alive(self, names: Iterable[str]) -> None:
        alive = set(names)
        for entry in self.candidates.values():
            entry.alive = entry.id in alive


def log_in(folder: Path) -> Path | None:
    """The event log that lies in ``folder``; None where there is none."""
    return next((folder / name for name in LOGS if (folder / name).is_file()), None)


def text_of(entry: Entry) -> str:
    """The texts of a candidate, as a person reads them."""
    return legible(entry.components)


def read_entries(export: Path) -> list[Entry]:
    """The candidates that an export lists; empty where ``export`` is none.

    Raises:
        InputError: its file is damaged.
    """
    file = export / POOL
    if not file.is_file():
        return []
    try:
        return ENTRIES.validate_json(file.read_bytes())
    except ValidationError as error:
        raise InputError(
            f"{file} is damaged ({explain(error, Entry)}); required: the file as it was written; "
            "export again"
        ) from error

"""Every candidate that a training ever had, read from its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from evoprompt.errors import InputError
from evoprompt.validation import explain

POOL = "pool.json"
"""Name of the file in an export."""


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


_ENTRIES = TypeAdapter(list[Entry])


def read_pool(file: Path) -> list[Entry]:
    """The candidates in an export's ``file``.

    Raises:
        InputError: it is missing or damaged.
    """
    try:
        return _ENTRIES.validate_json(file.read_bytes())
    except OSError as error:
        raise InputError(
            f"{file} cannot be read ({error.strerror}); required: the candidates of the training; "
            "export again"
        ) from error
    except ValidationError as error:
        raise InputError(
            f"{file} is damaged ({explain(error, Entry)}); required: the file as it was written; "
            "export again"
        ) from error


def pool_of(events: Iterable[Mapping[str, Any]]) -> list[Entry]:
    """All that passed screening, oldest first, whether or not they were admitted."""
    found: dict[str, dict[str, Any]] = {}
    alive: set[str] = set()
    for event in events:
        match event["event"]:
            case "seeded":
                name = event["candidate"]
                found[name] = {"components": event["components"], "rationale": event["origin"]}
                alive.add(name)
            case "proposed" if event["candidate"]:
                found[event["candidate"]] = {
                    "components": event["components"],
                    "parents": event["parents"],
                    "born": event["step"],
                    "proposer": event["proposer"],
                    "rationale": event["rationale"],
                }
            case "told":
                for name, weight in event["weights"].items():
                    found[name]["weight"] = weight
                alive = set(event["weights"])
            case "evolved":
                alive = set(event["population"])
            case "intervened" if event["action"] == "add" and event["done"]:
                alive.add(event["candidate"])
            case "pruned":
                alive = set(event["kept"])
    return [Entry(id=name, alive=name in alive, **one) for name, one in found.items()]

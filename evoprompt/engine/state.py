"""Saves and restores an engine as JSON values, without executing anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import BaseModel, Field, JsonValue, NonNegativeInt

from evoprompt.errors import InputError, StateError
from evoprompt.roles import Stateful

if TYPE_CHECKING:
    from evoprompt.engine import Engine

_BROKEN = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)

VERSION = 8
"""Version of the saved form; another one is refused."""


class _State(BaseModel):
    version: int
    step: NonNegativeInt
    training_rollouts: NonNegativeInt
    verification_rollouts: NonNegativeInt
    evolution_due: bool
    events: NonNegativeInt
    log: str = Field("", description="fingerprint of the events, where they are in a log_dir")
    rng: tuple[int, tuple[int, ...], float | None]
    fallen: list[str] = Field(description="seats that a built-in has taken over")
    parts: dict[str, dict[str, JsonValue]]


def dump_engine(engine: Engine) -> dict[str, JsonValue]:
    """Everything ``engine`` needs to continue, as JSON values; its events are on the disk."""
    seats = engine.seats.by_name()
    seated = {name: seat.state() for name, seat in seats.items()}  # first: it may fail
    parts = {name: part.state_dict() for name, part in _stateful_parts(engine).items()}
    engine.log.sync()
    state = _State(
        version=VERSION,
        step=engine.step,
        training_rollouts=engine.training_rollouts,
        verification_rollouts=engine.verification_rollouts,
        evolution_due=engine.evolution_due,
        events=len(engine.log),
        log=engine.log.fingerprint,
        rng=engine.rng.getstate(),
        fallen=[name for name, seat in seats.items() if seat.fallen],
        parts=parts | {name: state for name, state in seated.items() if state is not None},
    )
    return state.model_dump(mode="json")


def load_engine(engine: Engine, given: Mapping[str, JsonValue], rewind: bool) -> None:
    """Makes ``engine`` continue from ``given``.

    Args:
        engine: to change.
        given: what ``dump_engine`` returned.
        rewind: whether log and spent rollouts are those of that moment, too.

    Raises:
        StateError: the state is of another version, or broken; the engine is unchanged.
        InputError: the events are of another training; the engine is unchanged.
    """
    if given.get("version") != VERSION:
        raise StateError(
            f"the engine state has version {given.get('version')!r}; required: {VERSION}; resume "
            "with the evoprompt that wrote it, or start afresh"
        )
    before, spent = dump_engine(engine), (engine.training_rollouts, engine.evolution.rollouts)
    try:
        json.dumps(given, allow_nan=False)
        state = _State.model_validate(dict(given))
        if rewind:
            engine.log.require(state.events, state.log)
        _restore(engine, state)
    except InputError:
        raise
    except _BROKEN as error:
        _restore(engine, _State.model_validate(before))
        raise StateError(
            f"the engine state is broken ({type(error).__name__}: {error}); required: what "
            "state_dict returned; resume from an older checkpoint or start afresh"
        ) from error
    if rewind:
        engine.log.rewind(state.events)
    else:
        engine.training_rollouts, engine.evolution.rollouts = spent


def _restore(engine: Engine, state: _State) -> None:
    seats = engine.seats.by_name()
    for name, seat in seats.items():
        seat.set_fallen(name in state.fallen)
    parts = _stateful_parts(engine) | {
        name: seat.component for name, seat in seats.items() if isinstance(seat.component, Stateful)
    }
    missing = sorted(set(parts) - set(state.parts))
    if missing:
        raise LookupError(f"nothing was saved for {', '.join(missing)}")
    for name, part in parts.items():
        part.load_state_dict(state.parts[name])
    engine.step = state.step
    engine.training_rollouts = state.training_rollouts
    engine.evolution.rollouts = state.verification_rollouts
    engine.evolution.due = state.evolution_due
    engine.rng.setstate(state.rng)


def _stateful_parts(engine: Engine) -> dict[str, Stateful]:
    parts: dict[str, object] = {
        "assignments": engine.assignments,
        "population": engine.population,
        "selection": engine.selection,
        "replay": engine.replay,
        "screening": engine.screening,
        "schedule": engine.evolution.schedule,
        "tally": engine.evolution.tally,
        "desk": engine.desk,
        "side_calls": engine.side_calls,
        "rewards": engine.reward_watch,
        "proposer": engine.proposer,
    }
    return {name: part for name, part in parts.items() if isinstance(part, Stateful)}

"""A seat in the loop: the component that was given, and the built-in that takes over if it fails.

A component fails when it raises or returns what ``checks.py`` does not let pass. It is then
named with the distribution it comes from, and not asked again in this run, nor after a resume.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Generic, TypeVar

from pydantic import JsonValue

from evoprompt.engine.checks import sound_living
from evoprompt.errors import ComponentError, InputError
from evoprompt.plugins import origin_of
from evoprompt.plugins.component import Role, members
from evoprompt.populations import SteadyPopulation
from evoprompt.roles import Population, Stateful
from evoprompt.types import Candidate

Held = TypeVar("Held")
Found = TypeVar("Found")
Announce = Callable[[str], None]


class PassedOnError(Exception):
    """Wraps an error of somebody else that a component could only pass on."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Seat(Generic[Held]):
    """Holds one component.

    Args:
        name: of the seat, as the engine's argument is called.
        given: whom the user seated; None for the built-in.
        built_in: makes the built-in.
        announce: tells a person of a failure; None stops training instead.

    Attributes:
        component: who is asked now.
        fallen: whether the built-in has taken over from whom was given.
        prepare: what a built-in is shown before it takes over.
    """

    def __init__(
        self,
        name: str,
        given: Held | None,
        built_in: Callable[[], Held],
        announce: Announce | None = None,
    ) -> None:
        self.name = name
        self.fallen = False
        self.prepare: Callable[[Held], None] = lambda component: None
        self._given = given
        self._built_in = built_in
        self._announce = announce
        self.component: Held = built_in() if given is None else given

    @property
    def guarded(self) -> bool:
        """Whether the component is one that was given, and may yet fail."""
        return self._given is not None and not self.fallen

    def use(self, call: Callable[[Held], Found]) -> Found:
        """What ``call`` makes of the component, or of the built-in once the component failed.

        Raises:
            ComponentError: the component failed, and training is to stop.
            PassedOnError: as it came.
        """
        if not self.guarded:
            return call(self.component)
        try:
            return call(self.component)
        except PassedOnError:
            raise
        except Exception as error:
            fault = f"the {self.name} {describe(self.component)} failed: {name_error(error)}"
            if self._announce is None:
                raise ComponentError(
                    f"{fault}; on_component_failure is 'stop'; fix the component, or set "
                    "'fallback' to go on with the built-in one"
                ) from error
        self.set_fallen(True)
        self._announce(
            f"{fault}; the built-in {type(self.component).__name__} takes over for the rest of the "
            "run"
        )
        return call(self.component)

    def set_fallen(self, fallen: bool) -> None:
        """Seats a new built-in, or whom the user gave."""
        if fallen:
            successor = self._built_in()
            self.prepare(successor)
            self.component = successor
        elif self._given is not None:
            self.component = self._given
        self.fallen = fallen

    def state(self) -> dict[str, JsonValue] | None:
        """The component's state; None if it has none."""
        return self.use(_state_of)


class GuardedPopulation:
    """A population of a plugin, and beside it the built-in one, which is told the same.

    Args:
        given: the plugin's.
        announce: tells a person of a failure; None stops training instead.
    """

    def __init__(self, given: Population, announce: Announce | None) -> None:
        self._beside = SteadyPopulation()
        self.seat = Seat[Population]("population", given, lambda: self._beside, announce)

    @property
    def alive(self) -> Sequence[Candidate]:
        """The candidates in use, oldest first, as the plugin says; it may have dropped some."""
        found = self.seat.use(lambda held: sound_living(held.alive, self._beside))
        ids = {candidate.id for candidate in found}
        if gone := [one.id for one in self._beside.alive if one.id not in ids]:
            self._beside.remove(gone)
        return found

    def __contains__(self, candidate_id: object, /) -> bool:
        return any(candidate.id == candidate_id for candidate in self.alive)

    def add(self, candidate: Candidate) -> None:
        """Lets ``candidate`` live."""
        self._beside.add(candidate)
        self.seat.use(lambda held: None if held is self._beside else held.add(candidate))

    def remove(self, ids: Collection[str]) -> None:
        """Ends the life of the named candidates."""
        self._beside.remove(ids)
        self.seat.use(lambda held: None if held is self._beside else held.remove(ids))

    def ancestors(self, candidate_id: str) -> Sequence[Candidate]:
        """All forebears of a candidate, nearest first."""
        return self.seat.use(lambda held: held.ancestors(candidate_id))

    def state_dict(self) -> dict[str, JsonValue]:
        """Both populations, and which of them is in use."""
        given = self.seat.state()  # asked first: it may fail
        return {"beside": self._beside.state_dict(), "given": given, "fallen": self.seat.fallen}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        """Continues from ``state``."""
        beside, given = state["beside"], state["given"]
        if not isinstance(beside, dict):
            raise TypeError(f"the population is {beside!r}; required: a mapping")
        self.seat.set_fallen(bool(state["fallen"]))
        self._beside.load_state_dict(beside)
        if not self.seat.fallen and isinstance(self.seat.component, Stateful):
            self.seat.component.load_state_dict(given if isinstance(given, dict) else {})


def require_role(name: str, role: Role, given: object) -> None:
    """Nothing, unless ``given`` cannot fill the role.

    Raises:
        InputError: it is a class, a name, or an object that lacks a method of the protocol.
    """
    if given is None:
        return
    if not isinstance(given, str | type):
        lacking = [one for one in members(role) if not hasattr(type(given), one)]
        if not lacking:
            return
        what = f"a {type(given).__name__} without {', '.join(lacking)}"
    else:
        what = f"the class {given.__name__}" if isinstance(given, type) else repr(given)
    raise InputError(
        f"{name} is {what}; required: an object with the methods of a {role}; make one, or "
        f'call evoprompt.plugins.build("{role}", {{"name": ...}})'
    )


def require_type(name: str, given: object, *wanted: type) -> None:
    """Nothing, unless ``given`` is neither None nor one of ``wanted``.

    Raises:
        InputError: it is.
    """
    if given is not None and not isinstance(given, wanted):
        names = " or ".join(kind.__name__ for kind in wanted)
        raise InputError(
            f"{name} is {reprlib.repr(given)}, a {type(given).__name__}; required: {names}; "
            f"write {name}={wanted[0].__name__}(...)"
        )


def describe(component: object) -> str:
    """The class of ``component`` and the distribution that it comes from."""
    return f"{type(component).__name__} of {origin_of(component)}"


def name_error(error: Exception) -> str:
    """The class and the message of ``error``, in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _state_of(component: object) -> dict[str, JsonValue] | None:
    if not isinstance(component, Stateful):
        return None
    state = component.state_dict()
    json.dumps(state, allow_nan=False)  # else the checkpoint could not be written
    return state

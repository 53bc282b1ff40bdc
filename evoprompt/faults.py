"""Names the component that failed, and the distribution that it comes from."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from evoprompt.errors import ComponentError, InputError
from evoprompt.plugins import origin_of
from evoprompt.roles import Component


@contextmanager
def naming(role: str, component: object, passed_on: Sequence[Exception] = ()) -> Iterator[None]:
    """Ends training with an error that names ``component`` if the body raises.

    Args:
        role: of the component, as the engine's argument is called.
        component: who is asked in the body.
        passed_on: errors of somebody else, which go through as they are.

    Raises:
        ComponentError: the component failed.
    """
    try:
        yield
    except Exception as error:
        if error in passed_on or isinstance(error, ComponentError):
            raise
        raise ComponentError(
            f"the {role} {describe(component)} failed ({name_error(error)}); training ends; fix "
            "it, and resume from the last checkpoint"
        ) from error


def describe(component: object) -> str:
    """The class of ``component`` and the distribution that it comes from."""
    return f"{type(component).__name__} of {origin_of(component)}"


def name_error(error: Exception) -> str:
    """The class and the message of ``error``, in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def require_type(name: str, given: object, *wanted: type) -> None:
    """Returns if ``given`` is None or one of ``wanted``.

    Raises:
        InputError: it is something else, such as the name or the class of a component.
    """
    if given is not None and not isinstance(given, wanted):
        names = " or ".join(kind.__name__ for kind in wanted)
        kind = wanted[0].__name__
        remedy = f"write {name}={kind}(...)"
        if issubclass(wanted[0], Component):
            built = f'evoprompt.plugins.build("{kind.lower()}", {{"name": ...}})'
            named = isinstance(given, str | type)
            remedy = f"make one, or call {built}" if named else f"inherit evoprompt.{kind}"
        what = f"{reprlib.repr(given)}, a {type(given).__name__}"
        raise InputError(f"{name} is {what}; required: {names}; {remedy}")

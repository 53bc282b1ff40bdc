"""Calls of components: errors and waits name the function or class and its distribution."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import metadata

from evoprompt.support.errors import ComponentError
from evoprompt.support.waiting import Report, monitor

PLUGIN_GROUP = "evoprompt"
"""Group of the entry points that name plugins."""


@contextmanager
def calling(
    role: str,
    component: object,
    report: Report | None = None,
    meanwhile: str = "everything waits for it",
) -> Iterator[None]:
    """Name ``component`` if the body, which calls it, does not return, exits or cancels itself.

    Args:
        role: role of the component, such as ``"reward function"``.
        component: the component or function that the body calls.
        report: takes the line that names a component that does not return; a warning by default.
        meanwhile: what happens until it returns, for that line.

    Raises:
        ComponentError: the component raised ``SystemExit``, or a ``CancelledError`` although the
            task of the caller was not cancelled.
    """

    def describe_wait() -> str:
        return (
            f"the {role} {describe(component)} has not returned after {monitor.patience:g} s; "
            f"{meanwhile}; required: a result or an exception; look at what it waits for, and let "
            "it give up after a time of its own"
        )

    with monitor.watching(describe_wait, report):
        try:
            yield
        except (SystemExit, asyncio.CancelledError) as error:
            is_exit = isinstance(error, SystemExit)
            if not is_exit and _is_cancelled():
                raise
            fault = "would end the process" if is_exit else "cancelled itself"
            raise ComponentError(
                f"the {role} {describe(component)} {fault} ({cause_of(error)}); "
                "required: a result or another exception; let it raise RuntimeError instead"
            ) from error


def _is_cancelled() -> bool:
    """Return whether the task that runs in this thread was cancelled."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # no event loop runs in this thread
        return False
    return task is not None and task.cancelling() > 0


@contextmanager
def naming(
    role: str,
    component: object,
    report: Report | None = None,
    passed_on: Sequence[Exception] = (),
) -> Iterator[None]:
    """Raise an error that names ``component`` if the body raises; otherwise as ``calling``.

    Args:
        role: role of the component, by the name of the engine's argument.
        component: the component that the body calls.
        report: takes the line that names a component that does not return; a warning by default.
        passed_on: errors with another cause, which pass unchanged.

    Raises:
        ComponentError: the component failed.
    """
    try:
        with calling(role, component, report):
            yield
    except Exception as error:
        if error in passed_on or isinstance(error, ComponentError):
            raise
        raise ComponentError(
            f"the {role} {describe(component)} failed ({cause_of(error)}); training ends; fix "
            "it, and resume from the last checkpoint"
        ) from error


def describe(component: object) -> str:
    """Return the name of a function, or of the class of another object, and its distribution."""
    definition = _definition_of(component)
    return f"{getattr(definition, '__name__', definition)} of {origin_of(component)}"


def _definition_of(component: object) -> object:
    """Return the function, also of a partial or wrapped one, or the class of another object."""
    component = inspect.unwrap(component) if callable(component) else component
    while isinstance(component, functools.partial):
        component = component.func
    is_definition = inspect.isroutine(component) or isinstance(component, type)
    return component if is_definition else type(component)


def cause_of(error: BaseException) -> str:
    """Return the class and the message of ``error`` in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def origin_of(component: object) -> str:
    """Return distribution and version of a function, or of the class of another object.

    If they are unknown, return the module.
    """
    module = str(getattr(_definition_of(component), "__module__", None))
    package = module.partition(".")[0]
    for entry_point in metadata.entry_points(group=PLUGIN_GROUP):
        if entry_point.dist and entry_point.module.partition(".")[0] == package:
            return f"{entry_point.dist.name} {entry_point.dist.version}"
    return f"module {module}"

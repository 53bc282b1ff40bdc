"""What the conformance suites share: how they run, with pytest and without."""

from __future__ import annotations

import json
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from pydantic import JsonValue

from evoprompt.roles import Component
from evoprompt.text import format_error_with_place

Checked = TypeVar("Checked", covariant=True)


class Suite(Generic[Checked]):
    """Base of all conformance suites.

    With pytest, subclass the suite of your role under a name that starts with ``Test`` and say how
    to build what is to be checked; every ``test_`` method then runs as a test.
    """

    def build(self) -> Checked:
        """A new object to check; called several times per test."""
        # Not an abstract method: suites are handed around as classes, which type checkers refuse
        # for abstract ones.
        raise NotImplementedError("say how to build the object to check")


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one check.

    Attributes:
        name: what was checked, in words.
        passed: whether it holds.
        detail: what was found instead; empty when it holds.
    """

    name: str
    passed: bool
    detail: str = ""


def run(suite: Suite[object]) -> list[Result]:
    """The result of every check of ``suite``, in the order they are written; needs no pytest."""
    return list(results(suite))


def results(suite: Suite[object], limit: float | None = None) -> Iterator[Result]:
    """The results one by one, each as soon as it is known.

    Args:
        suite: whose checks to run.
        limit: seconds a check may take; None for any time. A check that takes longer fails and is
            the last one: what it left running would disturb the others.
    """
    found = {
        name: None
        for kind in reversed(type(suite).__mro__)
        for name in vars(kind)
        if name.startswith("test_")
    }
    names = list(found)
    for number, name in enumerate(names, start=1):
        result = _run_one(suite, name) if limit is None else _run_in_time(suite, name, limit)
        if result is not None:
            yield result
            continue
        left = len(names) - number
        yield Result(
            _words(name), False, f"still running after {limit:g} s; {left} checks were not run"
        )
        return


def _words(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")


def _run_in_time(suite: Suite[object], name: str, limit: float) -> Result | None:
    """The result; None if there is none in time, and then a thread is left behind."""
    found: list[Result] = []
    thread = threading.Thread(target=lambda: found.append(_run_one(suite, name)), daemon=True)
    thread.start()
    thread.join(limit)
    return found[0] if found else None


def _run_one(suite: Suite[object], name: str) -> Result:
    words = _words(name)
    try:
        getattr(suite, name)()
    except AssertionError as error:
        return Result(words, False, str(error))
    except (Exception, SystemExit) as error:
        return Result(words, False, f"it raised {format_error_with_place(error)}")
    return Result(words, True)


def expect(condition: bool, otherwise: str) -> None:
    """Nothing if ``condition`` holds; unlike an assert, it also says why when pytest does not.

    Raises:
        AssertionError: with the text ``otherwise``.
    """
    if not condition:
        raise AssertionError(otherwise)


@contextmanager
def no_global_randomness() -> Iterator[None]:
    """Fails when the body draws from a global generator of ``random``, NumPy or torch."""
    before = _global_states()
    yield
    expect(
        _global_states()[: len(before)] == before,
        "it drew from a global random generator; use only the generator handed in",
    )


def _global_states() -> list[object]:
    name, keys, *rest = np.random.get_state(legacy=True)
    states: list[object] = [random.getstate(), (name, np.asarray(keys).tobytes(), *rest)]
    torch = sys.modules.get("torch")  # asked only if it is there already: loading it is slow
    if torch is not None:
        states.append(torch.get_rng_state().tolist())
    return states


def same_state(used: Component, fresh: Component) -> None:
    """Gives ``fresh`` the state of ``used``."""
    fresh.load_state_dict(through_json(used))


def through_json(stateful: Component) -> dict[str, JsonValue]:
    """The state of an object, as it comes back from a checkpoint file."""
    written = json.dumps(stateful.state_dict(), allow_nan=False)
    restored: dict[str, JsonValue] = json.loads(written)
    return restored

"""What the conformance suites share: how they run, with pytest and without."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from pydantic import JsonValue

from evoprompt.interfaces import Stateful

Checked = TypeVar("Checked", covariant=True)


class Suite(Generic[Checked]):
    """Base of all conformance suites.

    With pytest, subclass the suite of your role under a name that starts with ``Test`` and say how
    to build what is to be checked; every ``test_`` method then runs as a test.
    """

    def build(self) -> Checked:
        """A new object to check; called several times a test."""
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
    found = {
        name: None
        for kind in reversed(type(suite).__mro__)
        for name in vars(kind)
        if name.startswith("test_")
    }
    return [_run_one(suite, name) for name in found]


def _run_one(suite: Suite[object], name: str) -> Result:
    words = name.removeprefix("test_").replace("_", " ")
    try:
        getattr(suite, name)()
    except AssertionError as error:
        return Result(words, False, str(error))
    except Exception as error:
        return Result(words, False, f"{type(error).__name__}: {error}")
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
    """Fails when the body draws from the global generators of ``random`` or NumPy."""
    before = _global_states()
    yield
    expect(
        _global_states() == before,
        "it drew from a global random generator; use only the generator handed in",
    )


def _global_states() -> list[object]:
    numpy = sys.modules.get("numpy")
    states: list[object] = [random.getstate()]
    if numpy is not None:
        name, keys, *rest = numpy.random.get_state()
        states.append((name, keys.tobytes(), *rest))
    return states


def through_json(stateful: Stateful) -> dict[str, JsonValue]:
    """The state of an object, as it comes back from a checkpoint file."""
    written = json.dumps(stateful.state_dict(), allow_nan=False)
    restored: dict[str, JsonValue] = json.loads(written)
    return restored

"""Base of the conformance suites, and their runner with pytest and without."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from evoprompt.components import Component
from evoprompt.support.text import format_error_with_place

Checked = TypeVar("Checked", covariant=True)
Drawing = TypeVar("Drawing", bound=Component)


class Suite(Generic[Checked]):
    """Base class of all conformance suites.

    With pytest, subclass the suite of your role under a name that starts with ``Test`` and
    implement ``build``; every ``test_`` method then runs as a test.
    """

    def build(self) -> Checked:
        """Return a new object to check; called several times per test."""
        # Not abstract: suites are passed as classes, which type checkers refuse for abstract ones.
        raise NotImplementedError("say how to build the object to check")


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one check.

    Attributes:
        name: name of the check, in words.
        passed: whether the check passed.
        detail: finding of a failed check; empty if it passed.
    """

    name: str
    passed: bool
    detail: str = ""


def run(suite: Suite[object]) -> list[Result]:
    """Return the result of every check of ``suite``, in the order of its code, without pytest."""
    return list(results(suite))


def results(suite: Suite[object]) -> Iterator[Result]:
    """Yield the results one by one, as soon as each is known."""
    names = {
        name: None
        for kind in reversed(type(suite).__mro__)
        for name in vars(kind)
        if name.startswith("test_")
    }
    return (_run_one(suite, name) for name in names)


def _run_one(suite: Suite[object], name: str) -> Result:
    words = name.removeprefix("test_").replace("_", " ")
    try:
        getattr(suite, name)()
    except AssertionError as error:
        return Result(words, False, str(error))
    except (Exception, SystemExit) as error:
        return Result(words, False, f"it raised {format_error_with_place(error)}")
    return Result(words, True)


def expect(condition: bool, otherwise: str) -> None:
    """Require ``condition``; unlike an assert, it gives a reason without pytest, too.

    Raises:
        AssertionError: the condition does not hold; the text is ``otherwise``.
    """
    if not condition:
        raise AssertionError(otherwise)


@contextmanager
def no_global_randomness() -> Iterator[None]:
    """Fail if the body draws from a global generator of ``random``, NumPy or torch."""
    before = _global_states()
    yield
    expect(
        _global_states()[: len(before)] == before,
        "it drew from a global random generator; use only the generator handed in",
    )


def _global_states() -> list[object]:
    name, keys, *remaining = np.random.get_state(legacy=True)
    states: list[object] = [random.getstate(), (name, np.asarray(keys).tobytes(), *remaining)]
    torch = sys.modules.get("torch")  # used only if it is loaded already: loading it is slow
    if torch is not None:
        states.append(torch.get_rng_state().tolist())
    return states


def continue_from(used: Component, fresh: Component) -> None:
    """Load the state of ``used`` into ``fresh``, as it comes back from a checkpoint file."""
    fresh.load_state_dict(json.loads(json.dumps(used.state_dict(), allow_nan=False)))


class DrawingSuite(Suite[Drawing]):
    """Contract of every component that draws at random; the suite of a role defines ``answer``.

    Attributes:
        repeatable: whether the same seed must give the same answer, drawn only from the generator
            of the call; set it to False for a component that uses an LLM.
    """

    repeatable: bool = True

    def answer(self, component: Drawing, seed: int) -> object:
        """Return the answer of ``component`` with a generator of this seed."""
        # Not abstract, as `build` is not; the suite of each role that draws overrides it.
        raise NotImplementedError("say what it answers, in values that can be compared")

    def test_repeats_itself_from_the_seed(self) -> None:
        first, other = (self.answer(self.build(), seed=7) for _ in range(2))
        expect(
            first == other or not self.repeatable,
            "from the same seed it gave a different answer; take all randomness from rng",
        )

    def test_draws_only_from_the_generator_handed_in(self) -> None:
        component = self.build()
        if self.repeatable:
            with no_global_randomness():
                self.answer(component, seed=7)

    def test_answers_alike_however_often_it_was_used_before(self) -> None:
        used, fresh = self.build(), self.build()
        for seed in range(3):
            self.answer(used, seed)
        continue_from(used, fresh)
        expect(
            self.answer(used, seed=7) == self.answer(fresh, seed=7) or not self.repeatable,
            "after earlier use it gave a different answer from a new one in its state; take all "
            "randomness from rng, and keep in state_dict what it must remember",
        )

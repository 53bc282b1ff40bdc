"""What the conformance suites share: how they run, with pytest and without."""

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
    """Base of all conformance suites.

    With pytest, subclass the suite of your role under a name that starts with ``Test`` and say how
    to build what is to be checked; every ``test_`` method then runs as a test.
    """

    def build(self) -> Checked:
        """A new object to check; called several times per test."""
        # Not abstract: suites are handed around as classes, which type checkers refuse for those.
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


def results(suite: Suite[object]) -> Iterator[Result]:
    """The results one by one, each as soon as it is known."""
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
    """Makes sure that ``condition`` holds; unlike an assert, it says why without pytest, too.

    Raises:
        AssertionError: it does not; the text is ``otherwise``.
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


def continue_from(used: Component, fresh: Component) -> None:
    """Gives ``fresh`` the state of ``used``, as it comes back from a checkpoint file."""
    fresh.load_state_dict(json.loads(json.dumps(used.state_dict(), allow_nan=False)))


class DrawingSuite(Suite[Drawing]):
    """What whoever draws at random must keep; the suite of a role says what it answers to a seed.

    Attributes:
        repeatable: whether the same question must bring the same answer, drawn from the generator
            handed in alone; set it to False for a component that asks an LLM.
    """

    repeatable: bool = True

    def answer(self, component: Drawing, seed: int) -> object:
        """What ``component`` answers where it draws from a generator of this seed."""
        # Not abstract, as `build` is not; the suite of each role that draws overrides it.
        raise NotImplementedError("say what it answers, in values that can be compared")

    def test_repeats_itself_from_the_seed(self) -> None:
        one, other = (self.answer(self.build(), seed=7) for _ in range(2))
        expect(
            one == other or not self.repeatable,
            "asked again from the same seed it answered differently; take all randomness from rng",
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
            "one that was used before answered differently from a new one in its state; take all "
            "randomness from rng, and keep in state_dict what it must remember",
        )

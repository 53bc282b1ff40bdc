"""DEAP inside the fence draws from the generator it is handed, and touches no other."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

import deap.tools
import numpy as np
import pytest

from evoprompt.selectors import FencedDeap
from evoprompt.testing.suite import no_global_randomness


@pytest.fixture
def fenced() -> FencedDeap:
    return FencedDeap("deap.tools.mutation", "deap.tools.emo")


def shuffled(deap: FencedDeap, rng: random.Random) -> list[int]:
    numbers = list(range(40))
    with deap.drawing_from(rng):
        deap.functions("mut")["mutShuffleIndexes"](numbers, 0.5)
    return numbers


def test_lists_functions_by_prefix(fenced: FencedDeap) -> None:
    assert "mutShuffleIndexes" in fenced.functions("mut")
    assert set(fenced.functions("sel")) == {"selNSGA2", "selNSGA3", "selSPEA2", "selTournamentDCD"}


def test_draws_from_the_generator_it_is_handed(fenced: FencedDeap) -> None:
    rng = random.Random(3)
    before = rng.getstate()
    with no_global_randomness():
        found = shuffled(fenced, rng)
    assert rng.getstate() != before
    assert found == shuffled(fenced, random.Random(3)) != shuffled(fenced, random.Random(4))


def test_draws_numpy_s_numbers_from_it_too(fenced: FencedDeap) -> None:
    niching: Callable[..., list[int]] = fenced.functions("niching")["niching"]

    def chosen(seed: int) -> list[int]:
        niches = np.array([0, 1, 2, 3] * 5)
        with fenced.drawing_from(random.Random(seed)):
            return niching(list(range(20)), 6, niches, np.zeros(20), np.ones(4, dtype=int))

    with no_global_randomness():
        assert chosen(3) == chosen(3) != chosen(4)


def test_leaves_everybody_else_s_deap_alone(fenced: FencedDeap) -> None:
    shuffled(fenced, random.Random(0))
    modules: list[Any] = [deap.tools.mutation, deap.tools.emo]
    assert all(module.random is random for module in modules)
    assert modules[1].numpy is np


def test_threads_do_not_draw_from_each_other_s_generators(fenced: FencedDeap) -> None:
    found: dict[int, list[list[int]]] = {}

    def work(seed: int) -> None:
        rng = random.Random(seed)
        found[seed] = [shuffled(fenced, rng) for _ in range(50)]

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for seed in range(4):
        rng = random.Random(seed)
        assert found[seed] == [shuffled(fenced, rng) for _ in range(50)]


def test_lets_others_in_after_an_error(fenced: FencedDeap) -> None:
    with pytest.raises(ZeroDivisionError), fenced.drawing_from(random.Random(0)):
        raise ZeroDivisionError
    shuffled(fenced, random.Random(0))

"""DEAP inside the fence draws from the generator it is handed, and touches no other."""

from __future__ import annotations

import random
from typing import Any

import deap.tools
import numpy as np

from evoprompt.selectors import FencedDeap
from evoprompt.testing.suite import no_global_randomness


def test_all_is_drawn_from_the_generator_it_is_handed() -> None:
    fenced = FencedDeap("deap.tools.mutation", "deap.tools.emo")

    def drawn(seed: int) -> tuple[list[int], list[int]]:
        rng = random.Random(seed)
        fenced.draw_from(rng)
        numbers = list(range(40))
        fenced.functions("mut")["mutShuffleIndexes"](numbers, 0.5)
        niches = np.array([0, 1, 2, 3] * 5)
        args = (list(range(20)), 6, niches, np.zeros(20), np.ones(4, dtype=int))
        return numbers, fenced.functions("niching")["niching"](*args)

    with no_global_randomness():
        first, again, other = drawn(3), drawn(3), drawn(4)
    assert first == again
    assert first[0] != other[0]
    assert first[1] != other[1]
    modules: list[Any] = [deap.tools.mutation, deap.tools.emo]
    assert all(module.random is random for module in modules), "everybody else's are left alone"
    assert modules[1].numpy is np

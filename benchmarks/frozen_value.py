"""How far the value that ``evoprompt.optimize`` reports is from what the instruction is worth.

    python -m benchmarks.frozen_value

40 training and 40 validation questions, a budget of 600 rollouts. *luck* is worth .4 whatever the
texts say: the answer of a text to a question is drawn once, and repeats itself. *luck anew* is the
same, but drawn each time. The others are those of ``benchmarks.frozen`` and ``frozen_pipeline``.
"""

from __future__ import annotations

import argparse
import math
import warnings
import zlib
from collections.abc import Callable
from statistics import fmean, stdev

from benchmarks.frozen import Teacher
from benchmarks.frozen_pipeline import Pipeline
from benchmarks.frozen_worlds import FAMILIES, Asked, Problem, Record, Texts
from evoprompt import optimize
from evoprompt.evaluation import Score

_BUDGET = 600
_WORTH = 0.4


class Luck(Pipeline):
    """Every text is worth the same; which questions it answers is luck."""

    def answer(self, texts: Texts, asked: Asked) -> tuple[float, str]:
        """Right in four of ten cases."""
        said = f"{sorted(texts.items())}/{asked.id}"
        return float(zlib.crc32(said.encode()) % 1000 < 1000 * _WORTH), "wrong"

    def truth(self, texts: Texts) -> float:
        """The same for all."""
        return _WORTH


class LuckAnew(Luck):
    """The same, drawn each time."""

    def rollout(self, texts: Texts, asked: Asked) -> Record:
        """Right in four of ten cases."""
        self.rollouts += 1
        return Record(float(self._noise.random() < _WORTH), "wrong")


def _drawn(seed: int) -> Problem:
    (family,) = (one for one in FAMILIES if one.name == "drawn")
    return Problem(family, seed, train=40)


WORLDS: dict[str, Callable[[int], Problem]] = {
    "luck": Luck,
    "luck anew": LuckAnew,
    "pipeline": Pipeline,
    "drawn": _drawn,
}


def gaps(problem: Problem, seed: int) -> tuple[float, float]:
    """How much higher than the truth the mean as measured is, and the value."""

    def metric(example: Asked, record: Record) -> Score:
        return Score(record.reward, record.feedback)

    result = optimize(
        problem.seed_texts,
        problem.train,
        metric,
        program=problem.rollout,
        valset=problem.validation,
        proposer=Teacher(problem),
        budget=_BUDGET,
        seed=seed,
        max_concurrency=1,
        progress=False,
    )
    truth = problem.truth(result.best.components)
    return result.validation - truth, result.value - truth


def main() -> None:
    """Prints a row for each world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=20, help="first seed")
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| world | as measured minus true | `result.value` minus true |")
    print("|---|---|---|")
    for name, world in WORLDS.items():
        seeds = range(options.first, options.first + options.seeds)
        found = zip(*(gaps(world(seed), seed) for seed in seeds), strict=True)
        told = [f"{fmean(one):+.3f} ± {stdev(one) / math.sqrt(len(one)):.3f}" for one in found]
        print(f"| {name} | {' | '.join(told)} |", flush=True)


if __name__ == "__main__":
    main()

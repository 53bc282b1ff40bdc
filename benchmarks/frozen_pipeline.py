"""``evoprompt.optimize`` and ``gepa.optimize`` where a writer repeats itself.

    python -m benchmarks.frozen_pipeline             # 20 seeds, budgets 800 and 2,000
    python -m benchmarks.frozen_pipeline --first 1000 --seeds 8     # to try something out

A pipeline of two texts: both of its stages have to do their part, or the answer is wrong. The
writer knows thirteen sentences and is shown nothing: it adds one of them to a text, takes one out,
or puts one in the place of another, so that it soon proposes what it has proposed before. Which
sentence helps which stage with which kind of question, and which does harm, is drawn anew with each
seed. Rewards are 0 or 1 and repeat themselves. 40 training and 40 validation questions; what a
text is really worth is computed on 1,000 others.
"""

from __future__ import annotations

import argparse
import math
import random
import warnings
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean, stdev

from benchmarks.frozen import Optimizer, ours, theirs
from benchmarks.frozen_worlds import Asked, Family, Problem, Record, Texts, habit
from evoprompt.text import sentences

SENTENCES = tuple(habit(index) for index in range(13))
STAGES = ("find", "answer")
_KINDS = 4
_ADDS, _DROPS = 0.7, 0.85  # of a draw below the first one it adds, below the second it takes out


@lru_cache
def _said(text: str) -> frozenset[str]:
    return frozenset(sentences(text))


class Pipeline(Problem):
    """A pipeline of two texts, and a writer that draws from thirteen sentences.

    Args:
        seed: of its questions, of what the sentences do, and of the writer.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(Family("pipeline", components=2), seed, train=0, validation=0)
        self.names = list(STAGES)
        rng = random.Random(f"pipeline/{seed}")
        self._effects: dict[tuple[str, str, int], float] = {}
        for stage in STAGES:
            drawn = rng.sample(SENTENCES, len(SENTENCES))
            for effect, group in ((1.0, drawn[:4]), (-1.0, drawn[4:7])):
                for sentence in group:
                    for kind in rng.sample(range(_KINDS), 2):
                        self._effects[stage, sentence, kind] = effect
        self._hard: dict[tuple[int, str], float] = {}
        self.train = [self._question(rng, index) for index in range(40)]
        self.validation = [self._question(rng, 40 + index) for index in range(40)]
        self.held_out = [self._question(rng, -1 - index) for index in range(1000)]

    def _question(self, rng: random.Random, identity: int) -> Asked:
        for stage in STAGES:
            self._hard[identity, stage] = rng.gauss(0, 1)
        return Asked(identity, (rng.randrange(_KINDS),), 0.0)

    def answer(self, texts: Texts, asked: Asked) -> tuple[float, str]:
        """Whether both stages do their part; the writer is told nothing."""
        for stage in STAGES:
            skill = sum(
                self._effects.get((stage, one, asked.needs[0]), 0.0) for one in _said(texts[stage])
            )
            if skill < self._hard[asked.id, stage]:
                return 0.0, f"wrong, for the stage {stage} failed"
        return 1.0, ""

    def rewrite(
        self, texts: Texts, component: str, records: Sequence[Record], rng: random.Random
    ) -> str:
        """The text of ``component`` with a sentence more, less, or in the place of another."""
        text = texts[component]
        there = [one for one in SENTENCES if one in text]
        absent = [one for one in SENTENCES if one not in text]
        draw = rng.random()
        if (not there or draw < _ADDS) and absent:
            return f"{text} {rng.choice(absent)}"
        old = rng.choice(there)
        if draw < _DROPS or not absent:
            return text.replace(f" {old}", "")
        return text.replace(old, rng.choice(absent))


OPTIMIZERS: dict[str, Optimizer] = {"evoprompt": ours, "gepa": theirs}


def main() -> None:
    """Reads the command line, and prints a row for each optimizer and budget."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=20, help="first seed")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--budgets", type=int, nargs="*", default=[800, 2000])
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    seeds = range(options.first, options.first + options.seeds)
    print("| budget | optimizer | true value at the end | rollouts spent | calls of the writer |")
    print("|---|---|---|---|---|")
    for budget in options.budgets:
        ends: dict[str, list[float]] = {}
        for name, optimizer in OPTIMIZERS.items():
            spent, calls, ends[name] = [], [], []
            for seed in seeds:
                problem = Pipeline(seed)
                curve, asked = optimizer(problem, budget, seed)
                ends[name].append(curve[-1][1])
                spent.append(problem.rollouts)
                calls.append(asked)
            error = stdev(ends[name]) / math.sqrt(len(ends[name]))
            print(
                f"| {budget:,} | {name} | {fmean(ends[name]):.3f} ± {error:.3f} | "
                f"{fmean(spent):.0f} | {fmean(calls):.0f} |",
                flush=True,
            )
        gains = [a - b for a, b in zip(ends["evoprompt"], ends["gepa"], strict=True)]
        error = stdev(gains) / math.sqrt(len(gains))
        print(f"| {budget:,} | difference | {fmean(gains):+.3f} ± {error:.3f} | | |", flush=True)
    firsts = [Pipeline(seed) for seed in seeds]
    print(f"first texts: {fmean(one.truth(one.seed_texts) for one in firsts):.3f}")


if __name__ == "__main__":
    main()

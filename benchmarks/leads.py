"""Simulate how often training shows which candidate is better than its parent, and errs.

    python -m benchmarks.leads FOLDER --replications 200
    python -m benchmarks.leads FOLDER --looks 10000   # pairs of equals, looked at after each step

Through the real engine at its default settings, with 16 questions and five rollouts each: the first
child of a generation is better than its parent by a *lead*, in points of expected reward, and the
others are worth what the parent is. The replication ends when all of them are decided. With
``--looks`` equals are compared without an end: nobody is dropped, and it is noted how high the odds
ever were that the one is better.
"""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from benchmarks.simulation import (
    MEAN,
    SPREAD,
    Journal,
    Nature,
    effect_of,
    interval,
    table,
)
from evoprompt.support.leads import Lead

QUESTIONS = 16
ERRORS = (0.2, 0.05, 0.01)
"""Chances of an error; the first is that of the usual odds of 5 : 1."""
EQUALS = -1
_MOST_STEPS = 400


@dataclass(frozen=True, slots=True)
class Result:
    """One replication.

    Attributes:
        lead: of the first child, in points.
        children: of the generation; -1 where equals are looked at.
        seed: of the replication.
        found: whether the first child was admitted.
        others: other children that were admitted.
        rollouts: of the first child.
        steps: until all were decided, or looks.
        odds: the highest of the equals.
    """

    lead: float
    children: int
    seed: int
    found: bool = False
    others: int = 0
    rollouts: int = 0
    steps: int = 0
    odds: float = 0.0


def replicate(lead: float, children: int, seed: int) -> Result:
    """Play one generation."""
    better = effect_of(lead)
    nature = Nature(seed, lambda _, number: better * (number == 1), QUESTIONS, _MOST_STEPS)
    engine = nature.engine(seed, {"evolve_until": None, "proposals_per_round": children})
    rollouts = engine.divide_rollouts(5, "rollouts")
    steps = 0
    while steps < _MOST_STEPS:
        engine.tell(nature(engine.ask(nature.batch(), rollouts)))
        if not engine.generation_stats.generations:
            engine.evolve(nature)
        elif not engine.generations.trials.trials:
            break
        nature.step += 1
        steps += 1
    decisions = [event for event in engine.log if event["event"] == "verified"]
    first = next((event for event in decisions if event["candidate"] == "c1"), None)
    admitted = {event["candidate"] for event in decisions if event["admitted"]}
    return Result(
        lead,
        children,
        seed,
        "c1" in admitted,
        len(admitted - {"c1"}),
        first["scored"] if first else 0,
        steps,
    )


def look(looks: int, seed: int) -> Result:
    """Compare equal candidates after each step of 16 pairs; return the highest odds."""
    rng = np.random.default_rng(seed)
    chances = 1 / (1 + np.exp(-(MEAN + SPREAD * rng.standard_normal((looks, QUESTIONS)))))
    rewards, other_rewards = (rng.random(chances.shape) < chances for _ in range(2))
    gains = rewards.astype(float) - other_rewards
    totals, squares = gains.sum(axis=1).cumsum(), (gains**2).sum(axis=1).cumsum()
    odds = 0.0
    for step, (total, square) in enumerate(zip(totals, squares, strict=True), 1):
        if square:
            pairs = QUESTIONS * step
            odds = max(odds, Lead(total / pairs, math.sqrt(square) / pairs).odds())
    return Result(0.0, EQUALS, seed, steps=looks, odds=odds)


def share(hits: Sequence[bool]) -> str:
    """With its 95 % interval."""
    return "{:.3f} ({:.3f} ± {:.3f})".format(sum(hits) / len(hits), *interval(hits))


def main() -> None:
    """Run the missing replications, then print the tables."""
    journal = Journal(__doc__ or "", Result, ("lead", "children", "seed"), 200)
    journal.parser.add_argument("--leads", type=float, nargs="*", default=[8, 5, 3, 0, -1.4, -8])
    journal.parser.add_argument("--children", type=int, nargs="*", default=[1, 6])
    journal.parser.add_argument("--looks", type=int, help="at equals, without an end")

    def plan(
        arguments: Namespace, seed: int
    ) -> Iterator[tuple[tuple[Any, ...], Callable[[], Result]]]:
        if arguments.looks:
            yield (0.0, EQUALS, seed), partial(look, arguments.looks, seed)
            return
        for lead in arguments.leads:
            for children in arguments.children:
                yield (lead, children, seed), partial(replicate, lead, children, seed)

    results = journal.run(plan)
    rows = []
    for lead, children in dict.fromkeys((result.lead, result.children) for result in results):
        cell_results = [
            result for result in results if (result.lead, result.children) == (lead, children)
        ]
        if children == EQUALS:
            for error in ERRORS:
                hits = [result.odds >= 1 / error for result in cell_results]
                print(f"{cell_results[0].steps:,} looks at equals, error {error:g}: {share(hits)}")
            continue
        rollouts = sorted(result.rollouts for result in cell_results)
        rows.append(
            [
                f"{lead:g}",
                str(children),
                str(len(cell_results)),
                share([result.found for result in cell_results]),
                f"{sum(result.others for result in cell_results) / len(cell_results):.3f}",
                f"{median(rollouts):.0f}, {rollouts[int(0.9 * (len(rollouts) - 1))]}",
                f"{median(result.steps for result in cell_results):.0f}",
            ]
        )
    header = ["lead", "children", "n", "found", "others", "rollouts, median and 90 %", "steps"]
    if rows:
        print(table(header, rows))


if __name__ == "__main__":
    main()

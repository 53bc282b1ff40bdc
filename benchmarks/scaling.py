"""Measure how the engine's time grows with the questions of a step.

    python -m benchmarks.scaling

A default engine with a proposer that always has candidates on trial takes steps of 512 and of 5,120
questions with five rollouts each, from one seed and from seven. Questions never come twice. Noted
are CPU times of `ask` and `tell`, and of asking the questions of a step one by one, as the gateway
does: the mean of the steps after the second, and of the repetitions the least. Ten times the
questions should take about ten times as long. Python's garbage is collected before each call, so
that a call pays for the objects that it makes, and not for those of a trainer.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Sequence
from functools import partial
from statistics import fmean
from typing import Annotated

import typer

from benchmarks.engine_overhead import WORDS, Shuffling, roll_out, timed
from evoprompt.engine import Engine
from evoprompt.types import Question

SIZES = (512, 5_120)
ROLLOUTS = 5


def measure(questions: int, seeds: int, steps: int) -> tuple[float, float]:
    """Return the CPU seconds of an `ask` and of a `tell`."""
    rng = random.Random(0)
    texts = [
        f"Instruction {number}: {' '.join(rng.choices(WORDS, k=40))}" for number in range(seeds)
    ]
    engine = Engine(texts, proposer=Shuffling())
    rollouts = engine.divide_rollouts(ROLLOUTS, "rollouts")
    asks, tells = [], []
    for step in range(steps):
        batch = questions_of(step, questions)
        gc.collect()
        assignments, seconds = timed(partial(engine.ask, batch, rollouts))
        asks.append(seconds)
        trajectories = roll_out(assignments, rng)
        gc.collect()
        _, seconds = timed(partial(engine.tell, trajectories))
        tells.append(seconds)
        engine.evolve(partial(roll_out, rng=rng))
    return fmean(asks[2:]), fmean(tells[2:])


def measure_single_asks(questions: int) -> float:
    """Return the CPU seconds of asking the questions of a step one by one."""
    engine = Engine(["Instruction."], proposer=Shuffling())
    rollouts = engine.divide_rollouts(ROLLOUTS, "rollouts")
    batch = questions_of(0, questions)

    def ask() -> None:
        for question in batch:
            engine.ask([question], rollouts, step_of=questions)

    gc.collect()
    return timed(ask)[1]


def questions_of(step: int, number: int) -> Sequence[Question]:
    """Return new questions."""
    return [Question(f"q{step}-{index}", f"Question {index}?") for index in range(number)]


def main(
    steps: Annotated[int, typer.Option(min=3, help="Steps of a run.")] = 10,
    repetitions: Annotated[int, typer.Option(min=1, help="Of each run.")] = 5,
) -> None:
    """Print the times and their ratios as a markdown table."""
    times: dict[str, list[list[float]]] = {}
    for _ in range(repetitions):
        for column, size in enumerate(SIZES):
            for seeds in (1, 7):
                ask, tell = measure(size, seeds, steps)
                for name, seconds in (("ask", ask), ("tell", tell)):
                    row = times.setdefault(f"{name}, seeds: {seeds}", [[], []])
                    row[column].append(seconds)
            times.setdefault("ask one by one", [[], []])[column].append(measure_single_asks(size))
    print(f"| | {SIZES[0]} questions, ms | {SIZES[1]:,} questions, ms | ratio |")
    print("|---|---|---|---|")
    for name, (small, large) in times.items():
        fast, slow = min(small), min(large)
        print(f"| {name} | {1000 * fast:.1f} | {1000 * slow:.1f} | {slow / fast:.1f} |")


if __name__ == "__main__":
    typer.run(main)

"""Measure the cost of the engine in a training step, in time and memory.

    python benchmarks/engine_overhead.py

Each scale runs in a process of its own, so that its peak memory is its own. Trajectories are made
before the clock starts: they are the trainer's, not the engine's. Times are CPU time, since the
engine only computes; so they do not depend on what else the machine does.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from multiprocessing import get_context
from statistics import median
from typing import Annotated, TypeVar

import typer

from evoprompt import Proposer
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.roles import ProposalRequest
from evoprompt.types import Assignment, Proposal, Question, Trajectory, Turn

Result = TypeVar("Result")

TEXT = "search read compare every hop before you answer with one name from the last passage"
WORDS = TEXT.split()


@dataclass(frozen=True, slots=True)
class Scale:
    """One size of run.

    Attributes:
        name: what it is.
        population: active candidates.
        questions: a step.
        rollouts: a question.
        replayed: trajectories remembered.
        step_seconds: assumed length of the step of the whole training, for the share.
        verifies_by_rollouts: verification has rollouts of its own; else nothing is set.
    """

    name: str
    population: int
    questions: int
    rollouts: int
    replayed: int
    step_seconds: float
    verifies_by_rollouts: bool = False


SCALES = (
    Scale("tiny example", 1, 16, 5, 1_024, 0.3),
    Scale("paper", 1, 512, 5, 1_024, 60.0),
    Scale("paper, seven seeds", 7, 512, 5, 1_024, 60.0),
    Scale("tiny example, extra rollouts", 7, 16, 5, 1_024, 0.3, verifies_by_rollouts=True),
    Scale("paper, extra rollouts", 7, 512, 5, 1_024, 60.0, verifies_by_rollouts=True),
)


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one scale; times in CPU seconds, medians over steps.

    Attributes:
        first: a step (ask and tell) early in the run, once the windows of Eq. 6 are full.
        ask: at the end of the run.
        tell: at the end of the run, without pruning.
        baseline: writing the same trajectories as JSON, as a log of a trainer does.
        prune: a tell that prunes, once.
        evolve: the longest generation, verification rollouts excluded.
        save: making the state and writing it as JSON.
        state_bytes: size of that JSON.
        memory_bytes: peak memory of the process above what it had before the engine.
    """

    first: float
    ask: float
    tell: float
    baseline: float
    prune: float
    evolve: float
    save: float
    state_bytes: int
    memory_bytes: int


class Shuffling(Proposer):
    """Shuffles words; costs next to nothing."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """As many as are wished for."""
        parent = request.parents[0].candidate
        return [
            Proposal.of(f"{' '.join(request.rng.choices(WORDS, k=40))}.", parent)
            for _ in range(request.count)
        ]


def roll_out(assignments: Sequence[Assignment], rng: random.Random) -> list[Trajectory]:
    """Return trajectories of about a kilobyte each, half of them failures."""
    return [
        Trajectory(
            assignment,
            float(rng.random() < 0.5),
            rollout,
            (
                Turn(
                    f"<search>{rng.random()}</search>", f"<information>{rng.random()}" + "x" * 700
                ),
                Turn(f"<answer>{rng.random()}</answer>"),
            ),
            {"tool_calls": 1.0, "response_tokens": 120.0},
        )
        for assignment in assignments
        for rollout in range(assignment.rollouts)
    ]


def measure(scale: Scale, steps: int) -> Cost:
    """Run and time ``steps`` steps at ``scale`` and one generation."""
    rng = random.Random(0)
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    questions = [
        Question(f"q{n}", f"Question {n}?", (f"answer {n}",), {"question": f"Question {n}?"})
        for n in range(8 * scale.questions)
    ]
    filling = -(-scale.replayed // (scale.questions * scale.rollouts))
    total = filling + steps
    config = EngineConfig()
    if scale.verifies_by_rollouts:
        config = EngineConfig(
            population_size=scale.population,
            parents=max(scale.population // 2, 1),
            prune_every=total,  # only the last step prunes, and a generation follows
            evolve_every=total,
            evolve_until=None,
            proposals_per_round=6,
            replay_capacity=scale.replayed,
            verify_questions=20,
            verify_rounds=1,
            accept="top",
        )
    seeds = [
        f"Instruction {n}: " + " ".join(rng.choices(WORDS, k=40)) for n in range(scale.population)
    ]
    engine = Engine(seeds, proposer=Shuffling(), config=config)
    asks, tells, baselines, generations = [], [], [], []
    rolled_out = 0.0

    def rollout(assignments: Sequence[Assignment]) -> list[Trajectory]:
        nonlocal rolled_out
        trajectories, seconds = timed(partial(roll_out, assignments, rng))
        rolled_out += seconds
        return trajectories

    for _ in range(total):
        batch = rng.sample(questions, scale.questions)
        assignments, seconds = timed(partial(engine.ask, batch, scale.rollouts))
        asks.append(seconds)
        trajectories = roll_out(assignments, rng)
        _, seconds = timed(partial(engine.tell, trajectories))
        tells.append(seconds)
        records = [
            {"reward": trajectory.reward, "turns": [asdict(turn) for turn in trajectory.turns]}
            for trajectory in trajectories
        ]
        _, seconds = timed(partial(json.dumps, records))
        baselines.append(seconds)
        rolled_out = 0.0
        _, seconds = timed(partial(engine.evolve, rollout))
        generations.append(seconds - rolled_out)
    state, save = timed(lambda: json.dumps(engine.state_dict()))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Cost(
        first=median(asks[5:10]) + median(tells[5:10]),
        ask=median(asks[-steps:-1]),
        tell=median(tells[-steps:-1]),
        baseline=median(baselines[-steps:-1]),
        prune=tells[-1],
        evolve=max(generations),
        save=save,
        state_bytes=len(state),
        memory_bytes=(peak - base) * (1 if sys.platform == "darwin" else 1024),
    )


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """Return the result of ``work``, and its CPU time in seconds."""
    started = time.process_time()
    result = work()
    return result, time.process_time() - started


HEADINGS = (
    "step ms at first",
    "step ms at last",
    "ask",
    "tell",
    "of writing JSON",
    "share of a step",
    "pruning tell ms",
    "evolve ms",
    "save ms",
    "state MB",
    "memory MB",
)


def cells(scale: Scale, cost: Cost) -> list[str]:
    """Return the numbers of a row, under :data:`HEADINGS`."""
    last = cost.ask + cost.tell
    return [
        *(f"{1000 * seconds:.1f}" for seconds in (cost.first, last, cost.ask, cost.tell)),
        f"{last / cost.baseline:.1f}",
        f"{last / scale.step_seconds:.2%} of {scale.step_seconds:g} s",
        *(f"{1000 * seconds:.0f}" for seconds in (cost.prune, cost.evolve, cost.save)),
        f"{cost.state_bytes / 1e6:.1f}",
        f"{cost.memory_bytes / 1e6:.0f}",
    ]


def main(
    steps: Annotated[int, typer.Option(min=6, help="Steps timed once the buffer is full.")] = 25,
) -> None:
    """Print the engine's time a step and its memory at five scales, as a markdown table."""
    print("| scale | " + " | ".join(HEADINGS) + " |")
    print("|---" * (1 + len(HEADINGS)) + "|")
    for scale in SCALES:
        with get_context("spawn").Pool(1) as process:
            cost = process.apply(measure, (scale, steps))
        print(f"| {scale.name} | " + " | ".join(cells(scale, cost)) + " |", flush=True)


if __name__ == "__main__":
    typer.run(main)

"""Which of several candidates is found to be the best, through the real engine, by simulation.

    python -m benchmarks.selection FOLDER --replications 400

A *world* draws the difficulty of questions and the effects of candidates, in logits; a reward is 0
or 1, or the mean of such parts. A *design* says how an engine spends a step's rollouts on it.
Nothing is proposed. For each replication it is noted whether the best of all candidates has the
highest weight at the end, and how much expected reward is lost by taking the one that has (regret).
Replications of all designs meet the same effects.
"""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.simulation import MEAN, NODES, Journal, interval, mean, points, table
from evoprompt import Assignment, Engine, EngineConfig, Question, Trajectory
from evoprompt.attributors import Adjusted, WindowMean
from evoprompt.roles import Attributor, Selector
from evoprompt.selectors import Deap, Softmax


@dataclass(frozen=True, slots=True)
class World:
    """World of a simulation.

    Attributes:
        name: in the table.
        candidates: number of them.
        effects: standard deviation of the candidates' effects, in logits.
        spread: standard deviation of the difficulty of questions, in logits.
        drift: by which every question gets easier per step, in logits.
        repeated: size of the pool that questions come from; 0 where none comes twice.
        tilt: standard deviation of how much better a candidate is on questions that are a standard
            deviation easier, in logits.
        parts: a reward is the mean of so many, each 0 or 1.
        steps: of a replication.
        rollouts: per step.
        single: whether a question is asked once under a candidate.
    """

    name: str
    candidates: int = 7
    effects: float = 0.3
    spread: float = 2.0
    drift: float = 0.0
    repeated: int = 0
    tilt: float = 0.0
    parts: int = 1
    steps: int = 15
    rollouts: int = 80
    single: bool = False

    @property
    def designs(self) -> tuple[Design, ...]:
        """Those that spend its rollouts."""
        return SINGLE if self.single else DESIGNS


@dataclass(frozen=True, slots=True)
class Design:
    """Design of an engine, and of its use of the rollouts of a step.

    Attributes:
        name: in the table.
        each: candidates per question.
        rollouts: per question and candidate.
        attributor: class of the attributor.
        sampler: of the candidates.
        settings: of ``EngineConfig``, where it is not the default preset.
    """

    name: str
    per_question: int = 1
    rollouts: int = 5
    attributor: type[WindowMean] | type[Adjusted] = Adjusted
    sampler: Selector = field(default_factory=Softmax)
    settings: Mapping[str, Any] = field(default_factory=dict)


WORLDS = (
    World("as usual"),
    World("effects .15", effects=0.15),
    World("effects .6", effects=0.6),
    World("spread 1", spread=1.0),
    World("spread 3", spread=3.0),
    World("drift .2", drift=0.2),
    World("100 questions", repeated=100),
    World("tilt .3", tilt=0.3),
    World("four parts", parts=4),
    World("300, 16 x 5", candidates=300, steps=40),
    World("300, 512 x 1", candidates=300, steps=30, rollouts=512, single=True),
)


BLOCK = {"grouping": "question"}
NEVER = {"prune_every": 1_000}
INSPO = {"preset": "inspo", "fill_at_start": False}
DESIGNS = (
    Design("inspo", attributor=WindowMean, settings=INSPO),
    Design("random", attributor=WindowMean, sampler=Deap("random"), settings=NEVER),
    Design("window", attributor=WindowMean),
    Design("window, 5 x 1", 5, 1, WindowMean, settings=BLOCK),
    Design("adjusted"),
    Design("adjusted, 2 x 2", 2, 2),
    Design("adjusted, 5 x 1", 5, 1, settings=BLOCK),
    Design("adjusted, 5 x 1, no pruning", 5, 1, settings={**BLOCK, **NEVER}),
)
SINGLE = (
    Design("inspo", 1, 1, WindowMean, settings=INSPO),
    Design("random", 1, 1, WindowMean, Deap("random"), NEVER),
    Design("window", 1, 1, WindowMean),
    Design("adjusted", 1, 1),
    Design("adjusted, 2 x 1", 2, 1, settings=BLOCK),
    Design("adjusted, 5 x 1", 5, 1, settings=BLOCK),
)
"""For worlds of one rollout per question and candidate."""


@dataclass(frozen=True, slots=True)
class Result:
    """One replication.

    Attributes:
        world: its name.
        design: its name.
        seed: of the replication.
        found: whether the one with the highest weight is the best.
        regret: expected reward lost by taking that one, in [0, 1].
        covered: share of the members whose 95 % interval, about the mean of the members, holds the
            truth; None where the attributor does not compare, or one is left.
    """

    world: str
    design: str
    seed: int
    found: bool
    regret: float
    covered: float | None = None


def replicate(world: World, design: Design, seed: int) -> Result:
    """Play one engine through one world."""
    nature = np.random.default_rng([seed, 0])
    effects = world.effects * nature.standard_normal(world.candidates)
    tilts = world.tilt * nature.standard_normal(world.candidates)
    pool = nature.standard_normal(world.repeated)
    rng = np.random.default_rng([seed, 1])
    config = EngineConfig(
        **{
            "population_size": world.candidates,
            "candidates_per_question": design.per_question,
            "evolve_until": 0,
            **design.settings,
        }
    )
    attributor: Attributor = design.attributor()
    engine = Engine(
        [f"Instruction number {index}." for index in range(world.candidates)],
        config=config,
        seed=seed,
        attributor=attributor,
        sampler=design.sampler,
    )
    num_questions = world.rollouts // (design.per_question * design.rollouts)
    for step in range(1, world.steps + 1):
        if world.repeated:
            indices = rng.choice(world.repeated, num_questions, replace=False)
            ease = dict(zip((f"q{index}" for index in indices), pool[indices], strict=True))
        else:
            values = rng.standard_normal(num_questions)
            ease = {f"q{step}-{index}": float(value) for index, value in enumerate(values)}
        questions = [Question(name, "Who?") for name in ease]
        trajectories: list[Trajectory] = []
        for assignment in engine.ask(questions, design.rollouts):
            chance = _chance(world, effects, tilts, assignment, ease, step)
            trajectories += [
                Trajectory(
                    assignment, float(rng.binomial(world.parts, chance)) / world.parts, index
                )
                for index in range(design.rollouts)
            ]
        engine.tell(trajectories)
    values = _values(world, effects, tilts)
    chosen = int(engine.selection.leader.id[1:])
    return Result(
        world.name,
        design.name,
        seed,
        bool(chosen == values.argmax()),
        float(values.max() - values[chosen]),
        _covered(engine, values) if design.attributor is Adjusted else None,
    )


def _covered(engine: Engine, values: np.ndarray) -> float | None:
    stats = engine.candidate_stats()
    if len(stats) < 2:
        return None
    truth = values[[int(member_stats.candidate.id[1:]) for member_stats in stats]]
    weights = np.array([member_stats.weight for member_stats in stats])
    errors = np.array([member_stats.stderr for member_stats in stats])
    off = np.abs((weights - weights.mean()) - (truth - truth.mean()))
    return float((off <= 1.96 * errors).mean())


def _chance(
    world: World,
    effects: np.ndarray,
    tilts: np.ndarray,
    assignment: Assignment,
    ease: Mapping[str, float],
    step: int,
) -> float:
    number, easy = int(assignment.candidate.id[1:]), ease[assignment.question.id]
    spread = world.spread + tilts[number]
    return 1 / (1 + math.exp(-(MEAN + world.drift * step + spread * easy + effects[number])))


def _values(world: World, effects: np.ndarray, tilts: np.ndarray) -> np.ndarray:
    """Return the expected reward of each candidate at the end, by quadrature."""
    logits = MEAN + world.drift * world.steps + effects[:, None]
    logits = logits + (world.spread + tilts[:, None]) * NODES[None]
    return points(logits) / 100


def rows(
    results: Sequence[Result], worlds: Sequence[str], cell: Callable[[Sequence[Result]], str]
) -> Iterator[list[str]]:
    """Yield a row per design, with a cell for each world."""
    for name in dict.fromkeys(design.name for design in (*DESIGNS, *SINGLE)):
        cells = [
            [result for result in results if (result.world, result.design) == (world, name)]
            for world in worlds
        ]
        if any(cells):
            yield [name, *(cell(cell_results) if cell_results else "-" for cell_results in cells)]


def found_and_lost(results: Sequence[Result]) -> str:
    """Return the share in which the best was found, and the regret in points."""
    share, half = (
        fmean(result.found for result in results),
        interval([result.found for result in results])[1],
    )
    return f"{share:.3f} ± {half:.3f} ({100 * fmean(result.regret for result in results):.2f})"


def regret(results: Sequence[Result]) -> str:
    """In points, with half the width of its 95 % interval."""
    return mean([100 * result.regret for result in results])


def coverage(results: Sequence[Result]) -> str:
    """Share of the intervals that hold the truth."""
    shares = [result.covered for result in results if result.covered is not None]
    return f"{fmean(shares):.3f}" if shares else "-"


def main() -> None:
    """Run the missing replications, then print the tables."""
    journal = Journal(__doc__ or "", Result, ("world", "design", "seed"), 400)
    journal.parser.add_argument("--worlds", nargs="*", default=[world.name for world in WORLDS])
    journal.parser.add_argument("--designs", nargs="*", help="only these")

    def plan(
        arguments: Namespace, seed: int
    ) -> Iterator[tuple[tuple[Any, ...], Callable[[], Result]]]:
        for world in (
            named_world for named_world in WORLDS if named_world.name in arguments.worlds
        ):
            for design in world.designs:
                if arguments.designs and design.name not in arguments.designs:
                    continue
                yield (world.name, design.name, seed), partial(replicate, world, design, seed)

    results = journal.run(plan)
    names = [
        world.name for world in WORLDS if any(world.name == result.world for result in results)
    ]
    few = [name for name in names if not name.startswith("300")]
    many = [name for name in names if name.startswith("300")]
    for title, worlds, cell in (
        ("The best of 7 is found (regret, points)", few, found_and_lost),
        ("Regret of 300, points", many, regret),
        ("Intervals that hold the truth", names, coverage),
    ):
        print(title, table(["design", *worlds], rows(results, worlds, cell)), sep="\n\n")


if __name__ == "__main__":
    main()

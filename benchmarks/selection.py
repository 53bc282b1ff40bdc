"""Which of several candidates is found to be the best, through the real engine, by simulation.

    python benchmarks/selection.py FOLDER --replications 400

A *world* draws the difficulty of questions and the effects of candidates, in logits; rewards are 0
or 1. A *design* says how an engine spends 80 rollouts per step on it. Nothing is proposed. For each
replication it is noted whether the best of all candidates is the engine's best at the end, and how
much expected reward is lost by taking the engine's choice instead (regret). Both are appended to
``FOLDER/results.jsonl``; the same command goes on where it was stopped. Replications of all designs
meet the same effects. The table and ``FOLDER/selection.png`` are made from the file.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from evoprompt import Assignment, Engine, EngineConfig, Question, Trajectory
from evoprompt.attributors import Adjusted, WindowMean
from evoprompt.interfaces import Attributor, Selector
from evoprompt.selectors import Softmax, Thompson, TopTwo

STEPS = 15
MEAN = -1.24
"""Mean difficulty, in logits: about a third of the rollouts are right where the spread is 2."""
_NODES, _SHARES = np.polynomial.hermite_e.hermegauss(61)


@dataclass(frozen=True, slots=True)
class World:
    """What is simulated.

    Attributes:
        name: in the table.
        candidates: number of them.
        effects: standard deviation of the candidates' effects, in logits.
        spread: standard deviation of the difficulty of questions, in logits.
        drift: by which every question gets easier per step, in logits.
        repeated: size of the pool that questions come from; 0 where none comes twice.
        tilt: standard deviation of how much better a candidate is on questions that are a standard
            deviation easier, in logits.
    """

    name: str
    candidates: int = 7
    effects: float = 0.3
    spread: float = 2.0
    drift: float = 0.0
    repeated: int = 0
    tilt: float = 0.0


@dataclass(frozen=True, slots=True)
class Design:
    """How an engine is set up, and how it spends 80 rollouts per step.

    Attributes:
        name: in the table.
        questions: per step.
        each: candidates per question.
        rollouts: per question and candidate.
        attributor: class of the attributor.
        sampler: of the candidates.
        settings: of ``EngineConfig``, where it is not the default preset.
    """

    name: str
    questions: int = 16
    each: int = 1
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
)
DESIGNS = (
    Design("inspo", attributor=WindowMean, settings={"preset": "inspo", "fill_at_start": False}),
    Design("default", attributor=WindowMean),
    Design("blocks, window", 16, 5, 1, WindowMean, settings={"grouping": "question"}),
    Design("adjusted"),
    Design("adjusted, thompson", sampler=Thompson()),
    Design("adjusted, top-two", sampler=TopTwo()),
    Design("adjusted, 20 x 2 x 2", 20, 2, 2),
    Design("adjusted, 16 x 5 x 1", 16, 5, 1, settings={"grouping": "question"}),
)


@dataclass(frozen=True, slots=True)
class Result:
    """One replication.

    Attributes:
        world: its name.
        design: its name.
        seed: of the replication.
        found: whether the engine's best is the best.
        regret: expected reward lost by taking the engine's best, in [0, 1].
    """

    world: str
    design: str
    seed: int
    found: bool
    regret: float


def replicate(world: World, design: Design, seed: int) -> Result:
    """Plays one engine through one world."""
    nature = np.random.default_rng([seed, 0])
    effects = world.effects * nature.standard_normal(world.candidates)
    tilts = world.tilt * nature.standard_normal(world.candidates)
    pool = nature.standard_normal(world.repeated)
    rng = np.random.default_rng([seed, 1])
    config = EngineConfig(
        **{
            "population_size": world.candidates,
            "candidates_per_question": design.each,
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
    for step in range(1, STEPS + 1):
        if world.repeated:
            drawn = rng.choice(world.repeated, design.questions, replace=False)
            ease = dict(zip((f"q{index}" for index in drawn), pool[drawn], strict=True))
        else:
            values = rng.standard_normal(design.questions)
            ease = {f"q{step}-{index}": float(value) for index, value in enumerate(values)}
        questions = [Question(name, "Who?") for name in ease]
        told: list[Trajectory] = []
        for assignment in engine.ask(questions, design.rollouts):
            chance = _chance(world, effects, tilts, assignment, ease, step)
            told += [
                Trajectory(assignment, float(rng.random() < chance), index)
                for index in range(design.rollouts)
            ]
        engine.tell(told)
    values = _values(world, effects, tilts)
    chosen = int(engine.best.id[1:])
    return Result(
        world.name,
        design.name,
        seed,
        bool(chosen == values.argmax()),
        float(values.max() - values[chosen]),
    )


def _chance(
    world: World,
    effects: np.ndarray,
    tilts: np.ndarray,
    assignment: Assignment,
    ease: Mapping[str, float],
    step: int,
) -> float:
    own, easy = int(assignment.candidate.id[1:]), ease[assignment.question.id]
    spread = world.spread + tilts[own]
    return 1 / (1 + math.exp(-(MEAN + world.drift * step + spread * easy + effects[own])))


def _values(world: World, effects: np.ndarray, tilts: np.ndarray) -> np.ndarray:
    """Expected reward of each candidate at the end, by quadrature."""
    logits = MEAN + world.drift * STEPS + effects[:, None]
    logits = logits + (world.spread + tilts[:, None]) * _NODES[None]
    values: np.ndarray = (_SHARES / (1 + np.exp(-logits))).sum(axis=1) / _SHARES.sum()
    return values


def read(path: Path) -> Iterator[Result]:
    """The replications noted so far; a last line that was cut is passed over."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            yield Result(**json.loads(line))


def interval(hits: Sequence[bool]) -> tuple[float, float]:
    """Middle, and half the width, of the 95 % interval of a share (Wilson, 1927)."""
    count, z = len(hits), 1.96
    share, whole = sum(hits) / count, 1 + z * z / count
    half = z * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return (share + z * z / (2 * count)) / whole, half / whole


def table(results: Sequence[Result]) -> str:
    """Shares in which the best was found, and regret in points, as Markdown."""
    cells: defaultdict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        cells[result.design, result.world].append(result)
    worlds = [world.name for world in WORLDS if any(key[1] == world.name for key in cells)]
    lines = [f"| design | {' | '.join(worlds)} |", "|---" * (len(worlds) + 1) + "|"]
    for design in DESIGNS:
        row = [design.name]
        for world in worlds:
            found = cells.get((design.name, world))
            if not found:
                row.append("-")
                continue
            share = fmean(one.found for one in found)
            lost = 100 * fmean(one.regret for one in found)
            row.append(
                f"{share:.3f} ± {interval([one.found for one in found])[1]:.3f} ({lost:.2f})"
            )
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def draw(results: Sequence[Result], path: Path) -> None:
    """The share in which the best was found, for each world and design."""
    import matplotlib.pyplot as plt

    worlds = [world.name for world in WORLDS]
    figure, axes = plt.subplots(figsize=(11, 4.2), layout="constrained")
    for number, design in enumerate(DESIGNS):
        places, means, halves = [], [], []
        for index, world in enumerate(worlds):
            found = [
                one.found for one in results if (one.world, one.design) == (world, design.name)
            ]
            if found:
                mean, half = interval(found)
                places.append(index + (number - len(DESIGNS) / 2) * 0.09)
                means.append(mean)
                halves.append(half)
        axes.errorbar(places, means, halves, fmt="o", markersize=4, capsize=2, label=design.name)
    axes.axhline(1 / 7, color="grey", linewidth=0.8, linestyle=":")
    axes.text(len(worlds) - 0.55, 1 / 7 + 0.01, "chance", color="grey", ha="right")
    axes.set_xticks(range(len(worlds)), worlds)
    axes.set_ylabel("best of 7 found, 95 % interval")
    axes.set_ylim(0, 1)
    figure.legend(loc="outside right center", frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Goes on with the replications, then prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--replications", type=int, default=400)
    parser.add_argument("--worlds", nargs="*", default=[world.name for world in WORLDS])
    parser.add_argument("--designs", nargs="*", default=[design.name for design in DESIGNS])
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    path = given.folder / "results.jsonl"
    known = {(one.world, one.design, one.seed) for one in read(path)}
    warnings.simplefilter("ignore")  # that nothing evolves
    with path.open("a", encoding="utf-8") as file:
        for seed in range(given.replications):
            for world in (one for one in WORLDS if one.name in given.worlds):
                for design in (one for one in DESIGNS if one.name in given.designs):
                    if (world.name, design.name, seed) in known:
                        continue
                    found = replicate(world, design, seed)
                    file.write(json.dumps({name: getattr(found, name) for name in FIELDS}) + "\n")
                    file.flush()
    results = list(read(path))
    print(table(results))
    draw(results, given.folder / "selection.png")


FIELDS = ("world", "design", "seed", "found", "regret")

if __name__ == "__main__":
    main()

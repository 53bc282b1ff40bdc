"""Which of several candidates is found to be the best, through the real engine, by simulation.

    python benchmarks/selection.py FOLDER --replications 400

A *world* draws the difficulty of questions and the effects of candidates, in logits; a reward is 0
or 1, or the mean of such parts. A *design* says how an engine spends a step's rollouts on it.
Nothing is proposed. For each replication it is noted whether the best of all candidates has the
highest weight at the end, and how much expected reward is lost by taking the one that has (regret).
Both are appended to ``FOLDER/results.jsonl``; the same command goes on where it was
stopped. Replications of all designs meet the same effects. The tables and ``FOLDER/selection.png``
are made from the file.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from evoprompt import Assignment, Engine, EngineConfig, Question, Trajectory
from evoprompt.attributors import Adjusted, WindowMean
from evoprompt.roles import Attributor, Selector
from evoprompt.selectors import Softmax, Thompson, TopTwo
from evoprompt.types import CandidateStats

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
    """How an engine is set up, and how it spends the rollouts of a step.

    Attributes:
        name: in the table.
        each: candidates per question.
        rollouts: per question and candidate.
        attributor: class of the attributor.
        sampler: of the candidates.
        settings: of ``EngineConfig``, where it is not the default preset.
    """

    name: str
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
    World("four parts", parts=4),
    World("300, 16 x 5", candidates=300, steps=40),
    World("300, 512 x 1", candidates=300, steps=30, rollouts=512, single=True),
)


class Front(Selector):
    """Draws as GEPA does: by the number of questions on which nobody is better.

    Candidates that are on the front of no question, or only beside others that cover it, are left
    out (arXiv 2507.19457, Algorithm 2, by the mean reward on each question).
    """

    def select(
        self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
    ) -> Sequence[CandidateStats]:
        """``k`` independent draws."""
        best: dict[str, float] = {}
        for one in candidate_stats:
            for question, reward in one.by_question.items():
                best[question] = max(reward, best.get(question, reward))
        fronts: dict[str, set[str]] = {question: set() for question in best}
        for one in candidate_stats:
            for question, reward in one.by_question.items():
                if reward == best[question]:
                    fronts[question].add(one.candidate.id)
        for one in sorted(candidate_stats, key=lambda stats: stats.weight):
            name = one.candidate.id
            if all(len(front) > 1 for front in fronts.values() if name in front):
                for front in fronts.values():
                    front.discard(name)
        counts = Counter(name for front in fronts.values() for name in front)
        shares = [counts[one.candidate.id] for one in candidate_stats]
        return rng.choices(candidate_stats, shares if any(shares) else None, k=k)


class Evenly(Selector):
    """Draws everybody alike."""

    def select(
        self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
    ) -> Sequence[CandidateStats]:
        """``k`` independent draws."""
        return rng.choices(candidate_stats, k=k)


BLOCK = {"grouping": "question"}
NEVER = {"prune_every": 1_000}
INSPO = {"preset": "inspo", "fill_at_start": False}
DESIGNS = (
    Design("inspo", attributor=WindowMean, settings=INSPO),
    Design("random", attributor=WindowMean, sampler=Evenly(), settings=NEVER),
    Design("GEPA's front", attributor=WindowMean, sampler=Front(), settings=NEVER),
    Design("window", attributor=WindowMean),
    Design("window, 5 x 1", 5, 1, WindowMean, settings=BLOCK),
    Design("adjusted"),
    Design("adjusted, thompson", sampler=Thompson()),
    Design("adjusted, top-two", sampler=TopTwo()),
    Design("adjusted, top-two, no pruning", sampler=TopTwo(), settings=NEVER),
    Design("adjusted, 2 x 2", 2, 2),
    Design("adjusted, 5 x 1", 5, 1, settings=BLOCK),
    Design("adjusted, 5 x 1, no pruning", 5, 1, settings={**BLOCK, **NEVER}),
)
SINGLE = (
    Design("inspo", 1, 1, WindowMean, settings=INSPO),
    Design("random", 1, 1, WindowMean, Evenly(), NEVER),
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
        covered: share of the living whose 95 % interval, about the mean of the living, holds the
            truth; None where the attributor does not compare, or one is left.
    """

    world: str
    design: str
    seed: int
    found: bool
    regret: float
    covered: float | None = None


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
            "on_component_failure": "stop",
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
    asked = world.rollouts // (design.each * design.rollouts)
    for step in range(1, world.steps + 1):
        if world.repeated:
            drawn = rng.choice(world.repeated, asked, replace=False)
            ease = dict(zip((f"q{index}" for index in drawn), pool[drawn], strict=True))
        else:
            values = rng.standard_normal(asked)
            ease = {f"q{step}-{index}": float(value) for index, value in enumerate(values)}
        questions = [Question(name, "Who?") for name in ease]
        told: list[Trajectory] = []
        for assignment in engine.ask(questions, design.rollouts):
            chance = _chance(world, effects, tilts, assignment, ease, step)
            told += [
                Trajectory(
                    assignment, float(rng.binomial(world.parts, chance)) / world.parts, index
                )
                for index in range(design.rollouts)
            ]
        engine.tell(told)
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
    truth = values[[int(one.candidate.id[1:]) for one in stats]]
    weights = np.array([one.weight for one in stats])
    errors = np.array([one.stderr for one in stats])
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
    own, easy = int(assignment.candidate.id[1:]), ease[assignment.question.id]
    spread = world.spread + tilts[own]
    return 1 / (1 + math.exp(-(MEAN + world.drift * step + spread * easy + effects[own])))


def _values(world: World, effects: np.ndarray, tilts: np.ndarray) -> np.ndarray:
    """Expected reward of each candidate at the end, by quadrature."""
    logits = MEAN + world.drift * world.steps + effects[:, None]
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


def table(results: Sequence[Result], cell: Callable[[Sequence[Result]], str]) -> str:
    """One row per design and one column per world, as Markdown."""
    cells: defaultdict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        cells[result.design, result.world].append(result)
    worlds = [world.name for world in WORLDS if any(key[1] == world.name for key in cells)]
    designs = [name for name in NAMES if any(key[0] == name for key in cells)]
    lines = [f"| design | {' | '.join(worlds)} |", "|---" * (len(worlds) + 1) + "|"]
    for design in designs:
        row = [design]
        for world in worlds:
            found = cells.get((design, world))
            row.append(cell(found) if found else "-")
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def found_and_lost(results: Sequence[Result]) -> str:
    """The share in which the best was found, and the regret in points."""
    share, half = fmean(one.found for one in results), interval([one.found for one in results])[1]
    return f"{share:.3f} ± {half:.3f} ({100 * fmean(one.regret for one in results):.2f})"


def regret(results: Sequence[Result]) -> str:
    """In points, with half the width of its 95 % interval."""
    lost = [100 * one.regret for one in results]
    return f"{fmean(lost):.2f} ± {1.96 * float(np.std(lost)) / math.sqrt(len(lost)):.2f}"


def coverage(results: Sequence[Result]) -> str:
    """Share of the intervals that hold the truth."""
    shares = [one.covered for one in results if one.covered is not None]
    return f"{fmean(shares):.3f}" if shares else "-"


def draw(results: Sequence[Result], path: Path) -> None:
    """The share in which the best was found, for each world and some of the designs."""
    import matplotlib.pyplot as plt

    worlds = [world.name for world in WORLDS if world.candidates == 7]
    figure, axes = plt.subplots(figsize=(11, 4.2), layout="constrained")
    shown = [design for design in DESIGNS if design.name in SHOWN]
    for number, design in enumerate(shown):
        places, means, halves = [], [], []
        for index, world in enumerate(worlds):
            found = [
                one.found for one in results if (one.world, one.design) == (world, design.name)
            ]
            if found:
                mean, half = interval(found)
                places.append(index + (number - (len(shown) - 1) / 2) * 0.09)
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
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--worlds", nargs="*", default=[world.name for world in WORLDS])
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    path = given.folder / "results.jsonl"
    known = {(one.world, one.design, one.seed) for one in read(path)}
    warnings.simplefilter("ignore")  # that nothing evolves
    with path.open("a", encoding="utf-8") as file:
        for seed in range(given.first_seed, given.first_seed + given.replications):
            for world in (one for one in WORLDS if one.name in given.worlds):
                for design in world.designs:
                    if (world.name, design.name, seed) in known:
                        continue
                    found = replicate(world, design, seed)
                    file.write(json.dumps({name: getattr(found, name) for name in FIELDS}) + "\n")
                    file.flush()
    results = list(read(path))
    few = [one for one in results if not one.world.startswith("300")]
    many = [one for one in results if one.world.startswith("300")]
    print("The best of 7 is found (regret, points)", table(few, found_and_lost), sep="\n\n")
    print("\nRegret of 300, points", table(many, regret), sep="\n\n")
    print("\nIntervals that hold the truth", table(results, coverage), sep="\n\n")
    draw(results, given.folder / "selection.png")


SHOWN = (
    "inspo",
    "random",
    "GEPA's front",
    "window",
    "window, 5 x 1",
    "adjusted",
    "adjusted, 2 x 2",
    "adjusted, 5 x 1",
)
"""In the picture; the table has all."""
NAMES = list(dict.fromkeys(design.name for design in (*DESIGNS, *SINGLE)))
FIELDS = ("world", "design", "seed", "found", "regret", "covered")

if __name__ == "__main__":
    main()

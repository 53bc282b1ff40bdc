"""Who is admitted, how often wrongly, for how many rollouts: through the real engine, simulated.

    python benchmarks/verification.py FOLDER --replications 400

An engine trains one instruction for 30 steps of 16 questions with 5 rollouts, then evolves once. A
*world* says how good the proposed children are, in points of expected reward more than their parent
or in logits; rewards are 0 or 1. A *design* says how they are verified. Each replication is
appended to ``FOLDER/results.jsonl``; the same command goes on where it was stopped. Replications of
all designs meet the same children. The tables are made from the file.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from evoprompt import (
    Assignment,
    Engine,
    EngineConfig,
    Proposal,
    ProposalRequest,
    Proposer,
    Question,
    Trajectory,
)
from evoprompt.race import Race
from evoprompt.roles import Verifier
from evoprompt.verifiers import ReplayTopN

STEPS = 30
MEAN, SPREAD, DRIFT = -1.24, 2.0, 0.03
"""Difficulty of questions: mean and standard deviation, and what a step takes off, in logits."""
_NODES, _SHARES = np.polynomial.hermite_e.hermegauss(61)


@dataclass(frozen=True, slots=True)
class World:
    """How good the children are.

    Attributes:
        name: in the table.
        lead: by how much all of them are better than their parent, in points of expected reward.
        effects: mean and standard deviation of their effects in logits, instead.
    """

    name: str
    lead: float = 0.0
    effects: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Design:
    """How children are verified.

    Attributes:
        name: in the table.
        verifier: makes the verifier.
        settings: of ``EngineConfig``, where it is not the default preset.
    """

    name: str
    verifier: Callable[[], Verifier]
    settings: Mapping[str, Any] = field(default_factory=dict)


WORLDS = (
    World("worse by 8", -8),
    World("worse by 4.1", -4.1),
    World("worse by 1.4", -1.4),
    World("equal"),
    World("better by 5", 5),
    World("mixed", effects=(-0.1, 0.3)),
)
EIGHTEEN = {"verify_rounds": 1, "proposals_per_round": 18}
DESIGNS = (
    Design("replay-top-n", lambda: ReplayTopN(200)),
    Design("race", lambda: Race(200)),
    Design("race, error .6", lambda: Race(200, 0.6)),
    Design("race, 400 questions, 18 children once", lambda: Race(400), EIGHTEEN),
    Design("replay-top-n, 40 questions", lambda: ReplayTopN(40)),
    Design("race, 40 questions", lambda: Race(40)),
)


@dataclass(frozen=True, slots=True)
class Result:
    """One replication.

    Attributes:
        world: its name.
        design: its name.
        seed: of the replication.
        tried: number of children.
        admitted: how many of them entered the population.
        wrong: how many of those are worse than the parent.
        rollouts: that it took.
        gain: by which the one with the highest weight is better than the parent, in points.
        regret: by which the best of all is better than that one, in points.
        error: mean of the admitted's weights minus what they are worth, in points; None if none.
    """

    world: str
    design: str
    seed: int
    tried: int
    admitted: int
    wrong: int
    rollouts: int
    gain: float
    regret: float
    error: float | None


class Scripted(Proposer):
    """Proposes as many texts as it is asked for, never one again."""

    def __init__(self) -> None:
        self.count = 0

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Texts that say nothing."""
        first = self.count + 1
        self.count += request.count
        return [Proposal.of(f"Instruction number {n}.") for n in range(first, self.count + 1)]


class Policy:
    """Answers by chance; what children are worth it draws by their number.

    Args:
        world: how good they are.
        seed: of the replication.
    """

    def __init__(self, world: World, seed: int) -> None:
        nature = np.random.default_rng([seed, 0])
        drawn = nature.standard_normal(1000)
        self.ease = nature.standard_normal(STEPS * 16)
        if world.effects:
            self.effects = world.effects[0] + world.effects[1] * drawn
        else:
            self.effects = np.full(1000, effect_of(world.lead))
        self.effects[0] = 0.0
        self.rng = np.random.default_rng([seed, 1])
        self.step = 0

    def __call__(self, assignments: Sequence[Assignment], /) -> list[Trajectory]:
        """Rewards of 0 or 1."""
        own = [_number(one.candidate.text) for one in assignments]
        asked = [int(one.question.id) for one in assignments]
        logits = MEAN + DRIFT * self.step + SPREAD * self.ease[asked] + self.effects[own]
        most = max(one.rollouts for one in assignments)
        right = self.rng.random((len(own), most)) < 1 / (1 + np.exp(-logits))[:, None]
        return [
            Trajectory(one, float(right[index, rollout]), rollout)
            for index, one in enumerate(assignments)
            for rollout in range(one.rollouts)
        ]

    def worth(self, text: str) -> float:
        """Expected reward under an instruction at the end, in points."""
        return worth_of(float(self.effects[_number(text)]))


def _number(text: str) -> int:
    return int(text.removeprefix("Instruction number ").removesuffix("."))


@cache
def worth_of(effect: float) -> float:
    """Expected reward at the end of training, in points, by quadrature."""
    logits = MEAN + DRIFT * STEPS + effect + SPREAD * _NODES
    return float(100 * (_SHARES / (1 + np.exp(-logits))).sum() / _SHARES.sum())


@cache
def effect_of(lead: float) -> float:
    """The effect in logits that brings so many points."""
    low, high = -5.0, 5.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if worth_of(middle) - worth_of(0) < lead else (low, middle)
    return low


def replicate(world: World, design: Design, seed: int) -> Result:
    """Plays one engine through one world."""
    policy, proposer = Policy(world, seed), Scripted()
    config = EngineConfig(**{"evolve_every": STEPS, "evolve_until": STEPS, **design.settings})
    engine = Engine(
        ["Instruction number 0."],
        proposer=proposer,
        config=config,
        seed=seed,
        verifier=design.verifier(),
        rules=[],  # the texts say nothing
    )
    for step in range(STEPS):
        policy.step = step
        questions = [Question(str(16 * step + number), "Who?") for number in range(16)]
        engine.tell(policy(engine.ask(questions, 5)))
    policy.step = STEPS
    report = engine.evolve(policy)
    worth = [policy.worth(f"Instruction number {n}.") for n in range(proposer.count + 1)]
    born = [one for one in engine.candidate_stats() if one.candidate.proposer != "seed"]
    own = [policy.worth(one.candidate.text) for one in born]
    found = policy.worth(engine.selection.leader.text)
    return Result(
        world.name,
        design.name,
        seed,
        proposer.count,
        len(born),
        sum(value < worth[0] for value in own),
        report.rollouts,
        found - worth[0],
        max(worth) - found,
        fmean(100 * s.weight - value for s, value in zip(born, own, strict=True)) if born else None,
    )


def read(path: Path) -> Iterator[Result]:
    """The replications noted so far; a last line that was cut is passed over."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            yield Result(**json.loads(line))


def half_width(values: Sequence[float]) -> float:
    """Half the 95 % interval of a mean; Wilson's for shares (1927)."""
    count, z = len(values), 1.96
    if not set(values) <= {0.0, 1.0}:
        return z * stdev(values) / math.sqrt(count) if count > 1 else math.inf
    share = fmean(values)
    return z * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2) / (1 + z * z / count)


COLUMNS: dict[str, Callable[[Result], float | None]] = {
    "admitted": lambda one: one.admitted,
    "of those worse than the parent": lambda one: one.wrong,
    "share of the tried admitted": lambda one: one.admitted / one.tried,
    "any worse admitted": lambda one: float(one.wrong > 0),
    "rollouts": lambda one: one.rollouts,
    "gain": lambda one: one.gain,
    "best is worse than the parent": lambda one: float(one.gain < 0),
    "regret": lambda one: one.regret,
    "weight too high by": lambda one: one.error,
}


def tables(results: Sequence[Result]) -> str:
    """A table for each world, as Markdown: means with half the width of their 95 % intervals."""
    cells: defaultdict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        cells[result.world, result.design].append(result)
    lines: list[str] = []
    for world in dict.fromkeys(world for world, _ in cells):
        lines += ["", world, "", f"| design | n | {' | '.join(COLUMNS)} |"]
        lines += ["|---" * (len(COLUMNS) + 2) + "|"]
        for design in dict.fromkeys(name for place, name in cells if place == world):
            row = [design, str(len(cells[world, design]))]
            for value in COLUMNS.values():
                found = [value(one) for one in cells[world, design]]
                numbers = [float(one) for one in found if one is not None]
                digits = 0 if fmean(numbers or [0]) > 100 else 2
                row.append(
                    f"{fmean(numbers):.{digits}f} ± {half_width(numbers):.{digits}f}"
                    if numbers
                    else "-"
                )
            lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines)


def main() -> None:
    """Goes on with the replications, then prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--replications", type=int, default=400)
    parser.add_argument("--worlds", nargs="*", default=[world.name for world in WORLDS])
    parser.add_argument("--designs", nargs="*", default=[design.name for design in DESIGNS])
    parser.add_argument("--first", type=int, default=0, help="the first replication's seed")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    path = given.folder / "results.jsonl"
    known = {(one.world, one.design, one.seed) for one in read(path)}
    warnings.simplefilter("ignore")  # that nothing was admitted
    with path.open("a", encoding="utf-8") as file:
        for seed in range(given.first, given.first + given.replications):
            for world in (one for one in WORLDS if one.name in given.worlds):
                for design in (one for one in DESIGNS if one.name in given.designs):
                    if (world.name, design.name, seed) not in known:
                        found = replicate(world, design, seed)
                        file.write(json.dumps(asdict(found)) + "\n")
                        file.flush()
    print(tables(list(read(path))))


if __name__ == "__main__":
    main()

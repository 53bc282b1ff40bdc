"""What verification and pruning are worth over several generations: the real engine, simulated.

    python -m benchmarks.generations FOLDER --replications 200

An engine starts from one instruction and evolves again and again while it trains. A *world* says
how good children are beside their parent, how often a reward is wrong, and how large a step is. A
*design* says how the engine verifies and prunes. Each replication is appended to
``FOLDER/results.jsonl``; the same command goes on where it was stopped. The tables are made from
the file; differences to the first design are between replications of the same seed.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from scipy.stats import t

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
from evoprompt.verifiers import Unverified

MEAN, SPREAD = -1.24, 2.0
"""Difficulty of questions: mean and standard deviation, in logits."""
_NODES, _SHARES = np.polynomial.hermite_e.hermegauss(61)


@dataclass(frozen=True, slots=True)
class Design:
    """How an engine verifies and prunes.

    Attributes:
        name: in the table.
        settings: of ``EngineConfig``, where it is not the default preset.
        verifier: makes the verifier, where it is not the default preset's.
        blocks: whether each question is asked under five candidates once, instead of one five
            times.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    verifier: Callable[[], Verifier] | None = None
    blocks: bool = False


@dataclass(frozen=True, slots=True)
class World:
    """What is simulated.

    Attributes:
        name: in the table.
        children: mean and standard deviation of a child's effect beside its parent's, in logits.
        wrong: share of the rewards that are turned around.
        questions: of a step, with five rollouts each.
        steps: of a replication; with ``budget`` only the most.
        evolve_every: steps from one evolution to the next; there is none in the last of these.
        prune_every: steps from one pruning to the next.
        drift: by which every question gets easier per step, in logits.
        budget: rollouts after which a replication ends, verification included; 0 for no end.
        designs: that are compared.
    """

    name: str
    children: tuple[float, float]
    wrong: float = 0.0
    questions: int = 16
    steps: int = 75
    evolve_every: int = 15
    prune_every: int = 5
    drift: float = 0.02
    budget: int = 0
    designs: tuple[Design, ...] = ()


NEVER = {"prune_every": None}
PLACES = {"population_size": 19}
ABLATIONS = (
    Design("default"),
    Design("no pruning", NEVER),
    Design("unverified", verifier=Unverified),
    Design("neither", NEVER, Unverified),
)
PAPER = {"preset": "inspo"}
OF_THE_PAPER = (
    Design("inspo", PAPER),
    Design("no pruning", {**PAPER, **NEVER}),
    Design("unverified", PAPER, Unverified),
    Design("neither", {**PAPER, **NEVER}, Unverified),
)
ROLLOUTS = (
    Design("default"),
    *(Design(f"{n} questions", {"verify_questions": n}) for n in (25, 50, 100, 400)),
    Design("50 questions, every 40 steps", {"verify_questions": 50, "evolve_every": 40}),
    Design("race", verifier=lambda: Race(200)),
    Design("unverified", verifier=Unverified),
)
LARGE = (
    Design("default"),
    *(Design(f"{n} questions", {"verify_questions": n}) for n in (25, 50, 100, 400)),
    Design("race", verifier=lambda: Race(200)),
    Design("unverified", verifier=Unverified),
)
MIXED, HARMFUL = (-0.1, 0.3), (-0.8, 0.5)
"""Of the children .63 and .95 are worse than their parent."""
WORLDS = (
    World("mixed", MIXED, designs=ABLATIONS),
    World("mixed, noisy", MIXED, wrong=0.3, designs=ABLATIONS),
    World("harmful", HARMFUL, designs=ABLATIONS),
    World("harmful, noisy", HARMFUL, wrong=0.3, designs=ABLATIONS),
    World("512 x 5, harmful, inspo", HARMFUL, 0, 512, 24, 6, 3, designs=OF_THE_PAPER),
    World("mixed, four evolutions", MIXED, designs=ROLLOUTS),
    World("16 x 5, mixed", MIXED, steps=250, drift=0, budget=20_000, designs=ROLLOUTS),
    World("16 x 5, harmful", HARMFUL, steps=250, drift=0, budget=20_000, designs=ROLLOUTS),
    World("512 x 5, mixed", MIXED, 0, 512, 24, 6, 3, designs=LARGE),
    World("512 x 5, harmful", HARMFUL, 0, 512, 24, 6, 3, designs=LARGE),
)


@dataclass(frozen=True, slots=True)
class Result:
    """One replication.

    Attributes:
        world: its name.
        design: its name.
        seed: of the replication.
        gain: by which the one with the highest weight is better than the first instruction at the
            end, in points of expected reward (before any is turned around).
        training: by which the rollouts of training were better than under the first instruction.
        rollouts: of verification, in all evolutions.
    """

    world: str
    design: str
    seed: int
    gain: float
    training: float
    rollouts: int


class Nature(Proposer):
    """Writes children and answers questions, both by chance.

    Args:
        world: how good children are.
        seed: of the replication.
    """

    def __init__(self, world: World, seed: int) -> None:
        nature = np.random.default_rng([seed, 0])
        mean, spread = world.children
        self.leads = mean + spread * nature.standard_normal(1000)
        self.ease = nature.standard_normal(world.steps * world.questions)
        self.effects = [0.0]
        self.rng = np.random.default_rng([seed, 1])
        self.world = world
        self.step = 0

    @property
    def drift(self) -> float:
        """By which questions are easier now than at the start, in logits."""
        return self.world.drift * self.step

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Children of the first parent."""
        parent = self.effects[_number(request.parents[0].candidate.text)]
        first = len(self.effects)
        self.effects += [parent + float(self.leads[first + n]) for n in range(request.count)]
        return [Proposal.of(f"Instruction number {first + n}.") for n in range(request.count)]

    def chances(self, assignments: Sequence[Assignment], effects: np.ndarray) -> np.ndarray:
        """How likely each is answered right under candidates of these effects."""
        own = effects[[_number(one.candidate.text) for one in assignments]]
        ease = self.ease[[int(one.question.id) for one in assignments]]
        found: np.ndarray = 1 / (1 + np.exp(-(MEAN + self.drift + SPREAD * ease + own)))
        return found

    def __call__(self, assignments: Sequence[Assignment], /) -> list[Trajectory]:
        """Rewards of 0 or 1."""
        chances = self.chances(assignments, np.array(self.effects))
        chances = chances + self.world.wrong * (1 - 2 * chances)
        most = max(one.rollouts for one in assignments)
        right = (self.rng.random((len(assignments), most)) < chances[:, None]).tolist()
        return [
            Trajectory(one, float(right[index][rollout]), rollout)
            for index, one in enumerate(assignments)
            for rollout in range(one.rollouts)
        ]

    def worth(self, number: int) -> float:
        """Expected share of right answers under a candidate now, in points, by quadrature."""
        logits = MEAN + self.drift + self.effects[number] + SPREAD * _NODES
        return float(100 * (_SHARES / (1 + np.exp(-logits))).sum() / _SHARES.sum())


def _number(text: str) -> int:
    return int(text.removeprefix("Instruction number ").removesuffix("."))


def replicate(world: World, design: Design, seed: int) -> Result:
    """Plays one engine through one world."""
    nature = Nature(world, seed)
    several = {"candidates_per_question": 5, "grouping": "question"} if design.blocks else {}
    config = EngineConfig(
        **{
            "evolve_every": world.evolve_every,
            "evolve_until": world.steps - world.evolve_every,
            "prune_every": world.prune_every,
            **several,
            **design.settings,
        }
    )
    engine = Engine(
        ["Instruction number 0."],
        proposer=nature,
        config=config,
        seed=seed,
        verifier=design.verifier() if design.verifier else None,
        rules=[],  # the texts say nothing
    )
    engine.budget = world.budget or None
    leads: list[float] = []
    while nature.step < world.steps and (engine.budget is None or engine.rollouts < engine.budget):
        step = nature.step
        first = step * world.questions
        questions = [Question(str(first + number), "Who?") for number in range(world.questions)]
        asked = engine.ask(questions, 1 if design.blocks else 5)
        effects = np.array(nature.effects)
        better = nature.chances(asked, effects) - nature.chances(asked, np.zeros(len(effects)))
        leads.append(100 * float(better.mean()))
        engine.tell(nature(asked))
        engine.evolve(nature)
        nature.step += 1
    gain = nature.worth(_number(engine.selection.leader.text)) - nature.worth(0)
    return Result(world.name, design.name, seed, gain, fmean(leads), engine.verification_rollouts)


def read(path: Path) -> Iterator[Result]:
    """The replications noted so far; a last line that was cut is passed over."""
    if path.exists():
        for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
            yield Result(**json.loads(line))


def mean(values: Sequence[float], digits: int = 2) -> str:
    """With half the width of its 95 % interval (Student's t)."""
    half, count = math.inf, len(values)
    if count > 1:
        half = float(t.ppf(0.975, count - 1)) * stdev(values) / math.sqrt(count)
    return f"{fmean(values):.{digits}f} ± {half:.{digits}f}"


def table(results: Sequence[Result], world: World) -> str:
    """One row per design, as Markdown."""
    more = f"more than {world.designs[0].name}"
    columns = f"n | gain | {more} | in training | {more} | verification"
    lines = [f"| {world.name} | {columns} |", "|---" * 7 + "|"]
    found = {
        design.name: {
            one.seed: one for one in results if (one.world, one.design) == (world.name, design.name)
        }
        for design in world.designs
    }
    usual = found[world.designs[0].name]
    for name, own in found.items():
        if not own:
            continue
        pairs = [(one, usual[seed]) for seed, one in own.items() if seed in usual]
        cells = [
            str(len(own)),
            mean([one.gain for one in own.values()]),
            mean([one.gain - other.gain for one, other in pairs]),
            mean([one.training for one in own.values()]),
            mean([one.training - other.training for one, other in pairs]),
            mean([one.rollouts for one in own.values()], 0),
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Goes on with the replications, then prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--worlds", nargs="*", default=[world.name for world in WORLDS])
    parser.add_argument("--designs", nargs="*", help="only these")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    path = given.folder / "results.jsonl"
    known = {(one.world, one.design, one.seed) for one in read(path)}
    warnings.simplefilter("ignore")  # that nothing was admitted
    worlds = [world for world in WORLDS if world.name in given.worlds]
    with path.open("a", encoding="utf-8") as file:
        for seed in range(given.first_seed, given.first_seed + given.replications):
            for world in worlds:
                for design in world.designs:
                    if (world.name, design.name, seed) in known:
                        continue
                    if given.designs is None or design.name in given.designs:
                        file.write(json.dumps(asdict(replicate(world, design, seed))) + "\n")
                        file.flush()
    results = list(read(path))
    print("\n\n".join(table(results, world) for world in worlds))


if __name__ == "__main__":
    main()

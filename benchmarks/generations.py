"""What verification and pruning are worth over several generations: the real engine, simulated.

    python -m benchmarks.generations FOLDER --replications 200

An engine starts from one instruction and evolves again and again while it trains. A *world* says
how good children are beside their parent, how often a reward is wrong, and how large a step is. A
*design* says how the engine verifies and prunes. Differences to the first design are between
replications of the same seed.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.simulation import Journal, Nature, mean, table, text_of
from evoprompt.roles import Verifier
from evoprompt.verifiers import Sequential, Unverified


@dataclass(frozen=True, slots=True)
class Design:
    """How an engine verifies and prunes.

    Attributes:
        name: in the table.
        settings: of ``EngineConfig``, where it is not the default preset.
        verifier: makes the verifier, where it is not the default preset's.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    verifier: Callable[[], Verifier] | None = None


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
    Design("sequential", verifier=lambda: Sequential(200)),
    Design("unverified", verifier=Unverified),
)
LARGE = (
    Design("default"),
    *(Design(f"{n} questions", {"verify_questions": n}) for n in (25, 50, 100, 400)),
    Design("sequential", verifier=lambda: Sequential(200)),
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


def replicate(world: World, design: Design, seed: int) -> Result:
    """Plays one engine through one world."""
    middle, spread = world.children
    leads = middle + spread * np.random.default_rng([seed, 2]).standard_normal(1000)
    nature = Nature(
        seed,
        lambda parent, number: parent + float(leads[number]),
        world.questions,
        world.steps,
        drift=world.drift,
        wrong=world.wrong,
    )
    settings = {
        "evolve_every": world.evolve_every,
        "evolve_until": world.steps - world.evolve_every,
        "prune_every": world.prune_every,
        **design.settings,
    }
    engine = nature.engine(seed, settings, design.verifier() if design.verifier else None)
    engine.budget = world.budget or None
    better: list[float] = []
    while nature.step < world.steps and (engine.budget is None or engine.rollouts < engine.budget):
        asked = engine.ask(nature.batch(), 5)
        effects = np.array(nature.effects)
        more = nature.chances(asked, effects) - nature.chances(asked, np.zeros(len(effects)))
        better.append(100 * float(more.mean()))
        engine.tell(nature(asked))
        engine.evolve(nature)
        nature.step += 1
    gain = nature.worth(engine.selection.leader.text) - nature.worth(text_of(0))
    return Result(world.name, design.name, seed, gain, fmean(better), engine.verification_rollouts)


def rows(results: Sequence[Result], world: World) -> Iterator[list[str]]:
    """One per design."""
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
        yield [
            name,
            str(len(own)),
            mean([one.gain for one in own.values()]),
            mean([one.gain - other.gain for one, other in pairs]),
            mean([one.training for one in own.values()]),
            mean([one.training - other.training for one, other in pairs]),
            mean([one.rollouts for one in own.values()], 0),
        ]


def main() -> None:
    """Goes on with the replications, then prints the tables."""
    journal = Journal(__doc__ or "", Result, ("world", "design", "seed"), 200)
    journal.parser.add_argument("--worlds", nargs="*", default=[world.name for world in WORLDS])
    journal.parser.add_argument("--designs", nargs="*", help="only these")

    def plan(given: Namespace, seed: int) -> Iterator[tuple[tuple[Any, ...], Callable[[], Result]]]:
        for world in (one for one in WORLDS if one.name in given.worlds):
            for design in world.designs:
                if given.designs is None or design.name in given.designs:
                    yield (world.name, design.name, seed), partial(replicate, world, design, seed)

    results = journal.run(plan)
    for world in (one for one in WORLDS if any(one.name == found.world for found in results)):
        more = f"more than {world.designs[0].name}"
        header = [world.name, "n", "gain", more, "in training", more, "verification"]
        print(table(header, rows(results, world)), end="\n\n")


if __name__ == "__main__":
    main()

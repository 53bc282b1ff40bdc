"""Who is admitted, how often wrongly, for how many rollouts: through the real engine, simulated.

    python -m benchmarks.verification FOLDER --replications 400

An engine trains one instruction for 30 steps of 16 questions with 5 rollouts, then evolves once. A
*world* says how good the proposed children are, in points of expected reward more than their parent
or in logits. A *design* says how they are verified. Replications of all designs meet the same
children.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.simulation import Journal, Nature, effect_of, mean, table, text_of
from evoprompt.roles import Verifier
from evoprompt.verifiers import Race, ReplayTopN

STEPS, DRIFT = 30, 0.03

WORLDS: Mapping[str, tuple[float, float]] = {
    **{
        name: (effect_of(lead, DRIFT * STEPS), 0.0)
        for name, lead in (
            ("worse by 8", -8.0),
            ("worse by 4.1", -4.1),
            ("worse by 1.4", -1.4),
            ("equal", 0.0),
            ("better by 5", 5.0),
        )
    },
    "mixed": (-0.1, 0.3),
}
"""Mean and standard deviation of the children's effects, in logits."""
EIGHTEEN = {"verify_rounds": 1, "proposals_per_round": 18}
DESIGNS: Mapping[str, tuple[Callable[[], Verifier], Mapping[str, Any]]] = {
    "replay-top-n": (lambda: ReplayTopN(200), {}),
    "race": (lambda: Race(200), {}),
    "race, error .6": (lambda: Race(200, 0.6), {}),
    "race, 400 questions, 18 children once": (lambda: Race(400), EIGHTEEN),
    "replay-top-n, 40 questions": (lambda: ReplayTopN(40), {}),
    "race, 40 questions": (lambda: Race(40), {}),
}
"""The verifier, and settings where they are not those of the default preset."""


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


def replicate(world: str, design: str, seed: int) -> Result:
    """Plays one engine through one world."""
    middle, spread = WORLDS[world]
    effects = middle + spread * np.random.default_rng([seed, 2]).standard_normal(1000)
    nature = Nature(seed, lambda _parent, number: float(effects[number]), 16, STEPS, drift=DRIFT)
    verifier, settings = DESIGNS[design]
    schedule = {"evolve_every": STEPS, "evolve_until": STEPS}
    engine = nature.engine(seed, {**schedule, **settings}, verifier())
    for nature.step in range(STEPS):
        engine.tell(nature(engine.ask(nature.batch(), 5)))
    nature.step = STEPS
    report = engine.evolve(nature)
    worth = [nature.worth(text_of(number)) for number in range(len(nature.effects))]
    born = [one for one in engine.candidate_stats() if one.candidate.proposer != "seed"]
    own = [nature.worth(one.candidate.text) for one in born]
    found = nature.worth(engine.selection.leader.text)
    return Result(
        world,
        design,
        seed,
        len(worth) - 1,
        len(born),
        sum(value < worth[0] for value in own),
        report.rollouts,
        found - worth[0],
        max(worth) - found,
        fmean(100 * s.weight - value for s, value in zip(born, own, strict=True)) if born else None,
    )


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


HITS = {"any worse admitted", "best is worse than the parent"}


def rows(results: Sequence[Result], world: str) -> Iterator[list[str]]:
    """One per design: means with half the width of their 95 % intervals."""
    for design in DESIGNS:
        if own := [one for one in results if (one.world, one.design) == (world, design)]:
            cells = []
            for name, value in COLUMNS.items():
                numbers = [number for one in own if (number := value(one)) is not None]
                cells.append(mean(numbers, are_hits=name in HITS))
            yield [design, str(len(own)), *cells]


def main() -> None:
    """Goes on with the replications, then prints a table for each world."""
    journal = Journal(__doc__ or "", Result, ("world", "design", "seed"), 400)
    journal.parser.add_argument("--worlds", nargs="*", default=WORLDS)
    journal.parser.add_argument("--designs", nargs="*", default=DESIGNS)

    def plan(given: Namespace, seed: int) -> Iterator[tuple[tuple[Any, ...], Callable[[], Result]]]:
        for world in given.worlds:
            for design in given.designs:
                yield (world, design, seed), partial(replicate, world, design, seed)

    results = journal.run(plan)
    for world in dict.fromkeys(one.world for one in results):
        print("", world, "", table(["design", "n", *COLUMNS], rows(results, world)), sep="\n")


if __name__ == "__main__":
    main()

"""Measure the gain of whole runs by their verification of new instructions, at equal rollouts.

    python -m benchmarks.whole_runs FOLDER --replications 24 --first-seed 5000
    python -m benchmarks.whole_runs FOLDER --questions 16 --rollouts 5000
    python -m benchmarks.whole_runs FOLDER --world restless --questions 16 --rollouts 12000

The real engine at its default settings starts from one instruction. Good ideas get rarer: a child
is worth its parent's effect, less three tenths of it, and N(m, .3) logits. Questions never come
twice. Noted are true values in points above the first instruction: of the one that is used at
the end (gain), of ``engine.best``, and of the rollouts of training on average. In the world
*restless* effects fade and walk, some questions are very hard, and the rollouts of a group share
their luck. The *oracle* writes as many candidates at the same steps, and always knows the best.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.simulation import Journal, Nature, RestlessNature, mean, number_of, table, text_of
from evoprompt.engine import Engine
from evoprompt.selectors import Deap

WORLDS = {"still": Nature, "restless": RestlessNature}
WRITERS = {"mixed": -0.1, "harmful": -0.4}
SIZES = {16: 20_000, 512: 100_000}
"""Rollouts of a run where none are given, by the questions of a step, with five rollouts each."""


@dataclass(frozen=True, slots=True)
class Design:
    """Design of a run.

    Attributes:
        settings: of the engine.
        pool: instructions that it starts from: the first one and children of it.
        blind: whether children are children of the first instruction, and not of their parent.
        at_random: whether sampler, survivors and parents are drawn evenly.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    pool: int = 1
    blind: bool = False
    at_random: bool = False


EXTRA: dict[str, Any] = {"accept": "not-worse", "prune_every": 5}
BASE = "one candidate, 200 questions"
"""What the others are compared with, seed by seed."""
DESIGNS: dict[str, Design] = {
    BASE: Design({**EXTRA, "candidates_per_question": 1}),
    "in training": Design(),
    "blocks, 50 questions": Design({**EXTRA, "verify_questions": 50}),
    "blocks, 200 questions, every 3 steps": Design({**EXTRA, "evolve_every": 3, "prune_every": 1}),
    "blocks, nothing verified": Design({"accept": "all"}),
    "inspo": Design({"preset": "inspo", "evolve_until": None}),
    "in training, one candidate": Design({"candidates_per_question": 1}),
    "random": Design({"accept": "all"}, at_random=True),
    "pool of 7": Design({"evolve_until": 0}, pool=7),
    "pool of 60": Design({"evolve_until": 0, "population_size": 60}, pool=60),
    "blind writer": Design(blind=True),
}


@dataclass(frozen=True, slots=True)
class Result:
    """One replication.

    Attributes:
        world: in which it is played.
        writer: how good the children are.
        questions: of a step.
        rollouts: of the whole run.
        design: how they are verified.
        seed: of the replication.
        gain: of the one that is used at the end.
        best: of the engine's best.
        training: of the rollouts of training.
        verification: share of the rollouts that verification took.
        generations: in which the writer was asked.
        worse: admitted candidates that are worse than the leader of that moment.
        oracle: gain of an oracle of the true values, with as many candidates.
    """

    world: str
    writer: str
    questions: int
    rollouts: int
    design: str
    seed: int
    gain: float
    best: float
    training: float
    verification: float
    generations: int
    worse: int
    oracle: float


def replicate(
    world: str, writer: str, questions: int, budget: int, design: str, seed: int
) -> Result:
    """Play one engine until its rollouts are spent."""
    leads = WRITERS[writer] + 0.3 * np.random.default_rng([seed, 2]).standard_normal(10_000)
    played = DESIGNS[design]
    inheritance = 0.0 if played.blind else 0.7

    def child(parent: float, number: int) -> float:
        return inheritance * parent + float(leads[number])

    steps = budget // (5 * questions) + 2
    nature = WORLDS[world](seed, child, questions, steps)
    roles = ("sampler", "survivor", "parent_selector") if played.at_random else ()
    engine = nature.engine(
        seed,
        played.settings,
        played.pool,
        **{role: Deap("random") for role in roles},
    )
    rollouts = engine.divide_rollouts(5, "rollouts")
    engine.budget = budget
    training: list[float] = []
    candidate_counts: list[int] = []
    worse = 0
    while engine.rollouts < budget:
        assignments = engine.ask(nature.batch(), rollouts)
        effects = np.array(nature.effects)
        chance_gains = nature.chances(assignments, effects) - nature.chances(
            assignments, np.zeros(len(effects))
        )
        training.append(100 * float(chance_gains.mean()))
        before, bar = list(engine.population.members), effects[number_of(used(engine))]
        engine.tell(nature(assignments))
        engine.evolve(nature)
        new = [
            number_of(member.text) for member in engine.population.members if member not in before
        ]
        worse += sum(bool(nature.effects[number] < bar) for number in new)
        candidate_counts.append(len(nature.effects))
        nature.advance()
    return Result(
        world,
        writer,
        questions,
        budget,
        design,
        seed,
        nature.worth(used(engine)) - nature.worth(text_of(0)),
        nature.worth(engine.best.text) - nature.worth(text_of(0)),
        fmean(training),
        engine.verification_rollouts / engine.rollouts,
        engine.generation_stats.generations,
        worse,
        informed_gain(WORLDS[world](seed, child, questions, steps), candidate_counts),
    )


def informed_gain(nature: Nature, candidate_counts: list[int]) -> float:
    """Return the gain of an oracle, in points.

    Args:
        nature: a fresh world.
        candidate_counts: number of candidates that exist after each step.
    """
    for count in candidate_counts:
        parent = max(nature.effects)
        first = len(nature.effects)
        nature.effects += [nature.child(parent, number) for number in range(first, count)]
        nature.advance()
    best = int(np.argmax(nature.effects))
    return nature.worth(text_of(best)) - nature.worth(text_of(0))


def used(engine: Engine) -> str:
    """Return the text of the incumbent, with which candidates on trial are compared."""
    return engine.selection.incumbent.text


def main() -> None:
    """Run the missing replications, then print a table."""
    key = ("world", "writer", "questions", "rollouts", "design", "seed")
    journal = Journal(__doc__ or "", Result, key, 24)
    journal.parser.add_argument("--questions", nargs="*", type=int, default=list(SIZES))
    journal.parser.add_argument("--rollouts", type=int, help="of a whole run")
    journal.parser.add_argument("--world", choices=list(WORLDS), default="still")
    journal.parser.add_argument("--designs", nargs="*", default=list(DESIGNS))

    def plan(
        arguments: Namespace, seed: int
    ) -> Iterator[tuple[tuple[Any, ...], Callable[[], Result]]]:
        for questions in arguments.questions:
            rollouts = arguments.rollouts or SIZES[questions]
            for writer in WRITERS:
                for design in arguments.designs:
                    names = arguments.world, writer, questions, rollouts, design
                    yield (*names, seed), partial(replicate, *names, seed)

    results = journal.run(plan)
    groups: dict[tuple[str, str, int, int, str], list[Result]] = {}
    for result in results:
        cell = result.world, result.writer, result.questions, result.rollouts
        groups.setdefault((*cell, result.design), []).append(result)
    rows = []
    for (world, writer, questions, rollouts, design), cell_results in sorted(groups.items()):
        base = groups.get((world, writer, questions, rollouts, BASE), [])
        gained = {result.seed: result.gain for result in base}
        generations = sum(result.generations for result in cell_results)
        rows.append(
            [
                f"{world}, {writer}, {questions}, {rollouts:,}",
                design,
                str(len(cell_results)),
                mean([result.gain for result in cell_results]),
                mean(
                    [
                        result.gain - gained[result.seed]
                        for result in cell_results
                        if result.seed in gained
                    ]
                ),
                mean([result.best for result in cell_results]),
                mean([result.oracle for result in cell_results]),
                mean([result.training for result in cell_results]),
                mean([result.verification for result in cell_results]),
                f"{sum(result.worse for result in cell_results) / (generations or 1):.2f}",
            ]
        )
    header = [
        "world",
        "verified",
        "n",
        "gain",
        "more",
        "best",
        "oracle",
        "training",
        "share",
        "worse",
    ]
    print(table(header, rows))


if __name__ == "__main__":
    main()

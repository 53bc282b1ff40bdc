"""What it costs that the writer takes its time: the real engine at the paper's size, simulated.

    python -m benchmarks.asked_when FOLDER --replications 32

A child's true reward is its parent's plus N(0, .03), and a step has 512 questions with five
rollouts each, told as one with their mean reward: questions are alike here, and this is five times
as fast. The writer answers so many steps after it was asked, by a clock that counts the
engine's steps, while training goes on; or training waits for it, for no time at all. Differences
are to the run of the same seed in which training waited, whose children have the same leads.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any

import numpy as np

from benchmarks.simulation import Journal, mean, number_of, table, text_of
from evoprompt import (
    Assignment,
    Engine,
    EngineConfig,
    Proposal,
    ProposalRequest,
    Question,
    Trajectory,
)
from evoprompt.config import Preset
from evoprompt.roles import Proposer

STEPS, QUESTIONS, ROLLOUTS = 150, 512, 5
START, SPREAD = 0.3, 0.03
"""True reward of the first instruction, and standard deviation of a child's beside its parent's."""
WAITS = -1
"""Stands for a latency where training waits."""
LATENCIES = (WAITS, 0, 1, 5, 20)
PRESETS: tuple[Preset, ...] = ("default", "inspo")
_LEADS = 5_000


@dataclass(frozen=True, slots=True)
class Result:
    """One run.

    Attributes:
        preset: of the engine.
        latency: of the writer in steps, or ``WAITS``.
        seed: of the run.
        leader: true reward of the one with the highest weight at the end.
        best: the same of the engine's best, who is shown to be better than the first.
        training: mean true reward of the rollouts of training.
        rounds: that brought children.
        dead: rounds whose children descend from one who was dead by then.
        asked: requests to the writer.
        rollouts: of verification.
    """

    preset: Preset
    latency: int
    seed: int
    leader: float
    best: float
    training: float
    rounds: int
    dead: int
    asked: int
    rollouts: int


class Nature(Proposer):
    """Writes children and rolls out, both by chance.

    Args:
        seed: of the run.
    """

    def __init__(self, seed: int) -> None:
        nature = np.random.default_rng([seed, 0])
        self.leads = (SPREAD * nature.standard_normal(_LEADS)).tolist()
        self.rng = np.random.default_rng([seed, 1])
        self.worth = [START]
        self.asked = 0

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """Children of the first parent."""
        self.asked += 1
        return self.children(request)

    def children(self, request: ProposalRequest) -> Sequence[Proposal]:
        """As many children of the first parent as asked for."""
        parent = request.parents[0].candidate
        made: list[Proposal] = []
        for _ in range(request.count):
            number = len(self.worth)
            self.worth.append(self.worth[number_of(parent.text)] + self.leads[number])
            made.append(Proposal.of(text_of(number), parent))
        return made

    def __call__(self, assignments: Sequence[Assignment], /) -> list[Trajectory]:
        """Mean rewards of five rollouts in training, and of one in a verification."""
        chances = [self.worth[number_of(one.candidate.text)] for one in assignments]
        often = [ROLLOUTS if one.purpose == "train" else 1 for one in assignments]
        right = self.rng.binomial(often, chances) / often
        return [
            Trajectory(one, reward) for one, reward in zip(assignments, right.tolist(), strict=True)
        ]


class Writer(Proposer):
    """Answers so many of the engine's steps after it was asked.

    Args:
        nature: writes the children.
        latency: in steps.

    Attributes:
        step: the clock.
    """

    def __init__(self, nature: Nature, latency: int) -> None:
        self.nature = nature
        self.latency = latency
        self.step = 0
        self.request: ProposalRequest | None = None

    @property
    def ready(self) -> bool:
        """Whether the answer has come."""
        return self.request is not None and self.step >= self.request.step + self.latency

    def anticipate(self, request: ProposalRequest) -> None:
        """Starts to think; forgets what it thought before."""
        self.nature.asked += 1
        self.request = request

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """What it was asked for before."""
        if not self.ready or self.request is None:
            raise RuntimeError("asked for an answer before it has come")
        ahead, self.request = self.request, None
        return self.nature.children(ahead)


def play(preset: Preset, latency: int, seed: int) -> Result:
    """One training."""
    nature = Nature(seed)
    writer = None if latency == WAITS else Writer(nature, latency)
    proposer: Proposer = nature if writer is None else writer
    engine = Engine(
        [text_of(0)],
        proposer=proposer,
        config=EngineConfig(preset=preset),
        seed=seed,
        rules=[],  # the texts say nothing
    )
    engine.waits = False
    training: list[float] = []
    rounds = dead = 0
    for step in range(STEPS):
        if engine.evolution_due:
            living = {one.id for one in engine.population.alive}
            admitted = engine.evolve(nature).admitted
            born = [one for one in engine.population.alive if one.id in admitted]
            rounds += bool(born)
            dead += any(not living.issuperset(one.parents) for one in born)
        first = step * QUESTIONS
        asked = engine.ask(
            [Question(str(first + number), "Who?") for number in range(QUESTIONS)], rollouts=1
        )
        training.append(fmean(nature.worth[number_of(one.candidate.text)] for one in asked))
        told = nature(asked)
        if writer is not None:
            writer.step = step + 1
        engine.tell(told)
    leader, best = (
        nature.worth[number_of(one.text)] for one in (engine.selection.leader, engine.best)
    )
    spent = engine.verification_rollouts
    trained = fmean(training)
    return Result(preset, latency, seed, leader, best, trained, rounds, dead, nature.asked, spent)


MEASURES = {
    "leader": "highest weight at the end",
    "best": "best at the end",
    "training": "training",
}
COUNTS = {"rounds": 1, "dead": 1, "asked": 1, "rollouts": 0}
"""Digits of each."""


def rows(results: Sequence[Result], preset: Preset) -> Iterator[list[str]]:
    """One per latency."""
    waited = {one.seed: one for one in results if (one.preset, one.latency) == (preset, WAITS)}
    for latency in LATENCIES:
        own = [one for one in results if (one.preset, one.latency) == (preset, latency)]
        if not own:
            continue
        cells = ["waits" if latency == WAITS else f"{latency} steps", str(len(own))]
        for name in MEASURES:
            less = [
                getattr(waited[one.seed], name) - getattr(one, name)
                for one in own
                if one.seed in waited
            ]
            cells += [mean([getattr(one, name) for one in own], 3), mean(less, 3)]
        for name, digits in COUNTS.items():
            cells.append(f"{fmean(getattr(one, name) for one in own):,.{digits}f}")
        yield cells


def main() -> None:
    """Goes on with the runs, then prints the tables."""
    journal = Journal(__doc__ or "", Result, ("preset", "latency", "seed"), 32)
    journal.parser.add_argument("--presets", nargs="*", default=PRESETS)
    journal.parser.add_argument("--latencies", nargs="*", type=int, default=LATENCIES)

    def plan(given: Namespace, seed: int) -> Iterator[tuple[tuple[Any, ...], Callable[[], Result]]]:
        for preset in given.presets:
            for latency in given.latencies:
                yield (preset, latency, seed), partial(play, preset, latency, seed)

    results = journal.run(plan)
    measures = [cell for name in MEASURES.values() for cell in (name, "less than waiting")]
    counts = ["rounds", "of a dead parent", "requests", "verification"]
    for preset in PRESETS:
        print(table([preset, "n", *measures, *counts], rows(results, preset)), end="\n\n")


if __name__ == "__main__":
    main()

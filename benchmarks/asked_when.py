"""What it costs that the writer takes its time: the engine at the paper's size, simulated.

    python -m benchmarks.asked_when FOLDER --replications 32

A child's true reward is its parent's plus N(0, .03), and a step has 512 questions with five
rollouts each, told as one with their mean reward: questions are alike here, and this is five times
as fast. The writer answers so many steps after it was asked, while training goes on; or training
waits for it. Losses are to the run of the same seed in which training waited, whose children have
the same leads.
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
    Proposer,
    Question,
    Trajectory,
)
from evoprompt.config import Preset

STEPS, QUESTIONS, ROLLOUTS = 150, 512, 5
START, SPREAD = 0.3, 0.03
"""True reward of the first instruction, and standard deviation of a child's beside its parent's."""
WAITS = -1
"""Stands for a latency where training waits."""


@dataclass(frozen=True, slots=True)
class Result:
    """One run: true rewards.

    Attributes:
        preset: of the engine.
        latency: of the writer in steps, or ``WAITS``.
        seed: of the run.
        leader: of the one with the highest weight at the end.
        best: of the engine's best, who is shown to be better than the first.
        training: mean over the rollouts of training.
    """

    preset: Preset
    latency: int
    seed: int
    leader: float
    best: float
    training: float


class Writer(Proposer):
    """Writes children and rolls out, both by chance.

    Args:
        seed: of the run.
        latency: in steps, or ``WAITS``.

    Attributes:
        step: the clock.
    """

    def __init__(self, seed: int, latency: int) -> None:
        self.leads = SPREAD * np.random.default_rng([seed, 0]).standard_normal(5_000)
        self.rng = np.random.default_rng([seed, 1])
        self.latency = latency
        self.worth = [START]
        self.step = 0
        self.ahead: ProposalRequest | None = None

    @property
    def anticipates(self) -> bool:
        """Whether it thinks ahead."""
        return self.latency != WAITS

    @property
    def ready(self) -> bool:
        """Whether the answer has come."""
        if self.latency == WAITS:
            return True
        return self.ahead is not None and self.step >= self.ahead.step + self.latency

    def anticipate(self, request: ProposalRequest) -> None:
        """Starts to think; forgets what it thought before."""
        self.ahead = request

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """As many children of the first parent as it was asked for, before or now."""
        request, self.ahead = self.ahead or request, None
        parent, first = request.parents[0].candidate, len(self.worth)
        numbers = range(first, first + request.count)
        before = self.worth[number_of(parent.text)]
        self.worth += [before + float(self.leads[number]) for number in numbers]
        return [Proposal.of(text_of(number), parent) for number in numbers]

    def __call__(self, assignments: Sequence[Assignment], /) -> list[Trajectory]:
        """Mean rewards of five rollouts in training, and of one in a verification."""
        chances = [self.worth[number_of(one.candidate.text)] for one in assignments]
        often = [ROLLOUTS if one.purpose == "train" else 1 for one in assignments]
        right = (self.rng.binomial(often, chances) / often).tolist()
        return [Trajectory(one, reward) for one, reward in zip(assignments, right, strict=True)]


def play(preset: Preset, latency: int, seed: int) -> Result:
    """One training."""
    writer = Writer(seed, latency)
    config = EngineConfig(preset=preset)
    engine = Engine([text_of(0)], proposer=writer, config=config, seed=seed, rules=[])
    engine.waits = False
    training: list[float] = []
    for step in range(STEPS):
        engine.evolve(writer)
        batch = range(step * QUESTIONS, (step + 1) * QUESTIONS)
        asked = engine.ask([Question(str(number), "Who?") for number in batch], rollouts=1)
        training.append(fmean(writer.worth[number_of(one.candidate.text)] for one in asked))
        told = writer(asked)
        writer.step = step + 1
        engine.tell(told)
    leader, best = (
        writer.worth[number_of(one.text)] for one in (engine.selection.leader, engine.best)
    )
    return Result(preset, latency, seed, leader, best, fmean(training))


MEASURES = {
    "leader": "highest weight at the end",
    "best": "best at the end",
    "training": "training",
}


def main() -> None:
    """Goes on with the runs, then prints the table."""
    journal = Journal(__doc__ or "", Result, ("preset", "latency", "seed"), 32)
    journal.parser.add_argument("--presets", nargs="*", default=["default", "inspo"])
    journal.parser.add_argument("--latencies", nargs="*", type=int, default=[0, 1, 5, 20])

    def plan(given: Namespace, seed: int) -> Iterator[tuple[tuple[Any, ...], Callable[[], Result]]]:
        for preset in given.presets:
            for latency in (WAITS, *given.latencies):
                yield (preset, latency, seed), partial(play, preset, latency, seed)

    found: dict[tuple[str, int], dict[int, Result]] = {}
    for one in journal.run(plan):
        found.setdefault((one.preset, one.latency), {})[one.seed] = one

    def rows() -> Iterator[list[str]]:
        for (preset, latency), own in sorted(found.items()):
            cells = [preset, "waits" if latency == WAITS else f"{latency} steps", str(len(own))]
            waited = found[preset, WAITS]
            for name in MEASURES:
                losses = [getattr(waited[n], name) - getattr(own[n], name) for n in own]
                cells += [mean([getattr(one, name) for one in own.values()], 3), mean(losses, 3)]
            yield cells

    measures = [cell for name in MEASURES.values() for cell in (name, "less than waiting")]
    print(table(["preset", "answer after", "n", *measures], rows()))


if __name__ == "__main__":
    main()

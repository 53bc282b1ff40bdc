"""How often the engine's best is better than the first instruction, or only lucky, by simulation.

    python -m benchmarks.best --replications 200

The real engine at its default settings starts from one instruction. Every sixth proposal is better
than that one by a *lead*, in points of expected reward; the others are worth what their parent is.
For each replication it is noted whether the best at the end is better (found), or was called so and
is not (wrong); and the same of the candidate with the highest weight.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.selection import interval
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

MEAN, SPREAD = -1.24, 2.0
"""Difficulty of questions: mean and standard deviation, in logits."""
_NODES, _SHARES = np.polynomial.hermite_e.hermegauss(61)


@dataclass(slots=True)
class World(Proposer):
    """Writes suffixes and answers questions.

    Attributes:
        lead: of the better ones, in points; 0 where no instruction matters.
        questions: of a step, with five rollouts each.
        pool: number of questions there are; 0 where none comes twice.
        rng: draws questions and rewards.
        better: texts that are better.
        written: number of proposals so far.
    """

    lead: float
    questions: int
    pool: int
    rng: np.random.Generator
    better: set[str] = field(default_factory=set)
    written: int = 0

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        """The parent with a suffix, which helps in every sixth."""
        parent = request.parents[0].candidate.text
        found = []
        for _ in range(request.count):
            text = f"{parent.split(' Note')[0]} Note {self.written}."
            if self.lead and (parent in self.better or self.written % 6 == 0):
                self.better.add(text)
            self.written += 1
            found.append(Proposal.of(text))
        return found

    def ask(self, step: int) -> list[Question]:
        """The questions of a step."""
        if self.pool:
            drawn = self.rng.choice(self.pool, self.questions, replace=False).tolist()
        else:
            drawn = range(step * self.questions, (step + 1) * self.questions)
        return [Question(f"q{number}", "Who?") for number in drawn]

    def __call__(self, assignments: Sequence[Assignment], /) -> list[Trajectory]:
        """Rewards of 0 or 1."""
        ease = [_ease(one.question.id) for one in assignments]
        effects = [_logits(self.lead) * (one.candidate.text in self.better) for one in assignments]
        chances = 1 / (1 + np.exp(-(MEAN + SPREAD * np.array(ease) + np.array(effects))))
        most = max(one.rollouts for one in assignments)
        right = (self.rng.random((len(assignments), most)) < chances[:, None]).tolist()
        return [
            Trajectory(one, float(right[index][rollout]), rollout)
            for index, one in enumerate(assignments)
            for rollout in range(one.rollouts)
        ]


_EASE: dict[str, float] = {}
_EFFECTS: dict[float, float] = {0.0: 0.0}


def _ease(question: str) -> float:
    if question not in _EASE:
        _EASE[question] = float(np.random.default_rng(int(question[1:])).standard_normal())
    return _EASE[question]


def _logits(lead: float) -> float:
    """The effect that brings so many points, by bisection."""
    if lead not in _EFFECTS:
        low, high = 0.0, 10.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if _points(middle) < _points(0) + lead else (low, middle)
        _EFFECTS[lead] = low
    return _EFFECTS[lead]


def _points(effect: float) -> float:
    chances = 1 / (1 + np.exp(-(MEAN + effect + SPREAD * _NODES)))
    return float(100 * (_SHARES * chances).sum() / _SHARES.sum())


def replicate(
    lead: float, questions: int, pool: int, steps: int, seed: int, settings: dict[str, Any]
) -> tuple[bool, bool, bool, bool]:
    """Found and wrong, of the best and of the one with the highest weight."""
    world = World(lead, questions, pool, np.random.default_rng([seed, questions, pool]))
    config = EngineConfig(**settings)
    engine = Engine(["Answer."], proposer=world, config=config, seed=seed)
    for step in range(steps):
        engine.tell(world(engine.ask(world.ask(step), 5 // config.candidates_per_question)))
        engine.evolve(world)
    found = []
    for one in (engine.best, engine.selection.leader):
        good = one.text in world.better
        found += [good, not good and one.id != "c0"]
    return found[0], found[1], found[2], found[3]


def main() -> None:
    """Prints a row for each world."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--replications", type=int, default=200)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--leads", type=float, nargs="*", default=[0, 8, 15])
    parser.add_argument("--questions", type=int, nargs="*", default=[16, 512])
    parser.add_argument("--pools", type=int, nargs="*", default=[0, 100])
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--preset", default="default")
    parser.add_argument("--blocks", action="store_true", help="each question under five candidates")
    given = parser.parse_args()
    blocks = {"candidates_per_question": 5, "grouping": "question"} if given.blocks else {}
    settings = {"preset": given.preset, **blocks}
    warnings.simplefilter("ignore")
    print("| lead | questions | there are | best: found | wrong | highest weight: found | wrong |")
    print("|---" * 7 + "|")
    for lead in given.leads:
        for questions in given.questions:
            for pool in (one for one in given.pools if not one or one >= questions):
                results = [
                    replicate(lead, questions, pool, given.steps, seed, settings)
                    for seed in range(given.first_seed, given.first_seed + given.replications)
                ]
                cells = [
                    "{:.3f} ({:.3f} ± {:.3f})".format(sum(hits) / len(hits), *interval(hits))
                    for hits in zip(*results, strict=True)
                ]
                row = [f"{lead:g}", str(questions), str(pool or "no end"), *cells]
                print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()

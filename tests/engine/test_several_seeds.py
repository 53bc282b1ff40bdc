"""Several seeds compete: none is dropped before it was measured, and the best one wins."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field, replace

import pytest

from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.roles import ProposalRequest, Proposer, Verifier
from evoprompt.types import Assignment, Candidate, Proposal, Question, Trajectory
from evoprompt.verifiers import InTraining, ReplayTopN, Unverified

RUNS = 6
STEPS = 60
SEEDS = [f"Seed {number}." for number in range(7)]
BASE, LEAD = 0.4, 0.2


@dataclass
class Competition(Proposer):
    """A training on 16 questions a step in which one of seven seeds is better by LEAD.

    Its proposals copy their parent under another number and have the same chance of a reward.
    """

    seed: int
    written: int = 0
    best_seed: str = field(init=False)
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.best_seed = self.rng.choice(SEEDS)

    def propose(self, request: ProposalRequest) -> list[Proposal]:
        parent = request.parents[0].candidate
        first, self.written = self.written + 1, self.written + request.count
        return [
            Proposal.of(f"{self.origin(parent)} Note {number}.", parent)
            for number in range(first, self.written + 1)
        ]

    def origin(self, candidate: Candidate) -> str:
        return " ".join(candidate.text.split()[:2])

    def is_good(self, candidate: Candidate) -> bool:
        return self.origin(candidate) == self.best_seed

    def roll(self, assignments: list[Assignment]) -> list[Trajectory]:
        return [
            Trajectory(
                one, float(self.rng.random() < BASE + LEAD * self.is_good(one.candidate)), place
            )
            for one in assignments
            for place in range(one.rollouts)
        ]

    def train(self, engine: Engine, first: int, steps: int) -> None:
        for step in range(first, first + steps):
            engine.evolve(lambda assignments: self.roll(list(assignments)))
            batch = [Question(f"q{16 * step + number}", "Who?") for number in range(16)]
            engine.tell(self.roll(engine.ask(batch, 1)))


def competition(seed: int) -> tuple[Competition, Engine]:
    race = Competition(seed)
    engine = Engine(SEEDS, proposer=race, config=EngineConfig(), seed=seed, rules=[])
    assert engine.divide_rollouts(5, "num_generations") == 1
    return race, engine


def test_the_first_generation_prunes_no_seed() -> None:
    race, engine = competition(0)
    for step in range(20):
        if engine.generation_stats.generations:
            break
        race.train(engine, step, 1)
    assert engine.generation_stats.generations == 1
    assert [one.text for one in engine.population.members] == SEEDS


def test_the_better_seed_survives_and_becomes_the_best() -> None:
    survived = found = 0
    for seed in range(RUNS):
        race, engine = competition(seed)
        race.train(engine, 0, STEPS)
        survived += race.best_seed in [one.text for one in engine.population.members]
        found += race.is_good(engine.best)
        assert engine.best.id in engine.population
    assert survived >= 5
    assert found >= 5  # of 6; by chance .9


def test_seeds_make_room_for_admitted_candidates_the_worst_first() -> None:
    class Improving(Competition):
        """Each proposal is better than all seeds."""

        def is_good(self, candidate: Candidate) -> bool:
            return "Note" in candidate.text or super().is_good(candidate)

        def roll(self, assignments: list[Assignment]) -> list[Trajectory]:
            trajectories = super().roll(assignments)
            return [
                replace(one, reward=0.0) if one.candidate.text == SEEDS[-1] else one
                for one in trajectories
            ]

    race = Improving(3)
    assert race.best_seed not in (SEEDS[0], SEEDS[-1])
    engine = Engine(SEEDS, proposer=race, config=EngineConfig(), seed=3, rules=[])
    engine.divide_rollouts(5, "num_generations")
    for step in range(60):
        race.train(engine, step, 1)
        if engine.generation_stats.admitted_total:
            break
    pruned = [event["candidates"] for event in engine.log if event["event"] == "pruned"]
    assert pruned == [["c6"]]
    assert len(engine.population.members) == len(SEEDS)


@pytest.mark.parametrize("verifier", [InTraining, ReplayTopN, Unverified])
@pytest.mark.parametrize("candidates", [1, 5])
@pytest.mark.parametrize("seeds", [1, 2, 7])
def test_every_verifier_keeps_seeds_until_they_are_measured(
    seeds: int, candidates: int, verifier: type[Verifier]
) -> None:
    race = Competition(5)
    config = EngineConfig(candidates_per_question="auto" if candidates > 1 else 1)
    engine = Engine(
        SEEDS[:seeds], proposer=race, config=config, seed=5, rules=[], verifier=verifier()
    )
    rollouts = engine.divide_rollouts(5, "num_generations", several=candidates > 1)
    groups: Counter[str] = Counter()
    for step in range(30):
        engine.evolve(lambda assignments: race.roll(list(assignments)))
        pruned = {name for event in engine.log for name in event.get("candidates", ())}
        too_soon = [f"c{n}" for n in range(seeds) if f"c{n}" in pruned and groups[f"c{n}"] < 12]
        assert too_soon == []
        batch = [Question(f"q{16 * step + number}", "Who?") for number in range(16)]
        assignments = engine.ask(batch, rollouts)
        assert len(assignments) * rollouts == 16 * 5
        groups += Counter(assignment.candidate.id for assignment in assignments)
        engine.tell(race.roll(assignments))
        assert engine.best.id in engine.population
        assert len(engine.population.members) <= 7
    assert min(groups[f"c{n}"] for n in range(seeds)) >= 12
    assert engine.generation_stats.generations >= 1

"""Who is the engine's best: whoever is shown to be better than the first instruction."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from evoprompt import Proposer
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.roles import ProposalRequest
from evoprompt.types import Assignment, Proposal, Question, Trajectory

FIRST = "Answer the question."


class Suffixes(Proposer):
    """Writes the parent with another suffix, numbered, and a policy that none of them helps."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = random.Random(seed)
        self.written = 0
        self.logits: dict[str, float] = {}

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        parent = request.parents[0].candidate
        return [self.next(parent.text) for _ in range(request.count)]

    def next(self, parent: str) -> Proposal:
        self.written += 1
        return Proposal.of(f"{parent.split(' Note')[0]} Note {self.written - 1}.")

    def __call__(self, assignments: Sequence[Assignment], /) -> list[Trajectory]:
        return [
            Trajectory(one, float(self.rng.random() < self.chance(one)), rollout)
            for one in assignments
            for rollout in range(one.rollouts)
        ]

    def chance(self, assignment: Assignment) -> float:
        """Of a right answer: questions differ by far more than instructions."""
        name = assignment.question.id
        if name not in self.logits:
            self.logits[name] = random.Random(name).gauss(-1.2, 2.0)
        return 1 / (1 + math.exp(-self.logits[name]))


def begin(world: Suffixes, *seeds: str, seed: int = 0, preset: str = "default") -> Engine:
    """An engine as a user gets it."""
    config = EngineConfig.model_validate({"preset": preset})
    return Engine(seeds or [FIRST], proposer=world, config=config, seed=seed)


def train(engine: Engine, world: Suffixes, steps: int, questions: int = 16) -> Engine:
    """Steps of new questions, with five rollouts each."""
    for _ in range(steps):
        names = [f"{engine.step} {number}" for number in range(questions)]
        engine.tell(world(engine.ask([Question(name, "Who?") for name in names], 5)))
        engine.evolve(world)
    return engine


@pytest.mark.parametrize("preset", ["default", "inspo"])
class TestWhereNoInstructionMatters:
    """The rate is 0 of 50 at 60 steps; see docs/selection.md."""

    def test_a_random_suffix_leads_and_is_not_the_best(self, preset: str) -> None:
        leaders, wrong = 0, 0
        for seed in range(3):
            world = Suffixes(seed=seed)
            engine = train(begin(world, seed=seed, preset=preset), world, 31)
            leaders += engine.selection.leader.text != FIRST
            wrong += engine.best.text != FIRST
        assert leaders == 3
        assert wrong <= 1

    def test_the_first_is_the_best_though_it_is_dead_and_this_is_said(self, preset: str) -> None:
        world = Suffixes(seed=1)
        engine = train(begin(world, seed=1, preset=preset), world, 45)
        assert "c0" not in engine.population
        assert engine.best.id == "c0"
        leader = engine.selection.leader.id
        assert engine.best_statement() == (
            f"{leader} has the highest weight, but is not distinguishable from the first "
            "instruction, c0, which stays the best"
        )
        assert [one["candidate"] for one in engine.log if one["event"] == "best"] == ["c0"]


class Adapting(Suffixes):
    """A policy that comes to need what it was trained under, and is no better for it at first."""

    def chance(self, assignment: Assignment) -> float:
        learnt = max(int(assignment.question.id.split()[0]) - 20, 0) / 20
        effect = min(learnt, 2.0) if assignment.candidate.id != "c0" else 0.0
        return 1 / (1 + math.exp(0.5 - effect))


class TestADeadChampion:
    def test_is_asked_again_and_loses_to_those_the_policy_has_grown_used_to(self) -> None:
        world = Adapting()
        engine, dead = begin(world), []
        for _ in range(61):
            names = [f"{engine.step} {number}" for number in range(16)]
            engine.tell(world(engine.ask([Question(name, "Who?") for name in names], 5)))
            engine.evolve(world)
            if engine.best.id == "c0" and "c0" not in engine.population:
                dead.append(engine.step)
        assert dead
        assert engine.best.id != "c0"

    def test_costs_as_many_rollouts_as_a_verification_has_questions_at_most(self) -> None:
        world = Suffixes(seed=1)
        engine = train(begin(world, seed=1), world, 29)
        assert "c0" not in engine.population
        asked: list[Assignment] = []
        calls: list[int] = []

        def rollout(assignments: Sequence[Assignment], /) -> list[Trajectory]:
            asked.extend(assignments)
            calls.append(len(assignments))
            return world(assignments)

        train(engine, world, 15)
        spent = engine.verification_rollouts
        engine.tell(world(engine.ask([Question("44 0", "Who?")], 5)))
        report = engine.evolve(rollout)
        again = [one for one in asked if one.candidate.id == "c0"]
        assert 0 < len(again) <= engine.config.verify_questions
        proposed = engine.requests.wanted(engine.config.population_size - 1, 45)
        assert calls[0] == engine.generations.most_rollouts(proposed) == 200 * (12 + 1 + 1)
        assert len({one.question.id for one in again}) == len(again)
        assert report.rollouts == len(asked) == engine.verification_rollouts - spent
        told = [event for event in engine.log if event["event"] == "verified"]
        assert "c0" not in {event["candidate"] for event in told if event["step"] == 45}
        assert (
            f"{len(again)} rollouts"
            in [event["message"] for event in engine.log if event["event"] == "notice"][-1]
        )


class TestAThousandCandidates:
    """A look at who is the best inverts a matrix of all who are compared."""

    @pytest.mark.parametrize(("count", "looks"), [(7, 25), (1000, 0)])
    def test_are_not_looked_at_after_each_step(
        self, count: int, looks: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sizes: list[int] = []
        inverse = np.linalg.inv

        def counted(matrix: Any) -> Any:
            sizes.append(len(matrix))
            return inverse(matrix)

        monkeypatch.setattr(np.linalg, "inv", counted)
        config = EngineConfig(population_size=count, prune_every=None, weights="window")
        engine = Engine([f"Number {number}." for number in range(count)], config=config)
        world = Suffixes()
        for step in range(25):
            names = [f"{step} {number}" for number in range(16 if step else max(count, 16))]
            engine.tell(world(engine.ask([Question(name, "Who?") for name in names], 5)))
            engine.metrics()
        assert len(sizes) == looks
        assert engine.best is engine.best
        assert len(sizes) == max(looks, 1)  # whoever asks is answered, once for what is known
        if count == 1000:
            assert sizes == [999]
            engine.conclude()
            assert [one["event"] for one in engine.log][-1] == "best"

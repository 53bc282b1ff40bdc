"""The engine's best: the incumbent, a member that leads by what the attributor shows."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evoprompt import Proposer
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.experiments.history import TrainingHistory
from evoprompt.log.eventlog import EventLog
from evoprompt.roles import Attributor, ProposalRequest
from evoprompt.selectors import Deap
from evoprompt.support.errors import InputError
from evoprompt.support.leads import Lead
from evoprompt.testing import ScriptedEstimator
from evoprompt.types import (
    Assignment,
    Candidate,
    CandidateStats,
    Proposal,
    Question,
    Trajectory,
)

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
def test_where_no_instruction_matters_a_lucky_one_leads_and_is_seldom_the_best(preset: str) -> None:
    """Under inspo the best has to be a member, and its first texts are pruned."""
    leaders = wrong = 0
    for seed in range(3):
        world = Suffixes(seed=seed)
        engine = train(begin(world, seed=seed, preset=preset), world, 31)
        leaders += engine.selection.leader.text != FIRST
        wrong += engine.best.text != FIRST and "c0" in engine.population
        assert engine.best.id in engine.population
    assert wrong <= 1
    assert preset == "default" or leaders == 3


class Scripted(Attributor):
    """An attributor of given weights, with leads of one standard error."""

    def __init__(self, stderr: float = 0.02, **weights: float) -> None:
        self.script = ScriptedEstimator(weights, stderr)
        self.leads = 0

    def lead(self, candidate: Candidate, other: Candidate) -> Lead:
        self.leads += 1
        return self.script.lead(candidate, other)

    def stats(self, candidate: Candidate) -> CandidateStats:
        return self.script.stats(candidate)

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None: ...

    def reset(self, priors: Mapping[str, Sequence[float]]) -> None: ...

    def forget(self, ids: Collection[str]) -> None: ...


def step_with(attributor: Attributor, seeds: int, **settings: Any) -> Engine:
    """Return an engine of so many seeds after one step."""
    engine = Engine(
        [f"Number {number}." for number in range(seeds)],
        config=EngineConfig(**settings),
        attributor=attributor,
    )
    engine.tell(Suffixes()(engine.ask([Question("q", "Who?")], 2)))
    return engine


class TestIncumbent:
    """Rule by which a member takes over."""

    def test_is_the_first_seed_until_another_member_leads_at_the_odds_of_joining(self) -> None:
        assert Lead(0.015, 0.02).odds() < 2 < Lead(0.04, 0.02).odds() < 20
        assert step_with(Scripted(c0=0.5, c1=0.515), 2).best.id == "c0"
        engine = step_with(Scripted(c0=0.5, c1=0.54), 2)
        assert engine.best.id == "c1"
        assert engine.best_statement() == (
            "c1 leads, but is not shown to be better than the first instruction, c0"
        )
        engine = step_with(Scripted(c0=0.5, c1=0.6), 2)
        assert engine.best.id == "c1"
        assert engine.best_statement() == (
            "c1 is shown to be better than the first instruction, c0"
        )

    def test_needs_the_same_odds_whatever_the_number_of_rivals(self) -> None:
        for rivals in (2, 3, 7):
            assert step_with(Scripted(c0=0.5, c1=0.54), rivals).best.id == "c1"

    def test_is_the_greatest_of_several_that_are_shown_to_be_better(self) -> None:
        assert step_with(Scripted(c0=0.1, c1=0.7, c2=0.9, c3=0.8), 4).best.id == "c2"

    def test_is_judged_in_the_range_of_rewards(self) -> None:
        wide: dict[str, Any] = {"reward_range": (0.0, 100.0)}
        script = Scripted(2.0, c0=50.0, c1=60.0)
        assert step_with(script, 2, **wide).best.id == "c1"
        assert step_with(Scripted(2.0, c0=50.0, c1=52.0), 2, **wide).best.id == "c0"

    def test_that_is_retired_gives_way_to_the_member_of_the_highest_weight(self) -> None:
        engine = step_with(Scripted(c0=0.5, c1=0.5, c2=0.51), 3)
        assert engine.best.id == "c0"
        assert engine.retire("c0") == ""
        assert engine.best.id == "c2"
        assert engine.best_statement() == (
            "c2 leads, but is not shown to be better than the first instruction, c0"
        )

    def test_that_is_pruned_gives_way_unless_it_is_shown_to_be_better_than_the_survivors(
        self,
    ) -> None:
        """The survivor selector keeps the worse half here."""

        def after_pruning(**weights: float) -> Engine:
            engine = Engine(
                ["Number 0.", "Number 1.", "Number 2."],
                config=EngineConfig(),
                attributor=Scripted(**weights),
                survivor=Deap("worst"),
            )
            engine.selection.halve(1)
            return engine

        engine = after_pruning(c0=0.52, c1=0.5, c2=0.5)
        assert engine.best.id in ("c1", "c2")
        assert "c0" not in engine.population
        engine = after_pruning(c0=0.8, c1=0.5, c2=0.5)
        assert engine.best.id == "c0"
        assert "c0" in engine.population

    def test_stays_the_same_after_a_resume(self) -> None:
        script = Scripted(c0=0.5, c1=0.6)
        engine = step_with(script, 2)
        script.script.weights = {"c0": 0.5, "c1": 0.5}
        resumed = Engine(["Number 0.", "Number 1."], config=EngineConfig(), attributor=script)
        resumed.load_state_dict(json.loads(json.dumps(engine.state_dict())), rewind=False)
        assert resumed.best.id == engine.best.id == "c1"

    def test_is_logged_where_it_changes(self) -> None:
        engine = step_with(Scripted(c0=0.5, c1=0.6), 2)
        engine.tell(Suffixes()(engine.ask([Question("q", "Who?")], 2)))
        events = [event for event in engine.log if event["event"] == "incumbent_changed"]
        assert [(event["candidate"], event["is_better"]) for event in events] == [("c1", True)]

    def test_is_logged_again_where_it_comes_to_be_shown_also_after_a_resume(
        self, tmp_path: Path
    ) -> None:
        """The statement that is read from the events is that of the engine."""
        log = EventLog(tmp_path / "events.jsonl")
        script = Scripted(c0=0.5)
        state = None
        for weight in (0.54, 0.54, 0.6, 0.6, 0.54):
            script.script.weights = {"c0": 0.5, "c1": weight}
            engine = Engine(
                ["Number 0.", "Number 1."], config=EngineConfig(), attributor=script, log=log
            )
            if state:
                engine.load_state_dict(state)
            engine.tell(Suffixes()(engine.ask([Question("q", "Who?")], 2)))
            state = json.loads(json.dumps(engine.state_dict()))
            history = TrainingHistory.read(tmp_path / "events.jsonl")
            assert history.statement == engine.best_statement()
        events = [event for event in log if event["event"] == "incumbent_changed"]
        assert [event["is_better"] for event in events] == [False, True, False]

    def test_an_attributor_without_standard_errors_leaves_the_first(self) -> None:
        class Plain(Scripted):
            has_standard_errors = False

        with pytest.raises(InputError, match="Plain has no standard errors; required: an attrib"):
            step_with(Plain(math.inf, c0=0.1, c1=0.9), 2)
        engine = step_with(Plain(math.inf, c0=0.1, c1=0.9), 2, accept="not-worse")
        assert engine.best.id == "c0"


class Adapting(Suffixes):
    """A policy that comes to need what it was trained under, and is no better for it at first."""

    def chance(self, assignment: Assignment) -> float:
        learnt = max(int(assignment.question.id.split()[0]) - 20, 0) / 20
        effect = min(learnt, 2.0) if assignment.candidate.id != "c0" else 0.0
        return 1 / (1 + math.exp(0.5 - effect))


def test_loses_to_those_that_the_policy_has_grown_used_to() -> None:
    world = Adapting()
    engine = begin(world, FIRST, *(f"{FIRST} Note {number}." for number in range(90, 93)))
    for _ in range(80):
        names = [f"{engine.step} {number}" for number in range(16)]
        engine.tell(world(engine.ask([Question(name, "Who?") for name in names], 5)))
        if engine.step == 20:
            assert engine.best.id == "c0"
    assert engine.best.id != "c0"


@pytest.mark.parametrize("count", [7, 300])
def test_a_look_at_the_best_solves_the_equations_once_a_step(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of members beyond 128 those of the step are in the equations; one matrix gives all leads."""
    sizes: list[int] = []
    inverse = np.linalg.inv

    def counted(matrix: Any) -> Any:
        sizes.append(len(matrix))
        return inverse(matrix)

    config = EngineConfig(population_size=count)
    engine = Engine([f"Number {number}." for number in range(count)], config=config)
    world = Suffixes()
    first_names = [f"0 {number}" for number in range(max(count, 16))]
    engine.tell(world(engine.ask([Question(name, "Who?") for name in first_names], 5)))
    monkeypatch.setattr(np.linalg, "inv", counted)
    for step in range(1, 25):
        names = [f"{step} {number}" for number in range(16)]
        engine.tell(world(engine.ask([Question(name, "Who?") for name in names], 5)))
        engine.metrics()
    assert len(sizes) <= 2 * 24
    assert max(sizes) <= 128 + 16
    looks = len(sizes)
    assert engine.best is engine.best
    assert len(sizes) == looks

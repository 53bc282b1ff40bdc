"""Any run whatever: the invariants hold throughout, and a kill makes no difference."""

from __future__ import annotations

import json
import math
import random
from collections import ChainMap
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.log.eventlog import EventLog
from evoprompt.proposers.sentences import SentenceEdit
from evoprompt.selectors import Deap
from evoprompt.testing import SampleTask
from evoprompt.testing.samples import question
from evoprompt.types import Assignment, Trajectory

# With so few proposals in so odd runs, generations may well fail.
pytestmark = pytest.mark.filterwarnings("ignore::evoprompt.support.errors.EvopromptWarning")

EXAMPLES = settings().max_examples
REWARDS = (None, 0.0, 0.0, 0.3, 1.0, 1.0, -1e6)

numbers = st.fixed_dictionaries(
    {
        "preset": st.sampled_from(["default", "inspo"]),
        "population_size": st.integers(3, 8),
        "parents": st.integers(1, 3),
        "temperature": st.sampled_from([1e-300, 0.2, 10.0]),
        "prune_every": st.integers(1, 4),
        "evolve_every": st.integers(1, 4),
        "evolve_until": st.sampled_from([None, 6]),
        "verify_questions": st.integers(1, 6),
        "verify_rounds": st.integers(1, 3),
        "proposals_per_round": st.sampled_from([None, 1, 9]),
        "replay_capacity": st.sampled_from([1, 8, 1024]),
        "min_groups": st.integers(1, 3),
    },
    optional={
        "accept": st.sampled_from(["top", "not-worse"]),
        "reset": st.sampled_from(["zero", "verified"]),
        "unmeasured": st.sampled_from(["zero", "explore"]),
        "fill_at_start": st.booleans(),
    },
)
groupings = st.sampled_from(
    [
        {"grouping": "candidate", "candidates_per_question": 1},
        {"grouping": "candidate", "candidates_per_question": 3},
        {"grouping": "question", "candidates_per_question": 2},
    ]
)
weights = st.one_of(
    st.just({"weights": "adjusted"}),
    st.fixed_dictionaries({"weights": st.just("window"), "window": st.integers(1, 4)}),
)
configs = st.builds(
    lambda *chosen: EngineConfig.model_validate(dict(ChainMap(*chosen))),
    numbers,
    groupings,
    weights,
)
Survivor = tuple[str, dict[str, int]]
survivors: st.SearchStrategy[Survivor] = st.sampled_from(
    [("best", {}), ("tournament", {"tournsize": 2}), ("roulette", {})]
)


class Run:
    """A trainer that rolls out in any order, tells in parts and forgets to evolve now and then.

    All it does follows from ``seed`` and the number of the round, so that two runs can be compared.
    """

    def __init__(self, engine: Engine, seed: int) -> None:
        self.engine = engine
        self.seed = seed
        self.number = 0
        self.waiting: list[Trajectory] = []
        self.told: list[list[Trajectory]] = []
        self.verified = 0

    def rollout(self, assignments: Sequence[Assignment], /) -> list[Trajectory]:
        found = [
            Trajectory(assignment, rng.choice(REWARDS), number, (), {"turns": float(number)})
            for assignment in assignments
            for rng in [random.Random(f"{self.seed} {self.number} {assignment.id}")]
            for number in range(assignment.rollouts)
        ]
        if assignments[0].purpose == "verify":
            self.verified += len(found)
        return found

    def round(self) -> None:
        """One step: evolve perhaps, ask, and tell some of what is waiting."""
        rng = random.Random(f"{self.seed} {self.number}")
        if rng.random() < 0.8:
            self.engine.evolve(self.rollout)
        asked = [question(rng.randrange(12)) for _ in range(rng.randint(1, 6))]
        self.waiting += self.rollout(self.engine.ask(asked, rng.randint(1, 3)))
        rng.shuffle(self.waiting)
        cut = rng.randint(0, len(self.waiting))
        told, self.waiting = self.waiting[:cut], self.waiting[cut:]
        self.engine.tell(told)
        self.told.append(told)
        self.number += 1


def build(config: EngineConfig, survivor: Survivor, log: EventLog | None = None) -> Engine:
    task = SampleTask()
    assert task.bank is not None
    return Engine(
        [*task.seed_instructions, "Add the tens. Write <answer>the sum</answer>."],
        proposer=SentenceEdit(task.bank, task.diagnose),
        config=config,
        seed=3,
        required=task.required,
        survivor=Deap(*survivor),
        log=log,
    )


def check(run: Run) -> None:
    """All that must hold after every round."""
    engine, config = run.engine, run.engine.config
    alive = engine.population.members
    assert 1 <= len(alive) <= config.population_size
    assert engine.selection.leader in alive
    assert engine.best.born <= engine.step
    for stats in engine.candidate_stats():
        assert math.isfinite(stats.weight)
        assert stats.stderr >= 0.0
    for candidate in alive:
        ancestors = engine.population.ancestors(candidate.id)
        numbers_ = [int(ancestor.id[1:]) for ancestor in ancestors]
        assert all(number < int(candidate.id[1:]) for number in numbers_)
        assert all(ancestor.born <= candidate.born <= engine.step for ancestor in ancestors)
        assert set(candidate.parents) <= {one.id for one in ancestors}
    assert len({candidate.text for candidate in alive}) == len(alive)
    assert engine.training_rollouts == sum(map(len, run.told))
    assert engine.verification_rollouts == run.verified
    assert engine.step == run.number
    assert set(engine.assignments.pending) == {waiting.assignment.id for waiting in run.waiting}
    assert all(math.isfinite(value) for value in engine.metrics().values())
    assert len(engine.replay) <= config.replay_capacity
    assert len(engine.replay.records) <= config.replay_capacity


@given(config=configs, survivor=survivors, seed=st.integers(0, 99))
@settings(max_examples=EXAMPLES * 5 // 12)
def test_the_invariants_hold_in_any_run(
    config: EngineConfig, survivor: Survivor, seed: int
) -> None:
    run = Run(build(config, survivor), seed)
    floor = min(config.parents, len(run.engine.population.members))
    for _ in range(14):
        before = len(run.engine.population.members)
        run.round()
        check(run)
        assert len(run.engine.population.members) >= min(floor, before)
    steps = [event["step"] for event in run.engine.log]
    assert steps == sorted(steps)


@given(
    config=configs,
    survivor=survivors,
    seed=st.integers(0, 99),
    killed=st.integers(0, 9),
    wasted=st.integers(0, 3),
)
@settings(max_examples=EXAMPLES // 4)
def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(
    config: EngineConfig,
    survivor: Survivor,
    seed: int,
    killed: int,
    wasted: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("run") / "events.jsonl"
    whole = Run(build(config, survivor), seed)
    first = Run(build(config, survivor, EventLog(path)), seed)
    for _ in range(killed):
        first.round()
        whole.round()
    state = json.loads(json.dumps(first.engine.state_dict(), allow_nan=False))
    number, waiting = first.number, list(first.waiting)
    for _ in range(wasted):
        first.round()  # past the checkpoint: the kill undoes it
    resumed = Run(build(config, survivor, EventLog(path)), seed)
    resumed.engine.load_state_dict(state)
    resumed.number, resumed.waiting = number, waiting
    for _ in range(10 - killed):
        resumed.round()
        whole.round()
    assert resumed.engine.state_dict() == whole.engine.state_dict()
    assert list(resumed.engine.log) == list(whole.engine.log) == list(EventLog(path))
    assert resumed.engine.metrics() == whole.engine.metrics()
    assert resumed.engine.best == whole.engine.best
    assert resumed.engine.assignments.pending == whole.engine.assignments.pending

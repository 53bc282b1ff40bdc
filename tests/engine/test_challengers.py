"""Verification inside training: children beside their parent in ordinary steps, at no cost."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from evoprompt import Proposer
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.errors import EvopromptWarning
from evoprompt.eventlog import EventLog
from evoprompt.roles import ProposalRequest
from evoprompt.types import Assignment, Proposal, Question, Trajectory
from evoprompt.verifiers import Unverified

Worth = Callable[[int], float]


class World(Proposer):
    """Writes numbered texts, and answers under them.

    Args:
        worth: chance of a right answer under the text of a number.
        questions: of a step.
        seed: of the rewards.
        repeat: whether it is the same questions at each step.
        scale: by which rewards of 0 and 1 are multiplied.
    """

    def __init__(
        self,
        worth: Worth = lambda number: 0.3 + 0.4 * (number == 3),
        questions: int = 16,
        seed: int = 0,
        repeat: bool = False,
        scale: float = 1.0,
    ) -> None:
        self.worth, self.questions, self.repeat, self.scale = worth, questions, repeat, scale
        self.rng = random.Random(seed)
        self.written = self.step = self.verified = 0

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        first = self.written + 1
        self.written += request.count
        return [Proposal.of(f"Note {n}.") for n in range(first, first + request.count)]

    def verify(self, assignments: Sequence[Assignment], /) -> list[Trajectory]:
        self.verified += len(assignments)
        return self(assignments)

    def __call__(self, assignments: Sequence[Assignment], /) -> list[Trajectory]:
        return [
            Trajectory(one, self.scale * (self.rng.random() < self.chance(one)), place)
            for one in assignments
            for place in range(one.rollouts)
        ]

    def chance(self, assignment: Assignment) -> float:
        return self.worth(int(assignment.candidate.text.split()[-1].rstrip(".")))

    def engine(self, rollouts: int = 5, log: EventLog | None = None, **settings: Any) -> Engine:
        settings = {"accept": "in-training", "evolve_until": None, **settings}
        made = Engine(
            ["Note 0."], proposer=self, config=EngineConfig(**settings), log=log, rules=[]
        )
        made.share_out(rollouts, "num_generations")
        return made

    def batch(self) -> list[Question]:
        first = 0 if self.repeat else self.step * self.questions
        return [Question(f"q{n}", "Who?") for n in range(first, first + self.questions)]

    def train(self, engine: Engine, steps: int) -> list[list[Assignment]]:
        """Takes steps, and returns what was asked."""
        asked: list[list[Assignment]] = []
        for _ in range(steps):
            engine.evolve(self.verify)
            each = 5 // engine.selection.challengers.each
            asked.append(engine.ask(self.batch(), each))
            engine.tell(self(asked[-1]))
            self.step += 1
        return asked


def in_training(engine: Engine) -> list[str]:
    return [one.id for one in engine.selection.challengers.candidates]


def messages(engine: Engine) -> str:
    return "\n".join(event["message"] for event in engine.log if event["event"] == "notice")


def test_the_better_takes_its_parents_place_without_an_extra_rollout() -> None:
    world = World(lambda number: 0.3 + 0.4 * (number >= 3))
    engine = world.engine()
    asked = world.train(engine, 2)
    assert len(in_training(engine)) + len(engine.population.alive) > 1
    for index in range(world.questions):
        block = asked[1][5 * index : 5 * index + 5]
        used = Counter(one.candidate.id for one in block)
        assert len({one.question.id for one in block}) == len({one.group for one in block}) == 1
        assert used["c0"] == 2
        assert len(used) == 4
    world.train(engine, 60)
    assert not set(in_training(engine)) & {one.id for one in engine.population.alive}
    alive = [one.text for one in engine.population.alive]
    assert all(int(text[5:-1]) >= 3 for text in alive)
    assert engine.best in engine.population.alive
    assert world.verified == engine.verification_rollouts == 0
    assert engine.generation_stats.admitted_total >= 1
    assert engine.generation_stats.generations == world.written // 6 >= 3
    verdicts = [event for event in engine.log if event["event"] == "verified"]
    assert {bool(one["reason"]) for one in verdicts if one["admitted"]} == {False}
    reason = r"\d\.\d{3} (ahead of|behind) c\d+ after \d+ rollouts(; unlikely to be|, which) .*"
    assert all(re.fullmatch(reason, one["reason"]) for one in verdicts if not one["admitted"])


def test_who_is_worse_is_not_admitted_and_the_best_is_not_whoever_was_lucky() -> None:
    for seed in range(4):
        world = World(lambda number: 0.4 - 0.1 * (number > 0), seed=seed)
        engine = world.engine()
        world.train(engine, 60)
        assert [one.id for one in engine.population.alive] == [engine.best.id] == ["c0"]
        assert engine.generation_stats.generations_refused >= 3


def test_what_is_shown_better_becomes_the_best() -> None:
    world = World(lambda number: 0.2 + 0.6 * (number >= 2))
    engine = world.engine()
    world.train(engine, 20)
    assert world.worth(int(engine.best.text[5:-1])) == 0.8
    told = [event for event in engine.log if event["event"] == "best"]
    assert told[0]["candidate"] == "c0"
    assert told[-1]["candidate"] == engine.best.id
    assert told[-1]["in_training"]
    assert "took the place of its parent" in engine.best_statement()


def test_resumes_exactly_in_the_middle_of_a_trial() -> None:
    def run(kill: int | None) -> str:
        world = World()
        engine = world.engine()
        for step in range(30):
            if step == kill:
                assert in_training(engine)
                state = json.loads(json.dumps(engine.state_dict()))
                engine = world.engine(log=engine.log)
                engine.load_state_dict(state)
            world.train(engine, 1)
        return json.dumps([engine.state_dict(), list(engine.log)], sort_keys=True)

    assert run(None) == run(2) == run(7)


def test_children_go_on_beside_the_leader_when_their_parent_dies() -> None:
    world = World(lambda number: 0.4)
    engine = world.engine()
    other, _ = engine.add({"instruction": "Note 90."})
    assert other is not None
    for one in engine.population.alive:
        engine.pin(one.id)
    world.train(engine, 2)
    tried, parent = in_training(engine), engine.selection.parent.id
    stays = other.id if parent == "c0" else "c0"
    assert tried
    assert engine.retire(parent) == ""
    world.train(engine, 1)
    assert engine.selection.parent.id == stays
    assert set(in_training(engine)) <= set(tried)
    world.train(engine, 80)
    assert not set(in_training(engine)) & set(tried)


@pytest.mark.parametrize(
    "world",
    [World(lambda number: 0.0), World(lambda number: 1.0), World(repeat=True, questions=1)],
    ids=["nobody right", "all right", "one question"],
)
def test_a_trial_that_can_show_nothing_ends(world: World) -> None:
    engine = world.engine(proposals_per_round=2)
    world.train(engine, 1)
    world.train(engine, 700 if world.repeat else 60)
    assert engine.generation_stats.generations >= 2
    assert [one.id for one in engine.population.alive] == ["c0"]


@pytest.mark.parametrize("scale", [100.0, -3.0])
def test_rewards_beyond_their_range_decide_and_break_nothing(scale: float) -> None:
    world = World(lambda number: 0.3 + 0.4 * (number >= 3), scale=scale)
    engine = world.engine()
    world.train(engine, 40)
    better = [int(one.text[5:-1]) >= 3 for one in engine.population.alive]
    assert all(better) if scale > 0 else not any(better)


def test_of_two_that_are_equally_better_the_older_takes_the_place() -> None:
    world = World(lambda number: float(number in (1, 2)))
    engine = world.engine(proposals_per_round=2)
    world.train(engine, 60)
    verdicts = {e["candidate"]: e["admitted"] for e in engine.log if e["event"] == "verified"}
    assert (verdicts["c1"], verdicts["c2"]) == (True, False)
    assert engine.best.text == "Note 1."


def test_a_child_that_was_never_drawn_is_neither_admitted_nor_dropped() -> None:
    world = World(questions=1)
    engine = world.engine()
    world.train(engine, 2)
    drawn = {event["step"]: event["draws"] for event in engine.log if event["event"] == "asked"}
    never = set(in_training(engine)) - {name for draws in drawn.values() for name in draws}
    assert never
    assert not [
        one for one in engine.log if one["event"] == "verified" and one["candidate"] in never
    ]


def test_one_candidate_a_question_takes_extra_rollouts_and_says_so() -> None:
    world = World()
    engine = world.engine(rollouts=7, verify_questions=4)
    with pytest.warns(EvopromptWarning, match="multiple of 5"):
        world.train(engine, 31)
    assert world.verified
    assert not in_training(engine)
    assert {e["step"] for e in engine.log if e["event"] == "evolved"} == {15, 30}
    assert "every 15 steps" in messages(engine)


def test_a_population_too_small_to_share_out_the_rollouts_is_named() -> None:
    world = World()
    engine = world.engine(population_size=4, verify_questions=4)
    with pytest.warns(
        EvopromptWarning,
        match="no number from 2 to 4 divides: .* raise population_size, which is 4, to 5 or more",
    ):
        world.train(engine, 1)


def test_a_short_run_of_large_steps_takes_extra_rollouts_and_says_so() -> None:
    world = World(questions=512)
    engine = world.engine(verify_questions=4)
    engine.budget = 9 * 5 * 512
    world.train(engine, 2)
    assert world.verified
    assert "ten steps" in messages(engine)


def test_the_end_of_a_training_leaves_nobody_unsaid() -> None:
    world = World()
    engine = world.engine()
    world.train(engine, 2)
    engine.conclude()
    assert all(name in messages(engine) for name in in_training(engine))


@pytest.mark.parametrize(
    ("rollouts", "candidates", "grouping"),
    [(5, 5, "question"), (8, 4, "question"), (7, 1, "candidate")],
)
def test_auto_takes_what_divides_the_rollouts_of_a_question(
    rollouts: int, candidates: int, grouping: str
) -> None:
    engine = World().engine(rollouts=rollouts)
    assert engine.selection.challengers.each == candidates
    assert engine.grouping == grouping


def test_a_verifier_that_is_given_verifies() -> None:
    config = EngineConfig(accept="in-training")
    engine = Engine(["Note 0."], proposer=World(), config=config, verifier=Unverified())
    engine.share_out(5, "num_generations")
    assert engine.selection.challengers.mode == ""


def test_auto_leaves_a_lone_instruction_alone() -> None:
    engine = Engine(["Be brief."])
    assert engine.share_out(5, "num_generations") == 5
    assert engine.grouping == "candidate"

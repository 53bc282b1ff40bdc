"""When a background proposer is asked, with a latency that is counted in steps."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from pydantic import JsonValue

from evoprompt import Proposer, Verifier
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.roles import ProposalRequest, VerificationRequest
from evoprompt.types import Assignment, Proposal, Question, Trajectory, Verification
from evoprompt.verifiers import ReplayTopN

EXTRA = {"accept": "not-worse"}
"""Settings under which proposals are verified by extra rollouts, every 15 steps."""


class Writer(Proposer):
    """Writes numbered children of the first parent, so many steps after it was asked.

    Attributes:
        clock: the engine's steps.
        asked: at which steps, and about whom.
    """

    def __init__(self, latency: int) -> None:
        self.latency = latency
        self.clock = 0
        self.made = 0
        self.asked: list[tuple[int, str]] = []
        self._since: int | None = None
        self._answer: tuple[str, int] = ("", 0)

    @property
    def is_ready(self) -> bool:
        return self._since is not None and self.clock >= self._since + self.latency

    def anticipate(self, request: ProposalRequest) -> None:
        parent = request.parents[0].candidate.id
        self.asked.append((request.step, parent))
        self._since, self._answer = request.step, (parent, request.count)

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        assert self.is_ready, "training would wait"
        self._since = None
        parent, count = self._answer
        first = self.made + 1
        self.made += count
        return [
            Proposal({"instruction": f"Number {n}."}, (parent,))
            for n in range(first, first + count)
        ]

    def state_dict(self) -> dict[str, JsonValue]:
        """All but a thought under way, as of a thread that a kill ends."""
        return {"made": self.made, "answer": list(self._answer) if self.is_ready else None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.made = state["made"]
        if state["answer"] is not None:
            self._since, self._answer = -self.latency, tuple(state["answer"])


class Training:
    """An engine that is never waited for, on questions that are alike.

    Args:
        writer: writes.
        settings: of the engine, beside the defaults.
        questions: of a step, with five rollouts each.
        worth: true reward under each instruction, by its number; 0 for the first one.
        verifier: of the engine; None for the one that the settings name.
    """

    def __init__(
        self,
        writer: Writer,
        settings: Mapping[str, Any] = {},
        questions: int = 8,
        worth: Mapping[int, float] | float = 0.5,
        verifier: Verifier | None = None,
    ) -> None:
        self.writer = writer
        self.questions = questions
        self.worth = worth
        self.engine = Engine(
            ["Number 0."],
            proposer=writer,
            config=EngineConfig(**settings),
            verifier=verifier,
            rules=[],
        )
        self.engine.waits = False
        self.draw = np.random.default_rng(0)
        self.evolved: list[int] = []

    def __call__(self, assignments: Sequence[Assignment], /) -> list[Trajectory]:
        return [
            Trajectory(one, float(self.draw.random() < self._worth(one)), rollout)
            for one in assignments
            for rollout in range(one.rollouts)
        ]

    def _worth(self, one: Assignment) -> float:
        number = int(one.candidate.text.removeprefix("Number ").removesuffix("."))
        return self.worth if isinstance(self.worth, float) else self.worth.get(number, 0.5)

    def run(self, steps: int) -> Training:
        for _ in range(steps):
            step = self.engine.step
            if self.engine.evolution_due and self.engine.evolve(self).due:
                self.evolved.append(step)
            asked = self.engine.ask(
                [Question(f"{step}/{n}", "Who?") for n in range(self.questions)], 5
            )
            told = self(asked)
            self.writer.clock += 1
            self.engine.tell(told)
        return self

    @property
    def members(self) -> set[str]:
        return {one.id for one in self.engine.population.members}

    def notices(self) -> list[str]:
        return [event["message"] for event in self.engine.log if event["event"] == "notice"]


def test_at_the_paper_s_size_the_children_are_those_of_the_leader() -> None:
    """They are known by then; at the first step of a cycle one of seven newcomers led by luck."""
    worth = {0: 0.4, 3: 0.7, **dict.fromkeys([1, 2, *range(4, 13)], 0.45)}
    due = 15
    training = Training(Writer(1), {"preset": "inspo"}, 512, worth).run(due + 1)
    (leader,) = [one.id for one in training.engine.population.members if one.text == "Number 3."]
    assert due - 1 in [step for step, _ in training.writer.asked]
    proposed = [
        event
        for event in training.engine.log
        if event["event"] == "proposed" and event["step"] == due
    ]
    assert len(proposed) == 18
    assert {tuple(event["parents"]) for event in proposed} == {(leader,)}


@pytest.mark.parametrize(
    ("latency", "asked", "evolved"),
    [
        (1, [14, 29, 44, 59], [15, 30, 45, 60]),
        (5, [14, 29, 44, 59], [19, 34, 49, 64]),
        (20, [14, 44], [34, 64]),
    ],
)
def test_it_is_asked_one_step_before_extra_rollouts_are_due(
    latency: int, asked: list[int], evolved: list[int]
) -> None:
    """But never in the first half of a period, so that its last candidates are measured."""
    training = Training(Writer(latency), EXTRA, worth=1.0).run(70)
    assert [step for step, _ in training.writer.asked] == asked
    assert training.evolved == evolved


@pytest.mark.parametrize("latency", [0, 3])
def test_it_is_asked_as_soon_as_the_last_candidate_on_trial_is_decided(latency: int) -> None:
    """Until it has answered, all rollouts are of the members."""
    training = Training(Writer(latency))
    steps_without_trials = []
    for _ in range(150):
        training.run(1)
        if training.writer.asked and not training.engine.generations.trials.trials:
            steps_without_trials.append(training.engine.step)
    requests = [step for step, _ in training.writer.asked]
    assert len(requests) > 2
    assert steps_without_trials == [
        step + late for step in requests for late in range(latency + 1) if step + late <= 150
    ]
    assert training.evolved == [step + latency for step in requests if step + latency < 150]


@pytest.mark.parametrize(("until", "asked"), [(14, False), (15, True)])
def test_it_is_not_asked_for_a_generation_that_never_comes(until: int, asked: bool) -> None:
    training = Training(Writer(0), EXTRA)
    config = training.engine.config.model_copy(update={"evolve_until": until})
    training.engine.requests.config = training.engine.config = config
    assert bool(training.run(25).writer.asked) == asked


def test_a_writer_that_never_answers_delays_nothing() -> None:
    training = Training(Writer(10_000)).run(40)
    assert training.engine.step == 40
    assert training.evolved == []
    late = [message for message in training.notices() if "still thinking" in message]
    assert len(late) == 1
    assert training.engine.failure_reason == "the proposer was called and has not returned"


class Recording(ReplayTopN):
    """Notes how many rounds may follow."""

    def __init__(self) -> None:
        super().__init__(20)
        self.left: list[int] = []

    def verify(self, request: VerificationRequest) -> Verification:
        self.left.append(request.rounds_left)
        return super().verify(request)


def test_its_generations_have_one_round_and_the_verifier_keeps_nothing_for_others() -> None:
    verifier = Recording()
    Training(Writer(1), worth=1.0, verifier=verifier).run(31)
    assert verifier.left == [0, 0]


class Anonymous(Writer):
    """Names no parents."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        return [Proposal(one.components) for one in super().propose(request)]


def test_children_descend_from_whom_it_was_asked_about_though_dead_by_then() -> None:
    training = Training(Anonymous(1), EXTRA, worth=1.0).run(30)
    step, parent = training.writer.asked[-1]
    training.engine.add({"instruction": "Number 99."})
    assert (step, training.engine.retire(parent)) == (29, "")
    training.run(1)
    events = [event for event in training.engine.log if event["event"] == "proposed"]
    parents = {tuple(event["parents"]) for event in events if event["step"] == 30}
    assert parents == {(parent,)}


def test_candidates_keep_a_parent_that_was_pruned_in_the_last_moment() -> None:
    training = Training(Writer(1), EXTRA).run(15)
    ((_, parent),) = training.writer.asked
    assert parent == "c0"
    other, _ = training.engine.add({"instruction": "Number 99."})
    assert other is not None
    assert training.engine.retire("c0") == ""
    report = training.engine.evolve(training)
    assert report.admitted
    for candidate in training.engine.population.members:
        if candidate.id in report.admitted:
            assert candidate.parents == ("c0",)
    proposed = [event for event in training.engine.log if event["event"] == "proposed"]
    assert {tuple(event["parents"]) for event in proposed if event["proposer"] == "Writer"} == {
        ("c0",)
    }


@pytest.mark.parametrize(
    ("latency", "killed"),
    [(0, 16), (5, 25)],
)
def test_a_resumed_run_goes_on_as_the_whole_one(latency: int, killed: int) -> None:
    """Killed where no thought is under way, since one is lost then; an answer is not."""
    whole = Training(Writer(latency)).run(killed)
    state = json.loads(json.dumps(whole.engine.state_dict()))
    resumed = Training(Writer(latency))
    resumed.engine.load_state_dict(state)
    resumed.writer.clock = whole.writer.clock
    resumed.draw.bit_generator.state = whole.draw.bit_generator.state
    before = len(whole.writer.asked), len(whole.evolved), len(list(whole.engine.log))
    whole.run(30)
    resumed.run(30)
    assert resumed.writer.asked == whole.writer.asked[before[0] :]
    assert resumed.evolved == whole.evolved[before[1] :]
    assert list(resumed.engine.log)[1:] == list(whole.engine.log)[before[2] :]

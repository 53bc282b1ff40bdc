"""Proposers that ask a language model, inside the loop and against a real HTTP server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE, wait_for

from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.lm import SPENDING_FILE, LanguageModel, LmSettings, SpendTracker
from evoprompt.proposers.background import Background
from evoprompt.proposers.reflection import Reflection
from evoprompt.roles import Proposer
from evoprompt.testing.openai_server import OpenAIServer, chat_fields
from evoprompt.types import Assignment, Question, Trajectory, Turn

TAGS = ("<answer>", "</answer>")
SEED = "Write <answer> and </answer> around the answer."
GOOD = "Look up one fact at a time. Write <answer> and </answer> around the answer."
BAD = "Write <answer> and </answer> around a guess, and be quick about it."
REFUSED = "I'm sorry, but I cannot help with that."
CONFIG = EngineConfig(
    population_size=4, evolve_every=5, evolve_until=None, verify_questions=8, min_groups=1
)


def policy(assignment: Assignment) -> list[Trajectory]:
    """Answers right in as many rollouts as the instruction deserves."""
    right = 3 if "one fact" in assignment.candidate.text else 1
    return [
        Trajectory(
            assignment,
            float(rollout < right),
            rollout,
            (Turn("<search>all at once</search>", "nothing"), Turn("<answer>no</answer>")),
        )
        for rollout in range(assignment.rollouts)
    ]


def rollout(assignments: Sequence[Assignment]) -> list[Trajectory]:
    return [trajectory for one in assignments for trajectory in policy(one)]


@dataclass
class Training:
    """A trainer of which only the engine is real."""

    proposer: Proposer
    config: EngineConfig = CONFIG

    def __post_init__(self) -> None:
        self.engine = Engine([SEED], proposer=self.proposer, config=self.config, required=TAGS)
        self.engine.waits = False  # as an adapter does

    def step(self) -> None:
        number = self.engine.step
        questions = [
            Question(f"q{number}-{index}", f"What is fact {number}-{index}?", (f"value{index}x",))
            for index in range(4)
        ]
        self.engine.tell(rollout(self.engine.ask(questions, 4)))
        self.engine.evolve(rollout)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()

    def run_until(self, done: Callable[[], bool]) -> None:
        def done_after_a_step() -> bool:
            self.step()
            return done()

        wait_for(done_after_a_step)

    def told(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.engine.log if event["event"] == kind]

    def notices(self) -> list[str]:
        return [str(event["message"]) for event in self.told("notice")]


def language(server: OpenAIServer, directory: Path | None = None, **more: Any) -> LanguageModel:
    settings = {"model": "openai/scripted", "api_base": server.url, "retries": 0, **more}
    spending = SpendTracker(directory / SPENDING_FILE) if directory else None
    return LanguageModel(LmSettings.model_validate(settings), directory, spending)


def reflections(*texts: str) -> str:
    return chat_fields(analysis="It asked for everything at once.", candidates=list(texts))


@pytest.mark.filterwarnings("ignore:the generation at step")  # it always says the same
def test_reflection_finds_the_better_instruction() -> None:
    with OpenAIServer([], reflections(GOOD, BAD, REFUSED)) as server:
        training = Training(Reflection(language(server)))
        training.run(20)
        [first, *_] = server.requests
    assert training.engine.selection.leader.text == GOOD
    assert training.engine.selection.leader.rationale == "It asked for everything at once."
    assert training.engine.selection.leader.proposer == "reflection"
    assert "<search>all at once</search>" in first.prompt
    rules = {event["rule"] for event in training.told("proposed")}
    assert {"", "meta_talk"} <= rules


def test_a_slow_model_does_not_delay_a_single_step() -> None:
    release = threading.Event()

    def answer(body: Mapping[str, Any]) -> str:
        assert release.wait(PATIENCE)
        return reflections(GOOD)

    with OpenAIServer([], answer) as server:
        patient = language(server, timeout=PATIENCE, deadline=PATIENCE)
        training = Training(Background(Reflection(patient)))
        training.run(25)  # it goes on while the model is thinking
        wait_for(lambda: server.requests)
        assert training.engine.generation_stats.generations == 0
        release.set()
        training.run_until(lambda: training.engine.selection.leader.text == GOOD)

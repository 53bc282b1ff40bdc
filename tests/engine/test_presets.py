"""The presets of other papers draw and evolve as their papers say; espl is in its plugin."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from evoprompt import Proposer
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.errors import InputError
from evoprompt.plugins import BLOCK_VARIABLE, plugins
from evoprompt.roles import ProposalRequest
from evoprompt.testing import ScriptedPolicy
from evoprompt.testing.samples import question
from evoprompt.types import Assignment, Proposal, Trajectory

QUESTIONS = [question(number) for number in range(6)]


class Numbered(Proposer):
    """A new text each time, never the same."""

    def __init__(self) -> None:
        self.made = 0
        self.parents: list[str] = []

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        self.parents.append(request.parents[0].candidate.id)
        return [self._next(request) for _ in range(request.count)]

    def _next(self, request: ProposalRequest) -> Proposal:
        self.made += 1
        return Proposal.of(f"Trick {self.made}.", request.parents[0].candidate)


def reward(assignment: Assignment) -> float:
    """Higher numbers are a little better, on some questions."""
    number = int(assignment.candidate.id[1:])
    return float((QUESTIONS.index(assignment.question) * 7 + 3 * number) % 11 < 4 + number)


POLICY = ScriptedPolicy(reward)


def engine(preset: str, **numbers: Any) -> Engine:
    return Engine(
        ["Answer."],
        proposer=Numbered(),
        config=EngineConfig(**{"preset": preset, **numbers}),
        seed=3,
    )


def step(one: Engine) -> list[Assignment]:
    if one.evolution_due:
        one.evolve(POLICY)
    asked = one.ask(QUESTIONS, 2)
    one.tell(POLICY(asked))
    return asked


@pytest.fixture
def no_plugin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As where evoprompt-ratings is not installed."""
    monkeypatch.setenv(BLOCK_VARIABLE, "ratings")
    plugins.cache_clear()
    yield
    plugins.cache_clear()


@pytest.mark.usefixtures("no_plugin")
def test_espl_names_the_plugin_that_it_needs() -> None:
    with pytest.raises(InputError, match="required: evoprompt-ratings; pip install evoprompt-rat"):
        engine("espl")


class TestFst:
    def test_a_group_is_shared_out_evenly_and_has_one_baseline(self) -> None:
        one = engine("fst")
        for _ in range(12):
            asked = step(one)
            alive = sorted(living.id for living in one.population.alive)
            told = [
                Trajectory(a, reward(a), rollout) for a in asked for rollout in range(a.rollouts)
            ]
            for number, asked_question in enumerate(QUESTIONS):
                block = asked[4 * number : 4 * number + 4]
                assert sorted(a.candidate.id for a in block) == alive
                assert all(a.question == asked_question for a in block)
                (group,) = {a.group for a in block}
                # The paper's baseline: the mean of all n rollouts of the question.
                mine = [t.reward for t in told if t.assignment.group == group]
                theirs = [t.reward for t in told if t.question == asked_question]
                assert mine == theirs
                assert len(mine) == 8
            assert len(alive) == 4

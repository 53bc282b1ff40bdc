"""A state is JSON; a broken one is refused and leaves the engine as it was."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from evoprompt import Proposer
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.proposers.sentences import SentenceEdit
from evoprompt.roles import ProposalRequest
from evoprompt.selectors import Softmax
from evoprompt.support.errors import StateError
from evoprompt.testing import FakeTrainer, SampleTask, ScriptedPolicy
from evoprompt.testing.samples import question
from evoprompt.types import Proposal

POLICY = ScriptedPolicy(lambda a: 1.0 if "check" in a.candidate.text.lower() else 0.0)
QUESTIONS = [question(number) for number in range(4)]


def build(**parts: Any) -> Engine:
    task = SampleTask()
    assert task.bank is not None
    defaults = {"proposer": SentenceEdit(task.bank, task.diagnose), "required": task.required}
    config = EngineConfig(prune_every=3, evolve_every=4, verify_questions=3)
    return Engine(task.seed_instructions, config=config, **{**defaults, "seed": 1, **parts})


def trained(steps: int = 9, **parts: Any) -> Engine:
    engine = build(**parts)
    FakeTrainer(POLICY, QUESTIONS).train(engine, steps)
    engine.ask(QUESTIONS, 2)
    return engine


NAN, INFINITE = float("nan"), float("inf")
WRONG = [None, -1, 0.5, "x", [], {}, [1], True, NAN, -INFINITE, {"a": INFINITE}, 10**30]


@pytest.fixture(scope="module")
def saved() -> dict[str, JsonValue]:
    return trained().state_dict()


def nested(depth: int) -> JsonValue:
    value: JsonValue = 1
    for _ in range(depth):
        value = [value]
    return value


def places(state: JsonValue, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of every value in a JSON tree, but for the long state of the generator."""
    found = [path] if path else []
    if path == ("rng", 1):
        return found
    if isinstance(state, dict):
        return found + [p for key, value in state.items() for p in places(value, (*path, key))]
    if isinstance(state, list):
        return found + [p for i, value in enumerate(state) for p in places(value, (*path, i))]
    return found


class TestBrokenStates:
    def refused(self, state: Mapping[str, JsonValue], message: str) -> None:
        engine = trained(5)
        before, events = engine.state_dict(), list(engine.log)
        with pytest.raises(StateError, match=message):
            engine.load_state_dict(state)
        assert engine.state_dict() == before
        assert list(engine.log) == events

    @pytest.mark.parametrize("version", [18, None, "19"])
    def test_of_another_version(self, saved: dict[str, JsonValue], version: JsonValue) -> None:
        self.refused({**saved, "version": version}, f"has version {version!r}; required: 19")

    @pytest.mark.parametrize(
        "part",
        ["assignments", "requests"],
    )
    def test_without_a_part(self, saved: dict[str, JsonValue], part: str) -> None:
        parts = saved["parts"]
        assert isinstance(parts, dict)
        rest = {name: value for name, value in parts.items() if name != part}
        self.refused({**saved, "parts": rest}, f"nothing was saved for {part}")

    @pytest.mark.parametrize("numbers", [[1, 2], [2**40] * 625, ["x"] * 625])
    def test_with_a_generator_that_cannot_be(
        self, saved: dict[str, JsonValue], numbers: list[JsonValue]
    ) -> None:
        self.refused({**saved, "rng": [3, numbers, None]}, "the engine state is broken")

    @pytest.mark.parametrize("value", [NAN, INFINITE, [[NAN]], nested(100_000)])
    def test_with_a_number_that_is_none_or_too_deep(
        self, saved: dict[str, JsonValue], value: JsonValue
    ) -> None:
        self.refused({**saved, "parts": value}, "the engine state is broken")
        self.refused({**saved, "unknown": value}, "the engine state is broken")

    @given(data=st.data())
    @settings(max_examples=settings().max_examples * 2 // 3)
    def test_with_anything_out_of_place_are_refused_or_loaded_whole(
        self, saved: dict[str, JsonValue], data: st.DataObject
    ) -> None:
        state: Any = copy.deepcopy(saved)
        path = data.draw(st.sampled_from(places(saved)))
        parent = state
        for key in path[:-1]:
            parent = parent[key]
        if data.draw(st.booleans()):
            del parent[path[-1]]
        else:
            parent[path[-1]] = data.draw(st.sampled_from(WRONG))
        engine = trained(1)
        before = json.dumps(engine.state_dict())
        try:
            engine.load_state_dict(state)
        except StateError:
            assert json.dumps(engine.state_dict()) == before
        else:
            json.dumps(engine.state_dict(), allow_nan=False)


class Moody(Softmax):
    """A sampler with a state of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.draws = 0

    def select(self, candidate_stats: Sequence[Any], k: int, rng: random.Random) -> Sequence[Any]:
        self.draws += k
        return super().select(candidate_stats, k, rng)

    def state_dict(self) -> dict[str, JsonValue]:
        return {"draws": self.draws}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        assert isinstance(state["draws"], int)
        self.draws = state["draws"]


class Counting(Proposer):
    """A proposer with a state of its own that it may be unable to load."""

    def __init__(self, load: Callable[[JsonValue], None] = lambda state: None) -> None:
        self.asked = 0
        self.load = load

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        self.asked += 1
        return []

    def state_dict(self) -> dict[str, JsonValue]:
        return {"asked": self.asked}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        self.load(state["asked"])
        assert isinstance(state["asked"], int)
        self.asked = state["asked"]


class TestStatefulParts:
    @pytest.mark.filterwarnings("ignore::evoprompt.support.errors.EvopromptWarning")
    def test_are_saved_and_restored(self) -> None:
        drew = Moody()
        original = trained(9, sampler=drew, proposer=Counting())
        state = json.loads(json.dumps(original.state_dict()))
        moody, counting = Moody(), Counting()
        build(sampler=moody, proposer=counting).load_state_dict(state)
        assert moody.draws == drew.draws > 6 * len(QUESTIONS)
        assert counting.asked == 2

    @pytest.mark.filterwarnings("ignore::evoprompt.support.errors.EvopromptWarning")
    def test_that_cannot_load_leave_the_others_unchanged(self) -> None:
        state = trained(9, proposer=Counting()).state_dict()

        def refuse(asked: JsonValue) -> None:
            if asked == 2:
                raise StateError("the proposer changed its mind")

        engine = build(proposer=Counting(refuse))
        before = engine.state_dict()
        with pytest.raises(StateError, match="the proposer changed its mind"):
            engine.load_state_dict(state)
        assert engine.state_dict() == before


def test_a_state_loaded_without_rewinding_takes_back_neither_events_nor_rollouts() -> None:
    engine = trained(4)
    state = engine.state_dict()
    FakeTrainer(POLICY, QUESTIONS).train(engine, 5)
    events, rollouts = len(engine.log), engine.rollouts
    engine.load_state_dict(state, rewind=False)
    assert engine.step == 4
    assert (len(engine.log), engine.rollouts) == (events, rollouts)
    engine.load_state_dict(state)
    assert len(engine.log) < events
    assert engine.rollouts < rollouts

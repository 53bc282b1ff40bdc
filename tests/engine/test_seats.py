"""A component of a plugin that fails is named and replaced, or ends training, as configured."""

from __future__ import annotations

import json
import math
import random
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from pydantic import JsonValue

from evoprompt import EvopromptWarning
from evoprompt.attributors import Adjusted, WindowMean
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.errors import ComponentError, InputError
from evoprompt.populations import SteadyPopulation
from evoprompt.proposers.sentence_edit import SentenceEdit
from evoprompt.roles import VerificationRequest
from evoprompt.selectors import Deap, Softmax
from evoprompt.testing import FakeTrainer, SampleTask, ScriptedPolicy
from evoprompt.testing.samples import candidate, question
from evoprompt.types import Assignment, Candidate, CandidateStats, Trajectory, Verification
from evoprompt.verifiers import ReplayTopN, Unverified

QUESTIONS = [question(number) for number in range(4)]
STRANGER = CandidateStats(candidate(99), 0.5)


def reward(assignment: Assignment) -> float:
    """Little for what every child says, more for what some say, and something for luck."""
    text = assignment.candidate.text.lower()
    return ("check" in text) / 2 + len(text) % 7 / 14


def build(**parts: Any) -> Engine:
    task = SampleTask()
    assert task.bank is not None
    config = EngineConfig(
        prune_every=3,
        evolve_every=4,
        verify_questions=3,
        on_component_failure=parts.pop("on_failure", "fallback"),
        weights=parts.pop("weights", "adjusted"),
    )
    proposer = SentenceEdit(task.bank, task.diagnose)
    given = {"proposer": proposer, "required": task.required, **parts}
    return Engine(task.seed_instructions, config=config, **given)


def train(engine: Engine, steps: int) -> None:
    FakeTrainer(ScriptedPolicy(reward), QUESTIONS).train(engine, steps)


class Moment:
    """Comes at the given call, and stays; survives a save with whoever counts by it."""

    def __init__(self, at: int) -> None:
        self.calls = 0
        self.at = at

    def __call__(self) -> bool:
        self.calls += 1
        return self.calls >= self.at

    def state_dict(self) -> dict[str, JsonValue]:
        return {"calls": self.calls}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        assert isinstance(state["calls"], int)
        self.calls = state["calls"]


class BadSelector(Moment):
    def __init__(self, answer: Callable[[Sequence[CandidateStats], int], Any], at: int) -> None:
        super().__init__(at)
        self.answer = answer

    def select(
        self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
    ) -> Sequence[CandidateStats]:
        if self():
            found: Sequence[CandidateStats] = self.answer(candidate_stats, k)
            return found
        return Softmax().select(candidate_stats, k, rng)


class BadChances(Softmax):
    def probabilities(self, candidate_stats: Sequence[CandidateStats]) -> list[float]:
        return [math.nan for _ in candidate_stats]


class BadAttributor(WindowMean):
    """Knows nonsense from the given call on."""

    def __init__(self, answer: Callable[[CandidateStats], Any], at: int) -> None:
        super().__init__()
        self.moment = Moment(at)
        self.answer = answer

    def stats(self, candidate: Candidate) -> CandidateStats:
        usual = super().stats(candidate)
        if self.moment():
            found: CandidateStats = self.answer(usual)
            return found
        return usual

    def state_dict(self) -> dict[str, JsonValue]:
        return {**super().state_dict(), "moment": self.moment.state_dict()}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        super().load_state_dict(state)
        assert isinstance(state["moment"], dict)
        self.moment.load_state_dict(state["moment"])


class BadVerifier(Moment):
    def __init__(self, answer: Callable[[Verification], Any], at: int) -> None:
        super().__init__(at)
        self.answer = answer

    def verify(self, request: VerificationRequest) -> Verification:
        usual = ReplayTopN(3).verify(request)
        found: Verification = self.answer(usual) if self() else usual
        return found


class BadPopulation(SteadyPopulation):
    def __init__(self, answer: Callable[[Sequence[Candidate]], Any], at: int) -> None:
        super().__init__()
        self.moment = Moment(at)
        self.answer = answer

    @property
    def alive(self) -> Sequence[Candidate]:
        usual = super().alive
        if self.moment():
            found: Sequence[Candidate] = self.answer(usual)
            return found
        return usual

    def state_dict(self) -> dict[str, JsonValue]:
        return {**super().state_dict(), "moment": self.moment.state_dict()}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        super().load_state_dict(state)
        assert isinstance(state["moment"], dict)
        self.moment.load_state_dict(state["moment"])


def boom(*arguments: object) -> Any:
    raise RuntimeError("out of order")


def with_verdict(found: Verification, **changes: Any) -> Verification:
    first, *others = found.results
    return replace(found, results=(replace(first, **changes), *others))


Make = Callable[[], dict[str, Any]]
FAULTS: dict[str, Make] = {
    "a sampler that raises": lambda: {"sampler": BadSelector(boom, 5)},
    "a sampler of None": lambda: {"sampler": BadSelector(lambda given, k: None, 5)},
    "a sampler of too few": lambda: {
        "sampler": BadSelector(lambda given, k: list(given)[:1] * 2, 5)
    },
    "a sampler of strangers": lambda: {"sampler": BadSelector(lambda given, k: [STRANGER] * k, 5)},
    "probabilities of NaN": lambda: {"sampler": BadChances()},
    "a survivor that raises": lambda: {"survivor": BadSelector(boom, 1)},
    "a survivor of nobody": lambda: {"survivor": BadSelector(lambda given, k: [], 1)},
    "a parent selector of candidates": lambda: {
        "parent_selector": BadSelector(lambda given, k: [s.candidate for s in given][:k], 1)
    },
    "an attributor that raises": lambda: {"attributor": BadAttributor(boom, 30)},
    "weights of NaN": lambda: {
        "attributor": BadAttributor(lambda usual: replace(usual, weight=math.nan), 30)
    },
    "stats of another": lambda: {"attributor": BadAttributor(lambda usual: STRANGER, 30)},
    "stats of None": lambda: {"attributor": BadAttributor(lambda usual: None, 30)},
    "a verifier that raises": lambda: {"verifier": BadVerifier(boom, 1)},
    "a verifier of None": lambda: {"verifier": BadVerifier(lambda usual: None, 1)},
    "a result missing": lambda: {
        "verifier": BadVerifier(lambda found: replace(found, results=found.results[1:]), 1)
    },
    "a result twice": lambda: {
        "verifier": BadVerifier(
            lambda found: replace(found, results=found.results[:1] * len(found.results)), 1
        )
    },
    "a result on a stranger": lambda: {
        "verifier": BadVerifier(lambda found: with_verdict(found, candidate=candidate(99)), 1)
    },
    "a mean of NaN": lambda: {
        "verifier": BadVerifier(lambda found: with_verdict(found, mean=math.nan), 1)
    },
    "no mean where something was scored": lambda: {
        "verifier": BadVerifier(lambda found: with_verdict(found, mean=None), 1)
    },
    "NaN where nothing was scored": lambda: {
        "verifier": BadVerifier(
            lambda found: with_verdict(found, mean=math.nan, stderr=None, scored=0), 1
        )
    },
    "an expectation of NaN": lambda: {
        "verifier": BadVerifier(lambda found: with_verdict(found, expected=math.nan), 1)
    },
    "an error of infinity": lambda: {
        "verifier": BadVerifier(lambda found: with_verdict(found, stderr=math.inf), 1)
    },
    "a population that raises": lambda: {"population": BadPopulation(boom, 40)},
    "a population of nobody": lambda: {"population": BadPopulation(lambda usual: [], 40)},
    "a population of None": lambda: {"population": BadPopulation(lambda usual: None, 40)},
    "a population of strangers": lambda: {
        "population": BadPopulation(lambda usual: [*usual, candidate(99)], 40)
    },
    "a population of twins": lambda: {
        "population": BadPopulation(lambda usual: [*usual, usual[0]], 40)
    },
}
each_fault = pytest.mark.parametrize("fault", FAULTS)
KILLED = (3, 6, 11)
STEPS = 14


@cache
def uninterrupted(fault: str) -> tuple[Engine, list[str]]:
    """An engine trained to the end, and the warnings meanwhile."""
    engine = build(**FAULTS[fault]())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", EvopromptWarning)
        train(engine, STEPS)
    return engine, [str(warning.message) for warning in caught]


@cache
def saved(fault: str) -> dict[int, tuple[str, list[dict[str, Any]]]]:
    """State and events at each of the kills, of an engine that goes on after them."""
    engine = build(**FAULTS[fault]())
    found = {}
    for killed in KILLED:
        train(engine, killed - engine.step)
        found[killed] = json.dumps(engine.state_dict(), allow_nan=False), list(engine.log)
    train(engine, 2)  # lost in the kill
    return found


@each_fault
def test_it_is_named_and_the_built_in_takes_over(fault: str) -> None:
    ((seat, given),) = FAULTS[fault]().items()
    engine, (message,) = uninterrupted(fault)
    named = f"the {seat} {type(given).__name__} of module {type(given).__module__} failed: "
    assert message.startswith(named)
    assert message.endswith("takes over for the rest of the run")
    notices = [e["message"] for e in engine.log if e["event"] == "notice"]
    others = ("told nobody apart", "lives no more")  # a verification, and the best that is dead
    assert [told for told in notices if not any(one in told for one in others)] == [message]
    assert engine.metrics()["component_failures"] == 1
    assert engine.step == STEPS
    assert engine.metrics()["admitted_total"] > 0
    assert len(engine.population.alive) > 1


@each_fault
def test_it_ends_training_if_so_configured(fault: str) -> None:
    with pytest.raises(ComponentError, match="on_component_failure is 'stop'"):
        train(build(on_failure="stop", **FAULTS[fault]()), STEPS)


@each_fault
@pytest.mark.parametrize(
    "killed", [pytest.param(step, marks=pytest.mark.slow if step != 6 else ()) for step in KILLED]
)
@pytest.mark.filterwarnings("ignore::evoprompt.errors.EvopromptWarning")
def test_a_resumed_run_equals_an_uninterrupted_one(fault: str, killed: int) -> None:
    whole, _ = uninterrupted(fault)
    state, events = saved(fault)[killed]
    resumed = build(**FAULTS[fault]())
    resumed.load_state_dict(json.loads(state))
    train(resumed, STEPS - killed)
    assert [*events, *list(resumed.log)[1:]] == list(whole.log)  # but for its own seed
    assert {**resumed.state_dict(), "events": 0} == {**whole.state_dict(), "events": 0}


@pytest.mark.filterwarnings("ignore::evoprompt.errors.EvopromptWarning")
def test_an_engine_that_goes_back_asks_the_component_again() -> None:
    sampler = BadSelector(boom, 5)
    engine = build(sampler=sampler)
    train(engine, 3)
    state = engine.state_dict()
    train(engine, 5)
    assert engine.selection.sampler.fallen
    engine.load_state_dict(state)
    assert engine.selection.sampler.component is sampler
    train(engine, 5)
    assert engine.selection.sampler.fallen


def test_a_new_attributor_starts_from_the_weights_last_known() -> None:
    moody = BadAttributor(boom, 10**9)
    engine = build(attributor=moody, weights="window")
    train(engine, 6)
    before = {s.candidate.id: s.weight for s in engine.candidate_stats()}
    moody.moment.at = 0
    with pytest.warns(EvopromptWarning, match="attributor"):
        after = {s.candidate.id: s.weight for s in engine.candidate_stats()}
    assert type(engine.selection.attributor.component) is WindowMean
    assert after == pytest.approx(before)
    assert len(set(after.values())) > 1


def test_one_that_shrinks_starts_from_their_order() -> None:
    moody = BadAttributor(boom, 10**9)
    engine = build(attributor=moody)
    train(engine, 6)
    before = {s.candidate.id: s.weight for s in engine.candidate_stats()}
    moody.moment.at = 0
    with pytest.warns(EvopromptWarning, match="attributor"):
        after = {s.candidate.id: s.weight for s in engine.candidate_stats()}
    assert type(engine.selection.attributor.component) is Adjusted
    assert sorted(after, key=lambda name: after[name]) == sorted(
        before, key=lambda name: before[name]
    )
    assert len(set(after.values())) > 1


def test_the_rollouts_that_a_failed_verifier_spent_are_counted() -> None:
    policy = ScriptedPolicy(reward)
    engine = build(verifier=BadVerifier(lambda usual: None, 1))
    with pytest.warns(EvopromptWarning, match="verifier"):
        FakeTrainer(policy, QUESTIONS).train(engine, 6)
    assert engine.rollouts == len(policy.trajectories)


@pytest.mark.parametrize("verifier", [BadVerifier(lambda usual: usual, 1), None])
def test_an_error_of_the_trainer_is_not_the_verifier_s(verifier: object) -> None:
    engine = build(verifier=verifier)
    train(engine, 4)

    def fails(assignments: Sequence[Assignment], /) -> Sequence[Trajectory]:
        raise MemoryError("the accelerator is full")

    with pytest.raises(MemoryError, match="the accelerator is full"):
        engine.evolve(fails)
    assert engine.evolution_due
    assert not engine.selection.attributor.fallen
    assert engine.metrics()["component_failures"] == 0


def test_a_state_that_cannot_be_saved_is_a_failure() -> None:
    class Unsaved(Unverified):
        def state_dict(self) -> dict[str, JsonValue]:
            return {"best": math.nan}

        def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
            raise AssertionError

    engine = build(verifier=Unsaved())
    train(engine, 5)
    with pytest.warns(EvopromptWarning, match="verifier Unsaved of .* not JSON compliant"):
        state = engine.state_dict()
    assert state["fallen"] == ["verifier"]


def test_a_population_may_let_candidates_go_by_itself() -> None:
    class Small(SteadyPopulation):
        def add(self, candidate: Candidate) -> None:
            super().add(candidate)
            if len(self) > 3:
                super().remove([self.alive[0].id])

        def remove(self, ids: Collection[str]) -> None:
            super().remove([one for one in ids if one in self])

    engine = build(population=Small())
    train(engine, 14)
    assert len(engine.population.alive) <= 3
    assert engine.metrics()["component_failures"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"proposer": "reflection"}, "proposer is 'reflection'; required: an object with the"),
        ({"proposer": SentenceEdit}, "proposer is the class SentenceEdit; required: an object"),
        ({"proposer": object()}, "proposer is a object without propose"),
        ({"sampler": "softmax"}, "sampler is 'softmax'; required"),
        ({"survivor": 3}, "survivor is a int without select"),
        ({"parent_selector": Deap}, "parent_selector is the class Deap"),
        ({"attributor": Softmax()}, "attributor is a Softmax without observe, stats"),
        ({"verifier": "unverified"}, "verifier is 'unverified'"),
        ({"population": {}}, "population is a dict without alive"),
        ({"config": {"window": 3}}, "config is {'window': 3}, a dict; required: EngineConfig"),
        ({"seed": "7"}, "seed is '7', a str; required: int"),
        ({"log": "events.jsonl"}, "log is 'events.jsonl', a str; required: EventLog"),
        ({"firewall": []}, r"firewall is \[\], a list; required: Firewall"),
        ({"required": "<answer>"}, "required is '<answer>', a str; required: list or tuple"),
    ],
)
def test_a_wrong_type_is_refused_when_given(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Engine(["Think."], **arguments)

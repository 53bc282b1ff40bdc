"""A component that does not return is named, whichever role it has; one that exits fails."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hanging import Hang, hanging
from waiting import PATIENCE

from evoprompt import Engine, EngineConfig, EvopromptWarning, Proposer, Selector, Verifier
from evoprompt.attributors import Adjusted
from evoprompt.proposers.background import Background
from evoprompt.proposers.combinators import Fallback
from evoprompt.roles import ProposalRequest, VerificationRequest
from evoprompt.rules import ScreeningContext
from evoprompt.selectors import Softmax
from evoprompt.support.calls import describe
from evoprompt.support.errors import ComponentError
from evoprompt.support.waiting import WaitMonitor, monitor
from evoprompt.testing.samples import question
from evoprompt.types import (
    Assignment,
    CandidateStats,
    Proposal,
    Trajectory,
    Verification,
    VerificationResult,
)
from evoprompt.verifiers import ReplayTopN

EVERY_STEP: dict[str, Any] = {
    "accept": "not-worse",
    "evolve_every": 1,
    "candidates_per_question": 1,
    "fill_at_start": False,
    "verify_rounds": 1,
}
Act = Callable[[], object]


class Writer(Proposer):
    """Writes a numbered text after it has done what it is made for."""

    def __init__(self, act: Act = lambda: None) -> None:
        self.act = act
        self.threads: list[str] = []
        self.taught: list[VerificationResult] = []

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        self.threads.append(threading.current_thread().name)
        self.act()
        text = f"Answer {request.rng.random()}."
        return [Proposal.of(text, request.parents[0].candidate)]

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        self.taught += results


class Judge(Verifier):
    def __init__(self, act: Act) -> None:
        self.act = act

    def verify(self, request: VerificationRequest) -> Verification:
        self.act()
        return ReplayTopN().verify(request)


class Draws(Selector):
    def __init__(self, act: Act) -> None:
        self.act = act

    def select(
        self, candidate_stats: Sequence[CandidateStats], k: int, rng: random.Random
    ) -> Sequence[CandidateStats]:
        self.act()
        return Softmax(1.0).select(candidate_stats, k, rng)


class Estimates(Adjusted):
    def __init__(self, act: Act) -> None:
        super().__init__()
        self.act = act

    def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
        self.act()
        super().observe(step, trajectories)


def roll_out(assignments: Sequence[Assignment], /) -> list[Trajectory]:
    return [Trajectory(one, n % 2, n) for one in assignments for n in range(one.rollouts)]


def step(trained: Engine) -> None:
    """Makes a step as a trainer does: evolve, ask, tell."""
    trained.evolve(roll_out)
    trained.tell(roll_out(trained.ask([question(0), question(1)], 2)))


def steps(trained: Engine, count: int) -> None:
    for _ in range(count):
        step(trained)


def engine(**roles: Any) -> Engine:
    return Engine(["Answer."], config=EngineConfig(**EVERY_STEP), rules=[], **roles)


def built(role: str, act: Act) -> Engine:
    """An engine whose component of a role does something else first."""
    if role == "proposer":
        return engine(proposer=Writer(act))
    if role == "verifier":
        return engine(proposer=Writer(), verifier=Judge(act))
    if role == "sampler":
        return engine(sampler=Draws(act))
    return engine(attributor=Estimates(act))


def judged_by(rule: Act) -> Engine:
    """An engine with one rule of screening, which does something and accepts every proposal."""

    def judge(_proposal: Proposal, _context: ScreeningContext) -> str | None:
        rule()
        return None

    return Engine(["Answer."], config=EngineConfig(**EVERY_STEP), rules=[judge], proposer=Writer())


NAMES = {"proposer": "Writer", "verifier": "Judge", "sampler": "Draws", "attributor": "Estimates"}


@pytest.mark.parametrize("role", NAMES)
def test_a_component_that_does_not_return_is_named_once(role: str) -> None:
    held: list[Hang] = []
    trained = built(role, lambda: held[0].wait())
    with hanging(f"the {role} {NAMES[role]} of module {__name__}", trained.log) as hang:
        held.append(hang)
        for _ in range(3):
            step(trained)
    (line,) = hang.lines
    assert line.startswith(
        f"the {role} {NAMES[role]} of module {__name__} has not returned after 0 s; everything "
        "waits for it; required: a result or an exception"
    )
    assert hang.noticed == [line]
    assert trained.step == 3


def test_the_distribution_of_a_component_and_of_a_function_is_named() -> None:
    assert describe(Adjusted()).startswith("Adjusted of evoprompt ")
    assert describe(Fallback.propose).startswith("propose of evoprompt ")
    assert describe(question).startswith("question of evoprompt ")


def test_no_line_is_given_before_the_patience_is_over() -> None:
    lines: list[str] = []
    patient = WaitMonitor(patience=1e6)
    with patient.watching(lambda: "a line", lines.append):
        assert patient.overdue() == []
    assert lines == []
    assert monitor.patience == 60.0


def test_of_calls_inside_each_other_the_innermost_is_named() -> None:
    lines: list[str] = []
    reported = threading.Event()

    def report(line: str) -> None:
        lines.append(line)
        reported.set()

    hasty = WaitMonitor(patience=0.0)
    with hasty.watching(lambda: "" if not lines else "the outer", report):
        with hasty.watching(lambda: "the inner"):
            assert reported.wait(PATIENCE)
            assert hasty.overdue() == ["the inner"]
        assert lines[0] == "the inner"


def test_rollouts_of_a_verification_are_not_taken_for_the_verifier() -> None:
    looked = threading.Event()
    named: list[str] = []

    def look() -> str:
        looked.set()
        return ""

    def slow(assignments: Sequence[Assignment], /) -> list[Trajectory]:
        # The monitor asks about this call, the innermost, and so looks at all of them.
        with monitor.watching(look):
            assert looked.wait(PATIENCE)
        named.extend(hang.lines)
        return roll_out(assignments)

    trained = engine(proposer=Writer(), verifier=ReplayTopN())
    step(trained)
    with hanging("the verifier ReplayTopN", trained.log) as hang:
        trained.evolve(slow)
    assert looked.is_set()
    assert named == []


def test_a_report_that_raises_ends_neither_the_monitor_nor_the_training() -> None:
    hasty = WaitMonitor(patience=0.0)
    raised, reported = threading.Event(), threading.Event()

    def fail(line: str) -> None:
        raised.set()
        raise ValueError(line)

    with hasty.watching(lambda: "first", fail):
        assert raised.wait(PATIENCE)
    with hasty.watching(lambda: "second", lambda line: reported.set()):
        assert reported.wait(PATIENCE)


# ------------------------------------------------------------------------------------ background


def test_an_attached_trainer_goes_on_while_a_proposer_without_anticipate_hangs() -> None:
    go = threading.Event()
    writer = Writer(lambda: go.wait(PATIENCE))
    trained = engine(proposer=writer)
    trained.waits = False
    with hanging("the proposer Writer", trained.log) as hang:
        for _ in range(4):
            step(trained)
        hang.wait()
    assert "training goes on without it" in hang.lines[0]
    assert (trained.step, len(writer.threads), trained.generation_stats.generations) == (4, 1, 0)
    late = [event["message"] for event in trained.log if event["event"] == "notice"]
    assert late == [
        "evolution is due at step 1 but the proposer is still thinking; training goes on"
    ]
    go.set()
    trained.waits = True
    step(trained)
    assert trained.generation_stats.generations == 1
    assert len(writer.taught) == 1


def test_a_fast_proposer_decides_the_same_with_and_without_a_trainer() -> None:
    texts = []
    for waits in (True, False):
        writer = Writer()
        trained = engine(proposer=writer)
        trained.waits = waits
        for _ in range(4):
            step(trained)
        texts.append([event for event in trained.log if event["event"] == "proposed"])
        assert {name == "MainThread" for name in writer.threads} == {waits}
    assert texts[0] == texts[1] != []


def test_a_proposer_that_is_to_be_waited_for_is_called_directly() -> None:
    writer = Writer()
    writer.is_waited_for = True
    trained = engine(proposer=writer)
    trained.waits = False
    steps(trained, 2)
    assert writer.threads == ["MainThread"]


def test_a_request_in_progress_is_made_again_after_a_resume() -> None:
    go = threading.Event()
    trained = engine(proposer=Writer(lambda: go.wait(PATIENCE)))
    trained.waits = False
    for _ in range(2):
        step(trained)
    state = trained.state_dict()
    go.set()
    resumed = engine(proposer=Writer())
    resumed.load_state_dict(state)
    assert resumed.evolution_due
    resumed.evolve(roll_out)
    assert resumed.generation_stats.generations == 1


def test_a_rule_that_does_not_return_is_named_once() -> None:
    held: list[Hang] = []
    trained = judged_by(lambda: held[0].wait())
    with hanging(f"the rule judge of module {__name__} has not", trained.log) as hang:
        held.append(hang)
        steps(trained, 3)
    assert len(hang.lines) == 1
    assert hang.noticed == hang.lines
    assert trained.generation_stats.generations == 2


# ------------------------------------------------------------------------------------------ exit


def leave() -> None:
    raise SystemExit(0)


def cancel() -> None:
    raise asyncio.CancelledError


ENDS = {leave: "would end the process", cancel: "cancelled itself"}


@pytest.mark.parametrize("role", ["verifier", "sampler", "attributor"])
def test_an_exit_is_an_error_that_names_the_component(role: str) -> None:
    trained = built(role, leave)
    with pytest.raises(ComponentError, match=f"the {role} {NAMES[role]} .*SystemExit: 0"):
        steps(trained, 2)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("waits", [True, False])
def test_an_exit_of_a_proposer_fails_a_generation(waits: bool, end: Callable[[], None]) -> None:
    trained = engine(proposer=Writer(end))
    trained.waits = waits
    step(trained)
    with pytest.warns(EvopromptWarning, match=f"the proposer Writer .* {ENDS[end]}"):
        step(trained)
    assert trained.generation_stats.proposer_failures == 1


@pytest.mark.parametrize("end", ENDS)
def test_an_exit_of_a_background_proposer_fails_a_generation(end: Callable[[], None]) -> None:
    trained = engine(proposer=Background(Writer(end)))
    step(trained)
    with pytest.warns(EvopromptWarning, match=f"the proposer Writer .* {ENDS[end]}"):
        step(trained)
    assert trained.generation_stats.proposer_failures == 1


def test_an_exit_of_a_rule_rejects_the_proposal() -> None:
    trained = judged_by(leave)
    step(trained)
    with pytest.warns(EvopromptWarning, match="screening refused all 1: judge"):
        step(trained)
    (proposed,) = [event for event in trained.log if event["event"] == "proposed"]
    assert "would end the process" in proposed["reason"]


def test_a_second_proposer_takes_over_after_an_exit() -> None:
    trained = engine(proposer=Fallback(Writer(leave), Writer()))
    for _ in range(2):
        step(trained)
    assert trained.generation_stats.generations_failed == 0
    assert trained.proposer.failures_caught == 1


# --------------------------------------------------------------------------------------- no end


class Endless(Proposer):
    """Returns a generator without an end."""

    def propose(self, request: ProposalRequest) -> Any:
        def texts() -> Iterator[Proposal]:
            for number in itertools.count():
                yield Proposal.of(f"Answer {number}.", request.parents[0].candidate)

        return texts()


@pytest.mark.parametrize("wrap", [lambda writer: writer, Background])
def test_endless_proposals_are_cut_with_a_notice(wrap: Callable[[Proposer], Proposer]) -> None:
    trained = engine(proposer=wrap(Endless()))
    for _ in range(2):
        step(trained)
    cut = [
        event["message"]
        for event in trained.log
        if event["event"] == "notice" and "or more for one request" in event["message"]
    ]
    assert len(cut) == 1
    assert "required: about as many as request.count" in cut[0]
    proposed = [event for event in trained.log if event["event"] == "proposed"]
    assert len(proposed) == 1000

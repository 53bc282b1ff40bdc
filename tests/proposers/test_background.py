from __future__ import annotations

import json
import random
import threading
from collections.abc import Sequence
from contextvars import ContextVar

import pytest
from waiting import PATIENCE, wait_for

from evoprompt.proposers.background import Background
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.testing.proposers import ProposerSuite
from evoprompt.testing.samples import request
from evoprompt.types import ADMITTED, Proposal, VerificationResult


class Slow(Proposer):
    """Answers only when it is told to."""

    name = "slow"

    def __init__(self, error: Exception | None = None) -> None:
        self.go = threading.Event()
        self.error = error
        self.asked: list[ProposalRequest] = []
        self.taught: list[VerificationResult] = []
        self.busy = False

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        self.asked.append(request)
        self.busy = True
        assert self.go.wait(PATIENCE)
        self.busy = False
        if self.error is not None:
            raise self.error
        text = f"draw {request.rng.random()} <answer></answer>"
        return [Proposal.of(text, request.parents[0].candidate)]

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        assert not self.busy
        self.taught += results


class Ready(Slow):
    """Answers at once."""

    def __init__(self) -> None:
        super().__init__()
        self.go.set()


class TestBackground(ProposerSuite):
    def build(self) -> Proposer:
        return Background(Ready())


def wait_until_ready(background: Background) -> None:
    wait_for(lambda: background.is_ready)


def test_who_asks_before_it_is_ready_waits_for_the_answer_under_way() -> None:
    slow = Slow()
    background = Background(slow)
    background.anticipate(request())
    threading.Timer(0.2, slow.go.set).start()
    assert len(background.propose(request())) == 1
    assert len(slow.asked) == 1


def test_a_newer_request_replaces_the_one_under_way() -> None:
    """``Slow`` would notice two threads; it is asked anew when it has ended."""
    slow = Slow()
    background = Background(slow)
    background.anticipate(request(seed=1))
    background.anticipate(request(seed=2))
    background.anticipate(request(seed=3))
    assert not background.is_ready
    slow.go.set()
    wait_until_ready(background)
    [proposal] = background.propose(request())
    assert len(slow.asked) == 2
    alone = Background(Ready())
    alone.anticipate(request(seed=3))
    wait_until_ready(alone)
    assert [proposal] == alone.propose(request())


def test_an_error_is_raised_when_its_time_comes_and_forgotten() -> None:
    slow = Slow(ConnectionError("nobody answers"))
    slow.go.set()
    background = Background(slow)
    background.anticipate(request())
    wait_until_ready(background)
    with pytest.raises(ConnectionError):
        background.propose(request())
    assert not background.is_ready


def test_what_it_proposes_repeats_from_the_seed() -> None:
    texts, after = [], []
    for _ in range(2):
        background, asked = Background(Ready()), request(seed=3)
        background.anticipate(asked)
        wait_until_ready(background)
        texts.append(background.propose(request())[0].text)
        after.append(asked.rng.getstate())
    assert texts[0] == texts[1]
    assert texts[0] != f"draw {random.Random(3).random()} <answer></answer>"
    slow, asked = Background(Slow()), request(seed=3)
    slow.anticipate(asked)
    after.append(asked.rng.getstate())
    assert after[0] == after[1] == after[2], "whether there is an answer yet draws nothing"


def test_verdicts_wait_until_the_thread_has_ended() -> None:
    slow = Slow()
    background = Background(slow)
    background.anticipate(request())
    result = VerificationResult(request().parents[0].candidate, 0.5, 0.1, 4, ADMITTED)
    background.feedback([result])
    assert slow.taught == []
    slow.go.set()
    wait_until_ready(background)
    background.propose(request())
    background.anticipate(request())
    assert slow.taught == [result]


def test_proposals_that_arrived_survive_a_kill() -> None:
    before = Background(Ready())
    before.anticipate(request())
    wait_until_ready(before)
    after = Background(Slow())
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))
    assert after.is_ready
    assert after.propose(request()) == before.propose(request())


def test_a_request_under_way_is_made_again_after_a_kill() -> None:
    slow = Slow()
    before = Background(slow)
    before.anticipate(request())
    after = Background(Ready())
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))
    slow.go.set()
    assert not after.is_ready


def test_the_thread_sees_the_context_of_the_caller() -> None:
    tenant: ContextVar[str] = ContextVar("tenant", default="nobody")
    seen: list[str] = []

    class Noting(Ready):
        def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
            seen.append(tenant.get())
            return super().propose(request)

    background = Background(Noting())
    token = tenant.set("the caller")
    background.anticipate(request())
    tenant.reset(token)
    wait_until_ready(background)
    assert seen == ["the caller"]

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import pytest
from pydantic import JsonValue

from evoprompt.errors import StateError
from evoprompt.lm import Estimate
from evoprompt.proposers.combinators import Fallback
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.testing.proposers import ProposerSuite
from evoprompt.testing.samples import request
from evoprompt.types import Proposal, VerificationResult


class Moody(Proposer):
    """Fails while it is down."""

    name = "moody"

    def __init__(self, down: bool = False) -> None:
        self.down = down
        self.taught = 0

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        if self.down:
            raise ConnectionError("nobody answers")
        parent = request.parents[0].candidate
        texts = (f"moody {number} <answer></answer>" for number in range(request.count))
        return [Proposal.of(text, parent) for text in texts]

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        self.taught += len(results)

    def estimate(self, generations: int, count: int, parents: int) -> Estimate:
        return Estimate(generations, 0, 1.0)

    def state_dict(self) -> dict[str, JsonValue]:
        return {"down": self.down}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        self.down = bool(state["down"])


class Steady(Proposer):
    """Always has one idea."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        return [Proposal.of("steady <answer></answer>", request.parents[0].candidate)]


class TestFallback(ProposerSuite):
    def build(self) -> Proposer:
        return Fallback(Moody(), Steady())


class TestFallbackInUse(ProposerSuite):
    def build(self) -> Proposer:
        return Fallback(Moody(down=True), Steady())


def test_while_the_first_works_the_second_is_not_asked() -> None:
    fallback = Fallback(Moody(), Steady())
    assert {one.proposer for one in fallback.propose(request())} == {"moody"}
    assert fallback.notices() == []


def test_when_the_first_fails_the_second_proposes_and_a_notice_says_so() -> None:
    fallback = Fallback(Moody(down=True), Steady())
    assert [one.proposer for one in fallback.propose(request())] == ["Steady"]
    (notice,) = fallback.notices()
    assert notice.startswith(
        "moody failed, Steady proposes instead: ConnectionError: nobody answers, at "
    )
    assert re.search(r"test_fallback\.py:\d+ in propose$", notice), "where it failed"
    assert fallback.notices() == []


def test_the_first_is_tried_again_every_time() -> None:
    moody = Moody(down=True)
    fallback = Fallback(moody, Steady())
    fallback.propose(request())
    moody.down = False
    assert {one.proposer for one in fallback.propose(request())} == {"moody"}


def test_price_and_state_are_those_of_its_parts() -> None:
    before = Fallback(Moody(down=True), Steady())
    assert before.estimate(5, 6, 1).calls == 5
    moody = Moody()
    Fallback(moody, Steady()).load_state_dict(json.loads(json.dumps(before.state_dict())))
    assert moody.down


def test_each_failure_is_counted_once_by_whoever_catches_it() -> None:
    fallback = Fallback(Fallback(Moody(down=True), Moody(down=True)), Steady())
    assert fallback.failures_caught == 0
    for _ in range(3):
        fallback.propose(request())
    assert fallback.failures_caught == 6


def test_a_failure_that_is_passed_on_is_for_the_caller_to_count() -> None:
    fallback = Fallback(Moody(down=True), Moody(down=True))
    with pytest.raises(ConnectionError):
        fallback.propose(request())
    assert fallback.failures_caught == 1


def test_the_count_survives_a_resume() -> None:
    before, after = (Fallback(Moody(down=True), Steady()) for _ in range(2))
    before.propose(request())
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))
    after.propose(request())
    assert after.failures_caught == 2


def test_a_state_of_something_else_is_refused() -> None:
    with pytest.raises(StateError, match="the state of a fallback cannot be read"):
        Fallback(Moody(), Steady()).load_state_dict({"first": {"down": True}, "second": {}})

"""Proposers around others pass on, catch, count and continue."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import pytest
from pydantic import JsonValue

from evoprompt.lm import Estimate
from evoprompt.proposers.combinators import Fallback, Wrapper
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.testing.proposers import ProposerSuite
from evoprompt.testing.samples import request
from evoprompt.types import Proposal, VerificationResult


class Scribe(Proposer):
    """Writes as many texts as it is asked for, all different, unless it is down."""

    def __init__(self, word: str = "scribe", down: bool = False) -> None:
        self.word = word
        self.down = down
        self.taught = 0

    @property
    def name(self) -> str:
        return self.word

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        if self.down:
            raise ConnectionError("nobody answers")
        parent = request.parents[0].candidate
        texts = (f"{self.word} {number} <answer></answer>" for number in range(request.count))
        return [Proposal.of(text, parent) for text in texts]

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        self.taught += len(results)

    def estimate(self, generations: int, count: int, parents: int) -> Estimate:
        return Estimate(generations, 0, 1.0)

    def state_dict(self) -> dict[str, JsonValue]:
        return {"down": self.down}

    def load_state_dict(self, state: Mapping[str, JsonValue]) -> None:
        self.down = bool(state["down"])


def broken() -> Scribe:
    return Scribe("broken", down=True)


def resumed(before: Wrapper, after: Wrapper) -> None:
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))


class TestFallbackInUse(ProposerSuite):
    def build(self) -> Proposer:
        return Fallback(broken(), Scribe("steady"))


def test_the_second_proposes_and_a_notice_says_so_while_the_first_fails() -> None:
    moody = Scribe("moody")
    fallback = Fallback(moody, Scribe("steady"))
    assert {one.proposer for one in fallback.propose(request())} == {"moody"}
    assert fallback.notices() == []
    moody.down = True
    assert {one.proposer for one in fallback.propose(request())} == {"steady"}
    (notice,) = fallback.notices()
    assert notice.startswith("moody failed, steady proposes instead: ConnectionError: nobody")
    assert re.search(r"test_combinators\.py:\d+ in propose$", notice), "where it failed"
    assert fallback.notices() == []
    moody.down = False
    assert {one.proposer for one in fallback.propose(request())} == {"moody"}
    assert fallback.estimate(5, 6, 1).calls == 5


def test_failures_are_counted_once_by_whoever_catches_them_through_a_resume() -> None:
    def build() -> Fallback:
        return Fallback(Fallback(broken(), broken()), Scribe("steady"))

    before, after = build(), build()
    assert before.failures_caught == 0
    for _ in range(3):
        before.propose(request())
    assert before.failures_caught == 6
    resumed(before, after)
    after.propose(request())
    assert after.failures_caught == 8
    passing_on = Fallback(broken(), broken())
    with pytest.raises(ConnectionError):
        passing_on.propose(request())
    assert passing_on.failures_caught == 1


def test_a_state_of_others_is_refused() -> None:
    states: list[dict[str, JsonValue]] = [{}, {"inner": [{}], "caught": 0}, {"inner": None}]
    for state in states:
        with pytest.raises((ValueError, LookupError)):
            Fallback(Scribe(), Scribe()).load_state_dict(state)

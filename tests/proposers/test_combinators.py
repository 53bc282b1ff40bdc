"""Proposers around others pass on, catch, count and continue."""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from pydantic import JsonValue

from evoprompt.errors import InputError, StateError
from evoprompt.lm import Estimate
from evoprompt.proposers.combinators import Fallback, Mixture, Wrapper
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.testing.proposers import ProposerSuite
from evoprompt.testing.samples import request
from evoprompt.types import Candidate, Proposal, VerificationResult


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


def results(
    proposals: Sequence[Proposal], admitted: Mapping[str, bool]
) -> list[VerificationResult]:
    return [
        VerificationResult(
            Candidate(f"n{index}", one.components, proposer=one.proposer),
            mean=0.5,
            stderr=0.1,
            scored=4,
            admitted=admitted[one.proposer],
        )
        for index, one in enumerate(proposals)
    ]


def resumed(before: Wrapper, after: Wrapper) -> None:
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))


class TestFallbackInUse(ProposerSuite):
    def build(self) -> Proposer:
        return Fallback(broken(), Scribe("steady"))


class TestMixture(ProposerSuite):
    def build(self) -> Proposer:
        return Mixture({"one": Scribe("one"), "two": Scribe("two")})


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


def test_it_learns_whose_offspring_get_admitted() -> None:
    mixture = Mixture({"good": Scribe("first"), "bad": Scribe("second")})
    proposals = mixture.propose(request(count=20))
    signatures = {(one.proposer, one.text.split()[0]) for one in proposals}
    assert signatures == {("good", "first"), ("bad", "second")}
    rng = random.Random(0)
    for _ in range(15):
        asked = request(count=6, seed=rng.randrange(1000))
        mixture.feedback(results(mixture.propose(asked), {"good": True, "bad": False}))
    late = Counter(one.proposer for one in mixture.propose(request(count=50)))
    assert late["good"] > 40
    rates = mixture.success_rates
    assert rates["good"] > 0.8 > 0.5 > rates["bad"]
    assert mixture.metrics()["mixture/good"] == rates["good"]


def test_proposals_that_never_reach_verification_are_failures() -> None:
    mixture = Mixture({"refused": Scribe(), "fine": Scribe(), "broken": broken()})
    for seed in range(10):
        proposals = mixture.propose(request(count=6, seed=seed))
        survivors = [one for one in proposals if one.proposer == "fine"]
        mixture.feedback(results(survivors, {"fine": True}))
    rates = mixture.success_rates
    assert max(rates["refused"], rates["broken"]) < 0.4 < rates["fine"]
    assert any("broken failed in the mixture: Conn" in note for note in mixture.notices())
    assert mixture.notices() == []


def test_when_all_fail_the_error_is_raised_and_the_others_are_counted() -> None:
    mixture = Mixture({"broken": broken(), "worse": broken()})
    with pytest.raises(ConnectionError, match="nobody answers"):
        mixture.propose(request(count=20))
    assert mixture.failures_caught == 1


def test_each_proposer_learns_from_its_own_offspring_only() -> None:
    one, two = Scribe(), Scribe()
    mixture = Mixture({"one": one, "two": two})
    proposals = mixture.propose(request(count=20))
    mixture.feedback(results(proposals, {"one": True, "two": False}))
    counts = Counter(proposal.proposer for proposal in proposals)
    assert (one.taught, two.taught) == (counts["one"], counts["two"])


def test_old_trials_fade() -> None:
    mixture = Mixture({"one": Scribe()})
    mixture.feedback(results(mixture.propose(request(count=8)), {"one": True}))
    assert mixture.success_rates["one"] == 0.9
    for _ in range(20):
        mixture.feedback(results(mixture.propose(request(count=1)), {"one": False}))
    assert mixture.success_rates["one"] < 0.25


def test_a_resumed_mixture_continues() -> None:
    def build() -> Mixture:
        return Mixture({"broken": broken(), "inner": Fallback(broken(), Scribe())})

    before, after = build(), build()
    before.feedback(results(before.propose(request(count=20)), {"inner": True}))
    before.propose(request(count=3))
    resumed(before, after)
    assert after.success_rates == before.success_rates
    assert after.propose(request(count=20)) == before.propose(request(count=20))
    assert after.failures_caught == before.failures_caught > 2
    assert after.metrics() == before.metrics()


def test_a_state_of_others_and_a_mixture_of_nobody_are_refused() -> None:
    with pytest.raises(StateError, match="the same"):
        Mixture({"two": Scribe()}).load_state_dict(Mixture({"one": Scribe()}).state_dict())
    states: list[dict[str, JsonValue]] = [{}, {"inner": [{}], "caught": 0}, {"inner": None}]
    for state in states:
        with pytest.raises((ValueError, LookupError)):
            Fallback(Scribe(), Scribe()).load_state_dict(state)
    with pytest.raises(InputError, match="at least one"):
        Mixture({})

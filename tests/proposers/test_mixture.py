from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from evoprompt.errors import InputError, StateError
from evoprompt.proposers.combinators import Fallback, Mixture
from evoprompt.roles import ProposalRequest, Proposer
from evoprompt.testing.proposers import ProposerSuite
from evoprompt.testing.samples import request
from evoprompt.types import Candidate, Proposal, VerificationResult


class Scribe(Proposer):
    """Writes as many texts as it is asked for, all different."""

    def __init__(self, word: str = "scribe") -> None:
        self.word = word
        self.taught = 0

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        parent = request.parents[0].candidate
        return [
            Proposal.of(f"{self.word} {number} <answer></answer>", parent)
            for number in range(request.count)
        ]

    def feedback(self, results: Sequence[VerificationResult]) -> None:
        self.taught += len(results)


class Broken(Proposer):
    """Never has a good day."""

    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        raise RuntimeError("out of order")


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


class TestMixture(ProposerSuite):
    def build(self) -> Proposer:
        return Mixture({"one": Scribe("one"), "two": Scribe("two")})


def test_every_proposal_is_signed_by_who_wrote_it() -> None:
    proposals = Mixture({"one": Scribe("first"), "two": Scribe("second")}).propose(
        request(count=20)
    )
    assert len(proposals) == 20
    assert {(one.proposer, one.text.split()[0]) for one in proposals} == {
        ("one", "first"),
        ("two", "second"),
    }


def test_it_learns_whose_offspring_get_admitted() -> None:
    mixture = Mixture({"good": Scribe(), "bad": Scribe()})
    rng = random.Random(0)
    for _ in range(15):
        asked = request(count=6, seed=rng.randrange(1000))
        mixture.feedback(results(mixture.propose(asked), {"good": True, "bad": False}))
    late = Counter(one.proposer for one in mixture.propose(request(count=50)))
    assert late["good"] > 40
    rates = mixture.success_rates
    assert rates["good"] > 0.8 > 0.5 > rates["bad"]


def test_proposals_that_never_reach_verification_are_failures() -> None:
    mixture = Mixture({"refused": Scribe(), "fine": Scribe()})
    for seed in range(10):
        proposals = mixture.propose(request(count=6, seed=seed))
        survivors = [one for one in proposals if one.proposer == "fine"]
        mixture.feedback(results(survivors, {"fine": True}))
    assert mixture.success_rates["refused"] < 0.4 < mixture.success_rates["fine"]


def test_one_that_fails_is_noted_and_asked_less() -> None:
    mixture = Mixture({"broken": Broken(), "fine": Scribe()})
    for seed in range(8):
        assert mixture.propose(request(count=4, seed=seed))
    assert any(
        "broken failed in the mixture: " in note and "out of order" in note
        for note in mixture.notices()
    )
    assert mixture.notices() == []
    assert mixture.success_rates["broken"] < 0.4


def test_when_all_fail_the_error_is_raised_and_the_others_are_counted() -> None:
    mixture = Mixture({"broken": Broken(), "worse": Broken()})
    with pytest.raises(RuntimeError, match="out of order"):
        mixture.propose(request())
    assert mixture.failures_caught == 1


def test_failures_that_training_survives_are_counted_through_a_resume() -> None:
    def build() -> Mixture:
        return Mixture({"broken": Broken(), "inner": Fallback(Broken(), Scribe())})

    before, after = build(), build()
    before.propose(request(count=20))
    assert before.failures_caught == 2
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))
    assert after.failures_caught == 2
    assert after.propose(request(count=20)) == before.propose(request(count=20))
    assert after.failures_caught == before.failures_caught > 2


def test_each_proposer_learns_from_its_own_offspring_only() -> None:
    one, two = Scribe(), Scribe()
    mixture = Mixture({"one": one, "two": two})
    proposals = mixture.propose(request(count=20))
    mixture.feedback(results(proposals, {"one": True, "two": False}))
    counts = Counter(proposal.proposer for proposal in proposals)
    assert (one.taught, two.taught) == (counts["one"], counts["two"])


def test_old_trials_fade() -> None:
    mixture = Mixture({"one": Scribe()}, memory=0.5)
    mixture.feedback(results(mixture.propose(request(count=8)), {"one": True}))
    before = mixture.success_rates["one"]
    for _ in range(3):
        mixture.feedback(results(mixture.propose(request(count=1)), {"one": False}))
    assert before == 0.9
    assert mixture.success_rates["one"] < 0.5


def test_a_resumed_mixture_continues() -> None:
    before = Mixture({"one": Scribe(), "two": Scribe()})
    before.feedback(results(before.propose(request(count=9)), {"one": True, "two": False}))
    before.propose(request(count=3))
    after = Mixture({"one": Scribe(), "two": Scribe()})
    after.load_state_dict(json.loads(json.dumps(before.state_dict())))
    assert after.success_rates == before.success_rates
    assert after.propose(request(count=9)) == before.propose(request(count=9))
    assert after.metrics() == before.metrics()


def test_a_state_of_other_proposers_is_refused() -> None:
    state = Mixture({"one": Scribe()}).state_dict()
    with pytest.raises(StateError, match="the same"):
        Mixture({"two": Scribe()}).load_state_dict(state)
    with pytest.raises(StateError, match="cannot be read"):
        Mixture({"two": Scribe()}).load_state_dict({})


@pytest.mark.parametrize(("names", "memory"), [([], 0.9), (["one"], 0.0), (["one"], 1.5)])
def test_impossible_mixtures_are_refused(names: list[str], memory: float) -> None:
    with pytest.raises(InputError, match="required"):
        Mixture({name: Scribe() for name in names}, memory)

"""Verification in training: what a verifier decides from leads and numbers of rollouts."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.replay import ReplayBuffer
from evoprompt.roles import ProposalRequest, Proposer, TrainingScale, VerificationRequest, Verifier
from evoprompt.testing import ScriptedEstimator, VerifierSuite
from evoprompt.testing.samples import candidate
from evoprompt.types import (
    REJECTED,
    Proposal,
    Question,
    Trajectory,
    Verification,
    VerificationResult,
)
from evoprompt.verifiers import InTraining

SCALE = TrainingScale(questions=16, rollouts=5, candidates=5, mean_reward=0.3)


def decide(
    *values: float,
    stderr: float = 0.02,
    scored: int = 200,
    slots: int = 7,
    scale: TrainingScale = SCALE,
) -> dict[str, VerificationResult]:
    """Return the decisions about c1, c2, ... of these leads over c0, the incumbent."""
    estimator = ScriptedEstimator(
        {f"c{number}": value for number, value in enumerate((0.0, *values))}, stderr
    )
    trials = [
        VerificationResult(candidate(number), 0.5, 0.1, scored)
        for number in range(1, len(values) + 1)
    ]
    request = VerificationRequest(
        [result.candidate for result in trials],
        [],
        ReplayBuffer(),
        None,
        slots,
        random.Random(0),
        estimator=estimator,
        incumbent=candidate(0),
        trials=trials,
        scale=scale,
    )
    results = InTraining().verify(request).results
    assert len(results) == len(values)
    return {result.candidate.id: result for result in results}


def words(results: Mapping[str, VerificationResult]) -> list[str]:
    return [results[f"c{number}"].decision for number in range(1, len(results) + 1)]


class TestDecisions:
    def test_a_clear_lead_is_admitted_a_clear_lag_rejected_and_the_rest_stays_on_trial(
        self,
    ) -> None:
        results = decide(0.3, -0.3, 0.02)
        assert words(results) == ["admitted", "rejected", "rejected"]
        assert words(decide(-0.3, 0.03)) == ["rejected", "on trial"]
        assert results["c1"].reason == ""
        assert results["c2"].reason == (
            "0.600 behind c1 after 200 rollouts; unlikely to be 0.050 ahead"
        )

    @pytest.mark.parametrize("values", [(0.1, 0.3, 0.2), (0.3, 0.1, 0.2), (0.2, 0.1, 0.3)])
    def test_of_several_the_greatest_lead_is_admitted_and_the_others_compared_with_it(
        self, values: tuple[float, ...]
    ) -> None:
        results = decide(*values)
        assert [results[f"c{number}"].is_admitted for number in (1, 2, 3)] == [
            value == 0.3 for value in values
        ]
        winner = f"c{values.index(0.3) + 1}"
        assert all(f"behind {winner} " in one.reason for one in results.values() if one.reason)

    def test_of_equal_leads_the_first_is_admitted(self) -> None:
        assert words(decide(0.3, 0.3, stderr=0.01)) == ["admitted", "rejected"]

    def test_no_more_are_admitted_than_there_are_places(self) -> None:
        assert words(decide(0.3, slots=0)) == ["on trial"]

    @pytest.mark.parametrize(
        ("questions", "most"), [(16, 1600), (511, 1600), (512, 4444), (5120, 4444)]
    )
    def test_a_trial_ends_after_four_over_the_square_of_the_lead_that_is_waited_for(
        self, questions: int, most: int
    ) -> None:
        """That lead is .05, and .03 in large steps."""
        scale = replace(SCALE, questions=questions)
        assert InTraining().max_trial_rollouts(scale) == most
        assert words(decide(scale.rewards[1] * 0.02, stderr=0.05, scored=most, scale=scale)) == [
            "on trial"
        ]

    def test_ties_alone_are_rejected_soon(self) -> None:
        assert words(decide(0.0, stderr=0.0, scored=10)) == ["on trial"]
        assert words(decide(0.0, stderr=0.0, scored=80)) == ["rejected"]


class TestWorthwhileLead:
    @pytest.mark.parametrize(
        ("mean_reward", "expected"),
        [(None, 0.05), (0.0, 0.05), (0.5, 0.05), (0.75, 0.025), (0.9, 0.01), (1.0, 0.01)],
    )
    def test_shrinks_near_the_ceiling_of_rewards(
        self, mean_reward: float | None, expected: float
    ) -> None:
        scale = replace(SCALE, mean_reward=mean_reward)
        assert InTraining().worthwhile_lead(scale) == pytest.approx(expected)
        large = replace(scale, questions=512)
        assert InTraining().worthwhile_lead(large) == pytest.approx(0.6 * expected)

    def test_is_waited_for(self) -> None:
        low, high = SCALE, replace(SCALE, mean_reward=0.98)
        assert words(decide(0.0, stderr=0.02, scale=low)) == ["rejected"]
        assert words(decide(0.0, stderr=0.02, scale=high)) == ["on trial"]
        assert words(decide(-0.02, stderr=0.015, scale=high)) == ["rejected"]

    def test_is_in_proportion_to_the_range_of_rewards(self) -> None:
        scale = TrainingScale(16, 5, 5, rewards=(-100.0, 100.0), mean_reward=50.0)
        assert InTraining().worthwhile_lead(scale) == pytest.approx(200 * 0.025)
        assert words(decide(60.0, -60.0, stderr=4.0, scale=scale)) == ["admitted", "rejected"]
        assert words(decide(0.3, stderr=4.0, scale=scale)) == ["on trial"]


def test_a_step_of_many_questions_tries_more_together() -> None:
    verifier = InTraining()
    numbers = [
        verifier.proposals(3, 1, replace(SCALE, questions=questions)) for questions in (16, 63, 64)
    ]
    assert numbers == [6, 6, 12]


def test_needs_an_estimator_and_an_incumbent() -> None:
    request = VerificationRequest([], [], ReplayBuffer(), None, 1, random.Random(0))
    with pytest.raises(ValueError, match="no estimator or no incumbent; required: both"):
        InTraining().verify(request)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.5, 2.0, math.nan])
def test_a_share_that_leaves_one_side_none_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="required: between 0 and 1"):
        InTraining(share)


class Concise(Verifier):
    """Rejects texts of more than five words, and lets training decide about the others."""

    def __init__(self) -> None:
        self.inner = InTraining()
        self.share = self.inner.share

    def verify(self, request: VerificationRequest) -> Verification:
        short = [one for one in request.proposed if len(one.text.split()) <= 5]
        found = self.inner.verify(replace(request, proposed=short))
        rejected = [
            VerificationResult(one, None, None, 0, REJECTED, "it has more than five words")
            for one in request.proposed
            if one not in short
        ]
        return replace(found, results=(*found.results, *rejected))


class Numbering(Proposer):
    """Writes the same advice twice under a number, once in many words."""

    def __init__(self) -> None:
        self.written = 0

    def propose(self, request: ProposalRequest) -> list[Proposal]:
        self.written += 1
        return [
            Proposal.of(f"Way {self.written}."),
            Proposal.of(f"Take the way of the number {self.written}."),
        ]


class TestInTraining(VerifierSuite):
    def build(self) -> Verifier:
        return InTraining()


def test_a_verifier_that_wraps_it_works_in_an_engine() -> None:
    rng = random.Random(0)
    engine = Engine(
        ["Go on."], proposer=Numbering(), config=EngineConfig(), verifier=Concise(), rules=[]
    )
    each = engine.divide_rollouts(5, "num_generations")
    for step in range(30):
        engine.evolve(lambda assignments: [])
        batch = [Question(f"{step} {number}", "Who?") for number in range(16)]
        engine.tell(
            [
                Trajectory(
                    assignment,
                    float(rng.random() < 0.2 + 0.6 * ("Way" in assignment.candidate.text)),
                )
                for assignment in engine.ask(batch, each)
            ]
        )
    events = [event for event in engine.log if event["event"] == "verified"]
    reasons = {event["candidate"]: event["reason"] for event in events}
    texts = {
        event["candidate"]: event["components"]["instruction"]
        for event in engine.log
        if event["event"] == "proposed"
    }
    long = {name for name, text in texts.items() if len(text.split()) > 5}
    assert long
    assert {reasons[name] for name in long} == {"it has more than five words"}
    assert engine.best.text.startswith("Way ")
    assert all(len(member.text.split()) <= 5 for member in engine.population.members)
    assert engine.verification_rollouts == 0

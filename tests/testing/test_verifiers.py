"""The suite of verifiers passes what is right and names what is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

import pytest
from failing_checks import failing

from evoprompt.roles import VerificationRequest
from evoprompt.testing import (
    VerifierSuite,
)
from evoprompt.types import (
    Assignment,
    Trajectory,
    Verification,
)
from evoprompt.verifiers import ReplayTopN


class Faulty(ReplayTopN):
    """A verifier whose findings a test spoils."""

    spoil: Callable[[Verification], Verification]

    def verify(self, request: VerificationRequest) -> Verification:
        found = super().verify(request)
        return type(self).spoil(found)


def spoilt(spoil: Callable[[Verification], Verification]) -> set[str]:
    return failing(VerifierSuite, type("Spoilt", (Faulty,), {"spoil": staticmethod(spoil)}))


class TestVerifiers:
    @pytest.mark.parametrize("accept", ["top", "not-worse"])
    def test_replay_top_n_passes(self, accept: Literal["top", "not-worse"]) -> None:
        assert failing(VerifierSuite, lambda: ReplayTopN(16, accept)) == set()

    def test_one_that_drops_a_verdict(self) -> None:
        found = spoilt(lambda found: replace(found, results=found.results[:-1]))
        assert "gives one result per proposed candidate" in found

    def test_one_that_admits_everybody(self) -> None:
        found = spoilt(
            lambda found: replace(
                found, results=tuple(replace(one, admitted=True) for one in found.results)
            )
        )
        assert {
            "admits at most as many as there are places",
            "admits nobody it tried in vain to measure",
        } <= found

    def test_one_that_admits_nobody(self) -> None:
        found = spoilt(
            lambda found: replace(
                found, results=tuple(replace(one, admitted=False) for one in found.results)
            )
        )
        assert found == {"admits a candidate that is always right"}

    def test_one_that_lists_the_worst_first(self) -> None:
        found = spoilt(lambda found: replace(found, results=found.results[::-1]))
        assert found == {"lists the best first"}

    def test_one_that_hides_rollouts(self) -> None:
        found = spoilt(lambda found: replace(found, trajectories=found.trajectories[1:]))
        assert found == {"reports every rollout it spent"}

    def test_one_that_counts_failed_rollouts_as_zero(self) -> None:
        def recount(found: Verification) -> Verification:
            results = []
            for result in found.results:
                own = [t for t in found.trajectories if t.candidate.id == result.candidate.id]
                mean = sum(t.reward or 0.0 for t in own) / len(own) if own else None
                results.append(replace(result, mean=mean, scored=len(own)))
            results.sort(key=lambda result: -(result.mean or 0.0))
            return replace(found, results=tuple(results))

        assert "does not count rollouts without a reward" in spoilt(recount)

    def test_one_that_trains_instead_of_verifying(self) -> None:
        class Training(ReplayTopN):
            def verify(self, request: VerificationRequest) -> Verification:
                def relabelled(assignments: Sequence[Assignment], /) -> Sequence[Trajectory]:
                    return request.rollout([replace(one, purpose="train") for one in assignments])

                return super().verify(replace(request, rollout=relabelled))

        assert failing(VerifierSuite, Training) == {"rolls out only whom and what it was given"}

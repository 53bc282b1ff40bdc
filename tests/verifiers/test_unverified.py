"""The control without verification admits as it comes, and spends nothing."""

from __future__ import annotations

import random

import pytest

from evoprompt.replay import ReplayBuffer
from evoprompt.roles import VerificationRequest
from evoprompt.testing import ScriptedPolicy
from evoprompt.testing.samples import candidate, candidate_stats
from evoprompt.verifiers import Unverified


@pytest.mark.parametrize(
    ("slots", "expected"), [(0, []), (2, ["c1", "c2"]), (9, ["c1", "c2", "c3"])]
)
def test_the_first_are_admitted_without_a_rollout(slots: int, expected: list[str]) -> None:
    policy = ScriptedPolicy(lambda assignment: 1.0)
    proposed = [candidate(number, ["c0"]) for number in (1, 2, 3)]
    found = Unverified().verify(
        VerificationRequest(
            proposed, candidate_stats([0.5]), ReplayBuffer(), policy, slots, random.Random(0)
        )
    )
    assert [result.candidate for result in found.results] == proposed
    assert [result.candidate.id for result in found.results if result.is_admitted] == expected
    assert all(bool(result.reason) != result.is_admitted for result in found.results)
    assert all(result.mean is None and not result.scored for result in found.results)
    assert policy.assignments == []
    assert (found.trajectories, found.parents) == ((), ())

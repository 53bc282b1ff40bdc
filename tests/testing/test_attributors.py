"""The suite of attributors passes what is right and names what is wrong."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from failing_checks import failing
from pydantic import JsonValue

from evoprompt.attributors import WindowMean
from evoprompt.testing import (
    AttributorSuite,
)
from evoprompt.types import (
    Candidate,
    CandidateStats,
    Trajectory,
)


class TestAttributors:
    def test_window_mean_passes(self) -> None:
        assert failing(AttributorSuite, WindowMean) == set()

    def test_one_that_scores_failed_rollouts_as_zero(self) -> None:
        class Punishing(WindowMean):
            def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
                super().observe(step, [replace(t, reward=t.reward or 0.0) for t in trajectories])

        assert "ignores trajectories without a reward" in failing(AttributorSuite, Punishing)

    def test_one_that_keeps_only_the_last_call_of_a_step(self) -> None:
        class Overwriting(WindowMean):
            def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
                self.reset({})
                super().observe(step, trajectories)

        assert "does not depend on how a step is split" in failing(AttributorSuite, Overwriting)

    def test_one_that_keeps_only_the_first_reward(self) -> None:
        class Hasty(WindowMean):
            def observe(self, step: int, trajectories: Sequence[Trajectory]) -> None:
                first = {t.candidate.id: t for t in reversed(trajectories)}
                super().observe(step, list(first.values()))

        assert "does not depend on the order within a step" in failing(AttributorSuite, Hasty)

    def test_one_that_turns_rewards_round(self) -> None:
        class Contrary(WindowMean):
            def stats(self, candidate: Candidate) -> CandidateStats:
                found = super().stats(candidate)
                return replace(found, weight=-found.weight)

        assert "prefers the higher reward" in failing(AttributorSuite, Contrary)

    def test_one_that_keeps_its_memory_when_reset(self) -> None:
        class Nostalgic(WindowMean):
            def reset(self, priors: Mapping[str, Sequence[float]]) -> None: ...

        assert failing(AttributorSuite, Nostalgic) == {
            "starts anew when reset",
            "starts from the rewards of a reset",
        }

    def test_one_that_does_not_forget(self) -> None:
        class Resentful(WindowMean):
            def forget(self, ids: Collection[str]) -> None: ...

        assert failing(AttributorSuite, Resentful) == {"forgets whom it is told to"}

    def test_one_that_says_nan_of_the_unknown(self) -> None:
        class Undecided(WindowMean):
            def stats(self, candidate: Candidate) -> CandidateStats:
                found = super().stats(candidate)
                return found if found.groups else replace(found, weight=math.nan)

        assert "knows nothing of a candidate without rollouts" in failing(
            AttributorSuite, Undecided
        )

    def test_one_that_loses_its_state(self) -> None:
        class Amnesic(WindowMean):
            def state_dict(self) -> dict[str, JsonValue]:
                return {"accounts": {}}

        assert failing(AttributorSuite, Amnesic) == {"continues from a saved state"}

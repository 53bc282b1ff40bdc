"""What an engine does with rewards that tell little: defined, and the same after a resume."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.testing.samples import question
from evoprompt.types import Assignment, Trajectory

Reward = Callable[[Assignment, int], float]

PRESETS = ["default", "inspo", "fst"]


def engine(preset: str, **numbers: object) -> Engine:
    config = EngineConfig.model_validate(
        {"preset": preset, "population_size": 7, "fill_at_start": False, **numbers}
    )
    return Engine([f"Instruction {number}." for number in range(7)], config=config, seed=2)


def rollouts(one: Engine) -> int:
    """Per question and candidate: whatever the grouping, there is something to compare."""
    return 1 if one.config.grouping == "question" else 2


def step(
    one: Engine, reward: Reward, questions: int = 24, repeated: bool = False
) -> tuple[str, ...]:
    """Ids of those pruned in it."""
    number = one.step + 1
    first = 0 if repeated else 100 * number
    asked = one.ask([question(first + index) for index in range(questions)], rollouts(one))
    return one.tell(
        [
            Trajectory(assignment, reward(assignment, number), index)
            for assignment in asked
            for index in range(assignment.rollouts)
        ]
    ).pruned


def own(assignment: Assignment) -> int:
    return int(assignment.candidate.id[1:])


@pytest.mark.filterwarnings("ignore::evoprompt.errors.EvopromptWarning")
@pytest.mark.parametrize("preset", PRESETS)
class TestEveryPreset:
    @pytest.mark.parametrize("value", [0.0, 0.3])
    def test_where_all_rewards_are_equal_the_oldest_stay(self, preset: str, value: float) -> None:
        one = engine(preset)
        pruned = [step(one, lambda assignment, number: value) for _ in range(5)]
        assert all(stats.groups for stats in one.candidate_stats())
        dropped = ("c4", "c5", "c6") if one.config.prune_every else ()
        assert pruned == [(), (), (), (), dropped]
        assert one.best.id == "c0"

    def test_the_last_digit_decides_nothing(self, preset: str) -> None:
        """0.1 + 0.2 is more than 0.3 by the last digit."""
        one = engine(preset)
        pruned = [
            step(one, lambda assignment, number: 0.1 + 0.2 if own(assignment) > 3 else 0.3)
            for _ in range(5)
        ]
        assert pruned[-1] == (("c4", "c5", "c6") if one.config.prune_every else ())

    def test_one_question_for_ever_finds_the_leader_on_it_and_shows_nothing(
        self, preset: str
    ) -> None:
        one = engine(preset)
        for _ in range(25):
            step(one, lambda assignment, number: own(assignment) / 6, 1, repeated=True)
        drawn = [stats for stats in one.candidate_stats() if stats.groups]
        best = max(drawn, key=lambda stats: int(stats.candidate.id[1:])).candidate
        assert one.selection.leader == best
        assert one.best.id == "c0"  # one question shows nothing of others

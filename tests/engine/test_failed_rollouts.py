"""Training rollouts without a reward are counted and reported, whichever host passes them."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest

from evoprompt import EvopromptWarning
from evoprompt.config import EngineConfig
from evoprompt.engine import Engine
from evoprompt.experiments.history import TrainingHistory
from evoprompt.hosting.binding import FEW, Binding, RolloutOutcome
from evoprompt.log.eventlog import EventLog
from evoprompt.testing.samples import question
from evoprompt.types import Trajectory

QUESTIONS = [question(number) for number in range(4)]
ROLLOUTS = 10
FEEDBACK = "the judge did not answer"


class Trainer:
    """A trainer that an engine can be bound to."""


def engine(log: EventLog | None = None) -> Engine:
    return Engine(["Answer."], log=log, config=EngineConfig(candidates_per_question=1))


def train(trained: Engine, failed_by_step: Sequence[int]) -> list[str]:
    """Runs steps of 40 rollouts with so many failures; returns the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for failed in failed_by_step:
            places = [(a, n) for a in trained.ask(QUESTIONS, ROLLOUTS) for n in range(ROLLOUTS)]
            trained.tell(
                [
                    Trajectory(a, None, n, feedback=FEEDBACK)
                    if place < failed
                    else Trajectory(a, 1.0, n)
                    for place, (a, n) in enumerate(places)
                ]
            )
    assert {warning.category for warning in caught} <= {EvopromptWarning}
    return [str(warning.message) for warning in caught]


def notices(trained: Engine) -> list[str]:
    return [event["message"] for event in trained.log if event["event"] == "notice"]


def test_a_training_without_any_reward_warns_at_its_first_step() -> None:
    trained = engine()
    first, second = train(trained, [40] * 11)
    assert first.startswith(
        "40 of 40 rollouts of step 1 have no reward, the first because c0 got no reward on question"
    )
    assert FEEDBACK in first
    assert "required: a finite reward for each; look at the reward function" in first
    assert second.startswith("40 of 40 rollouts of step 10 have no reward")
    assert notices(trained) == [first, second]


def test_few_failures_are_a_notice_and_five_percent_a_warning() -> None:
    trained = engine()
    assert train(trained, [0, 1, 1, 1]) == []
    (notice,) = notices(trained)
    assert notice.startswith("1 of 40 rollouts of step 2 have no reward")
    (message,) = train(trained, [2])
    assert message.startswith("2 of 40 rollouts of step 5 have no reward")


def test_failures_that_become_many_after_a_warning_are_warned_of_again() -> None:
    trained = engine()
    assert len(train(trained, [2])) == 1
    assert train(trained, [2] * 8) == []
    assert len(train(trained, [2])) == 1


def test_a_training_in_which_nothing_fails_says_nothing_of_it() -> None:
    trained = engine()
    assert train(trained, [0] * 3) == []
    assert notices(trained) == []
    assert trained.metrics()["rollouts_failed"] == 0


def test_the_count_is_a_default_metric_and_survives_a_resume() -> None:
    assert "rollouts_failed" in FEW
    trained = engine()
    assert len(train(trained, [8])) == 1
    resumed = engine()
    resumed.load_state_dict(trained.state_dict())
    assert train(resumed, [1]) == []
    assert resumed.metrics()["rollouts_failed"] == 9


def test_the_closing_line_says_how_many_failed(caplog: pytest.LogCaptureFixture) -> None:
    binding = Binding(engine(), Trainer())
    assert len(train(binding.engine, [8, 0])) == 1
    with caplog.at_level(logging.INFO, logger="evoprompt"):
        binding.report_end()
    assert "training rollouts without a reward, failed: 8 of 80, first because c0" in caplog.text


def test_the_history_of_a_log_counts_them(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    trained = engine(EventLog(log))
    assert len(train(trained, [0, 8])) == 1
    failures = TrainingHistory.read(log).rollout_failures
    assert (failures.failed, failures.of) == (8, 80)
    assert failures.first.startswith("c0 got no reward on question")


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), -float("inf"), 1e200])
def test_a_reward_that_is_no_finite_number_is_a_failure_with_its_number(reward: float) -> None:
    trained = engine()
    binding = Binding(trained, Trainer())
    outcomes = [RolloutOutcome(reward if place == 3 else 1.0) for place in range(8)]
    asked = binding.begin(QUESTIONS[:1], 8, lambda assignments: [])
    with pytest.warns(EvopromptWarning, match=f"the reward was {reward}".replace("+", r"\+")):
        binding.end([(asked[0], outcomes)])
    assert trained.metrics()["rollouts_failed"] == 1
    assert trained.candidate_stats()[0].weight == 1.0


def test_a_metric_that_is_no_finite_number_is_left_out() -> None:
    trained = engine()
    binding = Binding(trained, Trainer())
    asked = binding.begin(QUESTIONS[:1], 1, lambda assignments: [])
    binding.end([(asked[0], [RolloutOutcome(1.0, {"speed": float("nan"), "turns": 2.0})])])
    told = [event for event in trained.log if event["event"] == "step_completed"]
    assert told[0]["metrics"] == {"turns": 2.0}

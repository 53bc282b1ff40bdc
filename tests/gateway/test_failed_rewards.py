"""Conversations without a reward are counted and reported by a gateway as by any trainer."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from evoprompt import Engine, EngineConfig, EvopromptWarning, Question
from evoprompt.gateway.conversations import Conversations
from evoprompt.gateway.settings import GatewaySettings

GROUP = 8


def visit(folder: Path, rewards: Sequence[float | None], steps: int = 2) -> Conversations:
    settings = GatewaySettings(
        upstream="http://127.0.0.1:9/v1", directory=folder, rollouts=GROUP, groups=1
    )
    engine = Engine(["Answer."], config=EngineConfig(candidates_per_question=1))
    gateway = Conversations(engine, settings)
    for step in range(steps):
        question = Question(f"q{step}", "What is 2 + 2?")
        keys = [gateway.conversation(question, f"g{step}") for _ in range(GROUP)]
        for key in keys:
            with gateway.calling(key):
                gateway.record_answer(key, "", "4")
        for key, reward in zip(keys, rewards, strict=True):
            gateway.reward(key, reward)
    return gateway


@pytest.mark.parametrize("failed", [GROUP, 6, 1])
def test_rewards_that_are_none_are_warned_of_counted_and_in_the_closing_line(
    tmp_path: Path, failed: int, caplog: pytest.LogCaptureFixture
) -> None:
    rewards: list[float | None] = [None] * failed + [1.0] * (GROUP - failed)
    with pytest.warns(EvopromptWarning, match=f"{failed} of 8 rollouts of step 1 have no reward"):
        gateway = visit(tmp_path, rewards)
    assert gateway.engine.step == 2
    assert gateway.engine.metrics()["rollouts_failed"] == 2 * failed
    notices = [event for event in gateway.engine.log if event["event"] == "notice"]
    assert len(notices) == 1
    with caplog.at_level(logging.INFO, logger="evoprompt"):
        gateway.close()
    assert f"training rollouts without a reward, failed: {2 * failed} of 16" in caplog.text


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), 1e200])
def test_a_reward_that_is_no_finite_number_is_refused_where_it_is_given(
    tmp_path: Path, reward: float
) -> None:
    with pytest.raises(ValueError, match="reward"):
        visit(tmp_path, [1.0] * 7 + [reward])

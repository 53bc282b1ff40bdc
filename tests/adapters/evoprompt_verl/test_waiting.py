"""A reward function that does not return in a worker of veRL's is named by the trainer."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from evoprompt_verl.context import with_context
from evoprompt_verl.waiting import Workers, name_rewards, overdue_lines
from reward_worker import LoopWorker, Manager, RewardWorker
from waiting import wait_for

from evoprompt.support.errors import ComponentError

# Ray warns of itself.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        paths = {"env_vars": {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}}
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=paths)
        yield
        ray.shutdown()


def test_a_reward_function_that_hangs_in_a_worker_is_named(cluster: None) -> None:
    kind: Any = ray.remote(RewardWorker)
    worker = kind.remote()
    workers = Workers([worker, "no actor"], [])
    assert workers.overdue() == ""
    scored = worker.compute_score.remote()
    line = wait_for(workers.overdue)
    assert line.startswith("the reward function slow_score of module")
    assert "has not returned" in line
    ray.get(worker.release.remote())
    assert ray.get(scored) == 1.0
    assert workers.overdue() == ""


def leave() -> float:
    raise SystemExit(0)


def test_an_exit_of_a_reward_function_is_an_error_in_its_worker() -> None:
    worker = SimpleNamespace(reward_manager=Manager(leave))
    name_rewards(worker)
    name_rewards(worker)  # as when an engine is attached again
    with pytest.raises(ComponentError, match="the reward function leave of module"):
        asyncio.run(worker.reward_manager.run_single(None))
    assert overdue_lines(worker) == []


def test_each_rollout_in_a_worker_gets_the_prompt_of_its_own_candidate(cluster: None) -> None:
    kind: Any = ray.remote(LoopWorker)
    own = [{"role": "user", "content": "Why?"}]
    texts = ["Look first.", "Think first."]
    prompts = [(text, [{"role": "system", "content": text}, *own]) for text in texts]
    extra = with_context({"index": 3}, "train", texts[0], own)
    row = {"raw_prompt": prompts[0][1], "extra_info": extra, "evoprompt_prompts": prompts}
    worker = kind.remote()
    assert Workers([], [worker]).place_prompts
    for session, text in enumerate(texts):
        policy, scored = ray.get(worker.run.remote({**row, "session_id": session}))[-2:]
        assert policy["raw_prompt"] == prompts[session][1]
        assert scored["raw_prompt"] == own
        assert scored["extra_info"] == {"index": 3, "evoprompt_instruction": text}
        assert "evoprompt_prompts" not in policy


@pytest.mark.parametrize("workers", [[], ["of another kind"]])
def test_a_manager_without_known_workers_places_one_prompt_for_all(workers: list[Any]) -> None:
    assert not Workers([], workers).place_prompts


def test_what_scores_in_a_worker_gets_the_prompt_of_the_dataset(cluster: None) -> None:
    kind: Any = ray.remote(LoopWorker)
    worker = kind.remote()
    own = [{"role": "user", "content": "Why?"}]
    for _ in range(2):  # as when an engine is attached again
        Workers([], [worker])
    extra = with_context({"index": 3}, "verify", "Look first.", own)
    row = {"uid": "u", "raw_prompt": [{"role": "system", "content": "Look first."}, *own]}
    policy, scored = ray.get(worker.run.remote({**row, "extra_info": extra}))[-2:]
    assert policy["raw_prompt"] == row["raw_prompt"]
    assert scored["raw_prompt"] == own
    assert scored["extra_info"] == {
        "index": 3,
        "evoprompt_instruction": "Look first.",
        "evoprompt_purpose": "verify",
    }
    bare = {"uid": "u", "raw_prompt": own}
    assert ray.get(worker.run.remote(bare))[-1] == bare

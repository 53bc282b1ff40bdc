"""What the other modes of veRL's trainer do to questions, and how the engine hears of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contract_runs import EVOLVING, STATIC, Job, Run
from local_trainer import Local, LocalAsync
from local_verl import run
from memory_queue import MemoryQueue

from evoprompt.types import Assignment, Trajectory

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.filterwarnings("error:::evoprompt_verl"),
]

ASYNC = ["trainer.v1.trainer_mode=colocate_async"]
SAMPLER = Path(__file__).parent / "cpu_support" / "sampler.py"
IN_ORDER = [
    *ASYNC,
    f"trainer.v1.sampler.custom_sampler.path={SAMPLER}",
    "trainer.v1.sampler.custom_sampler.name=InOrder",
]


def done(job: Job, directory: Path, overrides: list[str]) -> Run:
    directory.mkdir(parents=True, exist_ok=True)
    found = run(job, directory, overrides)
    assert found is not None
    return found


def told_of(run: Run, name: str) -> list[Any]:
    return [event for event in run.events if event["event"] == name]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """An asynchronous run that nothing happened to."""
    job = Job(EVOLVING, steps=6, save_every=2)
    return done(job, tmp_path_factory.mktemp("whole"), IN_ORDER)


def test_late_results_are_credited_to_the_instruction_they_were_made_under(whole: Run) -> None:
    late = [
        trajectory
        for step, told in enumerate(whole.told)
        for trajectory in told
        if trajectory.candidate.born < step - 1
    ]
    assert late
    rewards = {(r.question, r.instruction, r.reward) for batch in whole.batches for r in batch}
    assert all(
        (t.question.id, t.candidate.text, t.reward) in rewards for told in whole.told for t in told
    )
    after = {
        (event["step"], candidate)
        for event in told_of(whole, "pruned")
        for candidate in event["candidates"]
    }
    told = {(step + 1, t.candidate.id) for step, told in enumerate(whole.told) for t in told}
    assert any((step + 1, candidate) in told for step, candidate in after), "also of the pruned"
    assert len(told_of(whole, "step_completed")) == 6


def test_a_killed_asynchronous_run_keeps_the_assignments_that_were_out(
    whole: Run, tmp_path: Path
) -> None:
    job = Job(EVOLVING, steps=6, save_every=2)
    assert run(replace(job, kill_in=6), tmp_path, IN_ORDER) is None
    resumed = done(replace(job, resume=True), tmp_path, IN_ORDER)
    assert resumed.events == whole.events
    assert resumed.told == whole.told[4:]
    assert resumed.weights == whole.weights


def test_prompts_issued_again_after_a_resume_keep_their_instruction(
    whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were running at the checkpoint start anew; their assignment is the old one."""
    job = Job(EVOLVING, steps=4, save_every=2)
    save = MemoryQueue.save_checkpoint

    def as_if_running(self: MemoryQueue, path: str, metadata: object = None) -> None:
        for tag in self._tags["train"].values():
            if tag.get("is_prompt"):
                tag["status"] = "running"
        save(self, path, metadata)
        for tag in self._tags["train"].values():
            if tag.get("is_prompt"):
                tag["status"] = "finished"

    monkeypatch.setattr(MemoryQueue, "save_checkpoint", as_if_running)
    assert run(replace(job, kill_in=4), tmp_path, IN_ORDER) is None
    resumed = done(replace(job, resume=True), tmp_path, IN_ORDER)
    asked = assignments(whole.told[2:4])
    again = assignments(resumed.told)
    reissued = again.keys() & {"q6", "q7", "q8"}
    assert reissued
    assert all(again[name] == asked[name] for name in reissued)


def assignments(told: Sequence[Sequence[Trajectory]]) -> dict[str, list[Assignment]]:
    """By question, every assignment of it once."""
    found: dict[str, list[Assignment]] = {}
    for trajectory in (t for step in told for t in step):
        of_question = found.setdefault(trajectory.question.id, [])
        if trajectory.assignment not in of_question:
            of_question.append(trajectory.assignment)
    return found


def test_groups_that_failed_are_told_unscored_and_replaced_ones_asked_anew(
    tmp_path: Path,
) -> None:
    """In its asynchronous modes veRL drops a group that failed and asks another question."""
    found = done(Job(EVOLVING, steps=4, silent=("q4",)), tmp_path, ASYNC)
    told = [trajectory for step in found.told for trajectory in step]
    assert {t.question.id for t in told if t.reward is None} == {"q4"}
    assert sum(t.reward is None for t in told) == 4
    assert all(sum(t.reward is not None for t in step) == 12 for step in found.told)


def test_a_reward_model_that_scores_after_sampling_is_credited_and_verified_by_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no verification asks the trainer for log-probabilities."""
    setup = Local._setup
    passed: list[str] = []

    def colocated(self: Local) -> None:
        setup(self)
        self.reward_loop_manager.reward_loop_worker_handles = None

    def score(self: Local, batch: Any, metrics: Any = None) -> Any:
        return batch

    def noting(self: Local, batch: Any, **_others: object) -> Any:
        passed.append(batch.partition_id)
        return batch

    monkeypatch.setattr(Local, "_setup", colocated)
    monkeypatch.setattr(Local, "_compute_reward_colocate", score, raising=False)
    monkeypatch.setattr(Local, "_compute_old_log_prob", noting)
    found = done(Job(EVOLVING, steps=4), tmp_path, [])
    assert [len(told) for told in found.told] == [12] * 4
    assert told_of(found, "verified")
    assert all(t.reward is not None for told in found.told for t in told)
    assert passed == ["train"] * 4


def test_several_updates_a_step_are_one_step_of_the_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    init: Any = LocalAsync.__init__

    def with_three_updates(self: LocalAsync, config: Any) -> None:
        init(self, config)
        self.parameter_sync_step = 3

    monkeypatch.setattr(LocalAsync, "__init__", with_three_updates)
    found = done(Job(STATIC, steps=3), tmp_path, ASYNC)
    assert [len(told) for told in found.told] == [12, 12, 12]
    assert len(found.losses) == 9


def test_trajectories_of_a_run_without_an_engine_are_not_attributed(tmp_path: Path) -> None:
    job = Job(None, steps=2, save_every=2)
    done(job, tmp_path, ASYNC)
    with pytest.warns(UserWarning, match="starts afresh"):
        found = done(replace(job, engine=STATIC, steps=4, resume=True), tmp_path, ASYNC)
    assert [len(told) for told in found.told] == [0, 12]
    notices = [event["message"] for event in told_of(found, "notice")]
    assert any("3 groups of step 3 have no assignment of this engine" in text for text in notices)

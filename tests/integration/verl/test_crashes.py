"""A run that dies while it writes a checkpoint resumes from a consistent pair, or says why not."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from contract_runs import EVOLVING, Job, Run
from local_rollouts import Killed
from local_trainer import Workers
from local_verl import run

from evoprompt.engine import VERSION
from evoprompt.errors import StateError
from evoprompt.storage import BEGUN_FILE, STATE_FILE

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.filterwarnings("error:::evoprompt_verl"),
]

JOB = Job(EVOLVING, steps=6, save_every=2)


def started(job: Job, directory: Path) -> Run | None:
    directory.mkdir(parents=True, exist_ok=True)
    return run(job, directory)


def test_dying_before_verls_workers_have_saved_resumes_from_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save: Any = Workers.save_checkpoint

    def dies(self: Workers, path: str, *others: object, **more: object) -> None:
        if "global_step_4" in path:
            raise Killed
        save(self, path, *others, **more)

    whole = started(JOB, tmp_path / "whole")
    with monkeypatch.context() as patched:
        patched.setattr(Workers, "save_checkpoint", dies)
        assert started(JOB, tmp_path / "killed") is None
    checkpoints = tmp_path / "killed" / "checkpoints"
    assert (checkpoints / "latest_checkpointed_iteration.txt").read_text() == "2"
    assert (checkpoints / "global_step_4" / BEGUN_FILE).exists()
    assert not (checkpoints / "global_step_4" / STATE_FILE).exists()
    resumed = started(replace(JOB, resume=True), tmp_path / "killed")
    assert whole is not None
    assert resumed is not None
    assert resumed.events == whole.events
    assert resumed.weights == whole.weights


def test_a_state_that_cannot_be_read_ends_the_run_with_the_reason(tmp_path: Path) -> None:
    started(replace(JOB, steps=2), tmp_path)
    file = tmp_path / "checkpoints" / "global_step_2" / STATE_FILE
    for broken, finding in (
        ({"version": 8}, f"version 8; required: {VERSION}"),
        ({"version": VERSION}, "engine state is broken"),
    ):
        file.write_text(json.dumps(broken))
        with pytest.raises(StateError, match=finding):
            started(replace(JOB, resume=True), tmp_path)

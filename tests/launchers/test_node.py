"""A submission in its process: started again by its cluster, late, or wanted by nobody."""

from __future__ import annotations

import shutil
import socket
import threading
from multiprocessing import get_context
from pathlib import Path

import pytest
from watched_runs import Watcher, config, trial_events

from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.launchers import node
from evoprompt.experiments.launchers.base import Job
from evoprompt.experiments.runner import run
from evoprompt.experiments.summary import SeedSummary
from evoprompt.experiments.trial import End, TrialFailure
from evoprompt.log.events import Event
from evoprompt.support.storage import only_writer

pytestmark = pytest.mark.usefixtures("fake_task")

TRIAL = TrialId("coevolve", 0)


class Submitted(Job):
    """A job whose cluster says nothing."""

    def _end(self) -> None:
        return None

    def _cancel(self, force: bool) -> None:
        return None


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a shared file system takes to show a new folder, this machine does not."""
    monkeypatch.setattr(node, "_FOLDER_TIMEOUT", 0.0)


def submitted(root: Path, **changes: object) -> Submitted:
    """A new submission of a run that has begun."""
    directory = RunDirectory(root / "out", config(arms={"coevolve": {}}, **changes))
    directory.write_config()
    return Submitted(directory, TRIAL, Path.cwd())


def events_of(job: Submitted) -> list[Event]:
    return [message for message in job.poll() if isinstance(message, Event)]


@pytest.mark.slow
def test_a_job_that_its_cluster_starts_again_goes_on(tmp_path: Path, whole: RunDirectory) -> None:
    """As Slurm does by itself when a node is lost: with the same job file, which knows nothing."""
    job = submitted(tmp_path, host={"kill_at": 12})
    process = get_context("spawn").Process(target=job.errand.carry_out)
    process.start()
    process.join()
    assert process.exitcode == -9
    assert isinstance(job.errand.carry_out(), SeedSummary)
    assert trial_events(job.errand.directory) == trial_events(whole)
    heard = [event.step for event in events_of(job) if event.kind == "step_completed"]
    assert heard.count(10) == 1  # the newest checkpoint was that of step 10
    assert heard.count(11) == 2


def test_a_job_that_begins_late_leaves_what_others_have_done(tmp_path: Path) -> None:
    given = submitted(tmp_path).errand
    directory = given.directory
    run(directory, Watcher())
    before = {path: path.read_bytes() for path in directory.root.rglob("*") if path.is_file()}
    end = given.carry_out()
    assert isinstance(end, TrialFailure)  # nobody hears it
    assert end.bad_input
    assert f"on {socket.gethostname()}: this machine has no folder {given.folder}" in end.reason
    assert before == {p: p.read_bytes() for p in directory.root.rglob("*") if p.is_file()}


def test_a_new_submission_takes_the_earlier_one_back_and_waits_for_it(
    tmp_path: Path, whole: RunDirectory
) -> None:
    """As when a command was killed while its jobs went on, and the run is resumed."""
    first = submitted(tmp_path)
    second = submitted(tmp_path)
    assert isinstance(first.errand.carry_out(), TrialFailure), "its folder is gone"
    trial = second.errand.directory.trial(TRIAL)
    ends: list[End | None] = []
    with only_writer(trial.root, "it"):
        waiting = threading.Thread(target=lambda: ends.append(second.errand.carry_out()))
        waiting.start()
        shutil.copy(whole.trial(TRIAL).result, trial.result)
    waiting.join()
    assert isinstance(ends[0], SeedSummary), "finished meanwhile, it is not repeated"
    assert not trial.events.exists()

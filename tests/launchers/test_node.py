"""A submission on its machine: started again by its cluster, late, or wanted by nobody."""

from __future__ import annotations

import shutil
import socket
import threading
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
from watched_runs import Watcher, config, trial_events

from evoprompt.events import Event
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.launchers import node
from evoprompt.experiments.launchers.base import Work
from evoprompt.experiments.launchers.node import Errand, SharedFolder, versions
from evoprompt.experiments.runner import run
from evoprompt.experiments.summary import SeedSummary
from evoprompt.experiments.trial import End, Failure
from evoprompt.storage import only_writer

pytestmark = pytest.mark.usefixtures("fake_task")

TRIAL = TrialId("coevolve", 0)


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a shared file system takes to show a new folder, this machine does not."""
    monkeypatch.setattr(node, "_LATE", 0.0)


def errand(root: Path, **changes: object) -> Errand:
    """A new submission of a run that has begun."""
    directory = RunDirectory(root / "out", config(arms={"coevolve": {}}, **changes))
    directory.write_config()
    work = Work(directory, TRIAL, resume=False, at_once=1)
    return Errand(work, SharedFolder.new(work).path, Path.cwd(), versions())


def in_a_process(given: Errand) -> int | None:
    """Carries it out as a cluster does, and returns the exit code."""
    process = get_context("spawn").Process(target=given.carry_out)
    process.start()
    process.join()
    return process.exitcode


def events_of(folder: SharedFolder) -> list[Event]:
    return [message for message in folder.news() if isinstance(message, Event)]


def test_a_job_that_its_cluster_starts_again_goes_on(tmp_path: Path, whole: RunDirectory) -> None:
    """As Slurm does by itself when a node is lost: with the same job file, which knows nothing."""
    given = errand(tmp_path, host={"kill_at": 12})
    assert in_a_process(given) == -9
    directory = given.work.directory
    begun = trial_events(directory)
    assert [event["event"] for event in begun].count("told") >= 10
    assert in_a_process(given) == 0
    assert trial_events(directory) == trial_events(whole)
    notices = [
        str(event) for event in events_of(SharedFolder(given.folder)) if event.kind == "notice"
    ]
    assert f"was started again by its cluster, on {socket.gethostname()}" in notices[0]
    heard = [event.step for event in events_of(SharedFolder(given.folder)) if event.kind == "told"]
    assert heard.count(10) == 1  # the newest checkpoint was that of step 10
    assert heard.count(11) == 2


def test_a_job_that_begins_late_leaves_what_others_have_done(tmp_path: Path) -> None:
    given = errand(tmp_path)
    directory = given.work.directory
    run(directory, Watcher(), resume=True)
    before = {path: path.read_bytes() for path in directory.root.rglob("*") if path.is_file()}
    end = given.carry_out()
    assert isinstance(end, Failure)  # nobody hears it
    assert end.bad_input
    assert f"{socket.gethostname()} has no folder {given.folder}" in end.reason
    assert before == {p: p.read_bytes() for p in directory.root.rglob("*") if p.is_file()}


def test_a_trial_that_was_finished_meanwhile_is_not_repeated(tmp_path: Path) -> None:
    given = errand(tmp_path)
    trial = given.work.directory.trial(TRIAL)
    ends: list[End | None] = []
    with only_writer(trial.root, "it"):
        waiting = threading.Thread(target=lambda: ends.append(given.carry_out()))
        waiting.start()
        other = RunDirectory(tmp_path / "other", given.work.directory.config)
        run(other, Watcher())
        shutil.copy(other.trial(TRIAL).result, trial.result)
    waiting.join()
    assert isinstance(ends[0], SeedSummary)
    assert not trial.events.exists()
    (notice,) = SharedFolder(given.folder).news()
    assert f"waits for the process that writes {trial.root} to stop" in str(notice)


def test_a_new_submission_takes_the_earlier_one_back(tmp_path: Path, whole: RunDirectory) -> None:
    """As when a command was killed while its jobs went on, and the run is resumed."""
    hold = tmp_path / "hold"
    first = errand(tmp_path, host={"hold": str(hold)})
    alive = get_context("spawn").Process(target=first.carry_out)
    alive.start()
    folder = SharedFolder(first.folder)
    while not any(event.kind == "told" for event in events_of(folder)):
        assert alive.is_alive()
    second = errand(tmp_path, host={"hold": str(hold)})
    hold.touch()
    end = replace(second, work=replace(second.work, resume=True)).carry_out()
    alive.join()
    assert isinstance(end, SeedSummary)
    assert alive.exitcode == 0  # it stopped by itself
    assert trial_events(second.work.directory) == trial_events(whole)

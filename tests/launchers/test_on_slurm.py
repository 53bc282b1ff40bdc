"""Submitit's local executor: the real job files, in processes of this machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import submitit
from launcher_contract import COEVOLVE, LauncherContract
from watched_runs import Watcher, config, trial_events

from evoprompt.errors import InputError
from evoprompt.events import Event
from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.launchers import on_slurm
from evoprompt.experiments.launchers.base import Done, Launcher, Message, Work
from evoprompt.experiments.launchers.components import SlurmSettings
from evoprompt.experiments.launchers.on_slurm import SlurmLauncher
from evoprompt.experiments.runner import run
from evoprompt.experiments.testing import LauncherSuite
from evoprompt.experiments.trial import End, Failure

pytestmark = pytest.mark.usefixtures("fake_task")


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a shared file system takes to show a new file, this machine does not."""
    monkeypatch.setattr(submitit.core.core.Job, "_results_timeout_s", 1)


class TestConformance(LauncherSuite):
    def build(self) -> Launcher:
        return SlurmLauncher(SlurmSettings(cluster="local"))


@pytest.mark.nightly
class TestSlurm(LauncherContract):
    survives_kills = True

    @pytest.fixture
    def launcher(self) -> Launcher:
        return SlurmLauncher(SlurmSettings(cluster="local"))


def test_without_slurm_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="no srun; required: one from which jobs are submitted"):
        SlurmLauncher(SlurmSettings()).open()


def test_a_job_that_an_earlier_command_has_left_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole: RunDirectory
) -> None:
    directory = RunDirectory.new(tmp_path / "out", config(arms=["coevolve"], host={"pause": 0.1}))
    directory.write_config()
    work = Work(directory, COEVOLVE, resume=False, at_once=1)
    left = SlurmLauncher(SlurmSettings(cluster="local")).start(work)

    def found(folder: Path, number: str) -> submitit.Job[End | None]:
        """The process itself, which only who started it can ask about."""
        assert (folder, number) == (directory.root / "slurm", left._job.job_id)
        return left._job

    monkeypatch.setitem(on_slurm._JOBS, "local", found)
    job = SlurmLauncher(SlurmSettings(cluster="local")).start(replace(work, resume=True))
    said: list[Message] = []
    while not said or not isinstance(said[-1], Done):
        said += job.poll()
    assert len(list(directory.root.glob("slurm/*_submitted.pkl"))) == 1
    assert f"goes on as job {left._job.job_id}" in str(said[0])
    heard = [message.kind for message in said[1:] if isinstance(message, Event)]
    assert heard == [event["event"] for event in trial_events(whole)]
    assert trial_events(directory) == trial_events(whole)


def test_a_failure_that_could_not_be_handed_back_is_told_all_the_same(tmp_path: Path) -> None:
    """As on a full disk, on which submitit writes no result."""
    directory = RunDirectory.new(tmp_path / "out", config(arms=["coevolve"], host={"fail_at": 2}))
    directory.write_config()
    work = Work(directory, COEVOLVE, resume=False, at_once=1)
    job = SlurmLauncher(SlurmSettings(cluster="local")).start(work)
    job._job.wait()
    (result,) = directory.root.glob("slurm/*_result.pkl")
    result.unlink()
    last = job.poll()[-1]
    assert last == Done(Failure("RuntimeError: the accelerator is on fire"))


def test_credentials_reach_no_job_file(tmp_path: Path) -> None:
    given = config(host={"hub_token": "hf_" + "secret" * 6}, arms=["static"])
    directory = RunDirectory.new(tmp_path / "out", given)
    with pytest.raises(InputError, match=r"hub_token.* hold credentials"):
        run(directory, Watcher(), launcher=SlurmLauncher(SlurmSettings(cluster="local")))
    for file in directory.root.rglob("*"):
        assert file.is_dir() or b"secretsecret" not in file.read_bytes()

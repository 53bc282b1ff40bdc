"""Submitit's local executor: the real job files, in processes of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
import submitit
from launcher_contract import LauncherContract
from watched_runs import Watcher, config

from evoprompt.errors import InputError
from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.launchers.base import Launcher
from evoprompt.experiments.launchers.on_slurm import Slurm, SlurmSettings
from evoprompt.experiments.runner import run
from evoprompt.experiments.testing import LauncherSuite

pytestmark = pytest.mark.usefixtures("fake_task")


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a shared file system takes to show a new file, this machine does not."""
    monkeypatch.setattr(submitit.core.core.Job, "_results_timeout_s", 1)


class TestConformance(LauncherSuite):
    def build(self) -> Launcher:
        return Slurm(SlurmSettings(cluster="local"))


@pytest.mark.nightly
class TestSlurm(LauncherContract):
    survives_kills = True

    @pytest.fixture
    def launcher(self) -> Launcher:
        return Slurm(SlurmSettings(cluster="local"))


def test_without_slurm_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="no srun; required: one from which jobs are submitted"):
        Slurm(SlurmSettings()).open()


def test_credentials_reach_no_job_file(tmp_path: Path) -> None:
    given = config(host={"hub_token": "hf_" + "secret" * 6}, arms=["static"])
    directory = RunDirectory.new(tmp_path / "out", given)
    with pytest.raises(InputError, match=r"hub_token.* hold credentials"):
        run(directory, Watcher(), launcher=Slurm(SlurmSettings(cluster="local")))
    for file in directory.root.rglob("*"):
        assert file.is_dir() or b"secretsecret" not in file.read_bytes()

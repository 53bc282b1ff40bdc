"""Submitit's local executor: the real job files, in processes of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
import submitit
from launcher_contract import LauncherContract

from evoprompt.experiments.launchers.base import Launcher
from evoprompt.experiments.launchers.on_slurm import Slurm, SlurmSettings
from evoprompt.experiments.testing import LauncherSuite
from evoprompt.support.errors import InputError

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

from __future__ import annotations

import pytest
from launcher_contract import LauncherContract

from evoprompt.experiments.launchers.base import Launcher
from evoprompt.experiments.launchers.local import LocalLauncher
from evoprompt.experiments.testing import LauncherSuite

pytestmark = pytest.mark.usefixtures("fake_task")


class TestConformance(LauncherSuite):
    def build(self) -> Launcher:
        return LocalLauncher()


class TestLocal(LauncherContract):
    survives_kills = False

    @pytest.fixture
    def launcher(self) -> Launcher:
        return LocalLauncher()

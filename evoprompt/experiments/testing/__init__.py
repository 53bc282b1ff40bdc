"""Conformance suites of the roles above the core: tasks, hosts and launchers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evoprompt.experiments.testing.hosts import Additions, HostSuite, LauncherSuite
from evoprompt.experiments.testing.tasks import TaskSuite
from evoprompt.testing import checks
from evoprompt.testing.suite import Suite

__all__ = ["SUITES", "Additions", "HostSuite", "LauncherSuite", "TaskSuite"]

SUITES: Mapping[str, type[Suite[Any]]] = {
    **checks.SUITES,
    "task": TaskSuite,
    "host": HostSuite,
    "launcher": LauncherSuite,
}
"""Suite of every role, those of the core included."""

"""The conformance suites of hosts and launchers."""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
from pathlib import Path

from evoprompt.agents.tasks import Host, Plan, Trial
from evoprompt.errors import InputError
from evoprompt.experiments.launchers.base import Launcher
from evoprompt.testing.fakes import SampleTask
from evoprompt.testing.suite import Suite, expect


class HostSuite(Suite[Host]):
    """What every host must keep before anything is trained."""

    def test_plans_without_leaving_a_file(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial(seed=0, directory=Path(folder), budget=8, evaluate_every=8)
            try:
                plan = self.build().plan(SampleTask(), trial)
            except InputError:
                plan = Plan()
            expect(
                isinstance(plan, Plan),
                f"the plan is a {type(plan).__name__}; required: a Plan of evoprompt.agents.tasks",
            )
            left = sorted(path.name for path in Path(folder).iterdir())
            expect(not left, f"planning, it left files behind: {left}")


class LauncherSuite(Suite[Launcher]):
    """What every launcher must keep before it is opened; no cluster is asked for."""

    def test_says_how_it_launches(self) -> None:
        built = self.build()
        expect(
            type(built.retries) is int and built.retries >= 0,
            f"retries is {built.retries!r}; required: a number of at least 0",
        )
        expect(
            type(built.elsewhere) is bool,
            f"elsewhere is {built.elsewhere!r}; required: whether trials run on other machines",
        )
        expect(
            built.most is None or (type(built.most) is int and built.most >= 1),
            f"most is {built.most!r}; required: a number of at least 1, or None for all trials",
        )

    def test_starts_nothing_before_it_is_opened(self) -> None:
        before = threading.active_count(), len(multiprocessing.active_children())
        self.build()
        after = threading.active_count(), len(multiprocessing.active_children())
        expect(after == before, "building it started a thread or a process; required: in open()")

    def test_can_be_closed_without_having_been_opened(self) -> None:
        self.build().close()

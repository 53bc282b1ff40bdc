"""The conformance suite of launchers."""

from __future__ import annotations

import multiprocessing
import threading

from evoprompt.experiments.launchers.base import Launcher
from evoprompt.testing.suite import Suite, expect


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

"""Trials that need a process of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from watched_runs import Watcher, config

from evoprompt.errors import InputError
from evoprompt.experiments import runner
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.launchers.base import Launcher
from evoprompt.experiments.observer import Observer
from evoprompt.experiments.runner import run
from evoprompt.experiments.scheduler import Source, submit_all
from evoprompt.experiments.trial import End, Stopping

pytestmark = pytest.mark.usefixtures("fake_task")


class TestTrialsThatNeedAProcessOfTheirOwn:
    def test_get_one_also_one_at_a_time(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[int] = []
        original = submit_all

        def noting(
            directory: RunDirectory,
            todo: Sequence[TrialId],
            observer: Observer,
            resume: bool,
            launcher: Launcher,
            jobs: int,
            stopping: Stopping,
            settle: Callable[[TrialId, End], None],
            source: Source | None,
        ) -> None:
            asked.append(jobs)
            original(directory, todo, observer, resume, launcher, jobs, stopping, settle, source)

        monkeypatch.setattr(runner, "submit_all", noting)
        directory = RunDirectory.new(tmp_path / "out", config(arms={"static": {}}))
        outcome = run(directory, Watcher(), isolated=True)
        assert asked == [1]
        assert outcome.failed == ()
        assert len(outcome.summary.arms) == len(directory.config.arms)

    def test_are_refused_where_several_share_one_launch(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("WORLD_SIZE", "2")
        directory = RunDirectory.new(tmp_path / "out", config())
        with pytest.raises(InputError, match="trials in one launch of several processes"):
            run(directory, Watcher(), isolated=True)

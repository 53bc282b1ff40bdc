"""Trials that need a process of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from watched_runs import Watcher, config

from evoprompt.errors import InputError
from evoprompt.launchers.base import Launcher
from evoprompt.runs import runner
from evoprompt.runs.directory import RunDirectory, TrialId
from evoprompt.runs.observer import Observer
from evoprompt.runs.runner import run
from evoprompt.runs.scheduler import Source, submit_all
from evoprompt.runs.trial import End, Stopping

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

"""What every launcher keeps, seen with whole runs of the fake task."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from watched_runs import Watcher, config, trial_events

from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.launchers.base import Job, Launcher
from evoprompt.experiments.runner import RunOutcome, run
from evoprompt.log.events import Event

COEVOLVE = TrialId("coevolve", 0)
LOST_AND_FINISHED = [f"{word} coevolve/0" for word in ("started", "lost", "started", "finished")]

Launched = Callable[..., tuple[RunOutcome, Watcher]]


class Stopper(Watcher):
    """Ends everybody, as schedulers do, when a trial has been told of its first rewards."""

    def on_event(self, trial: TrialId, event: Event) -> None:
        super().on_event(trial, event)
        if event.kind == "step_completed" and "stopping" not in self.said:
            for child in multiprocessing.active_children():
                os.kill(child.pid or 0, signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)


class Releasing(Launcher):
    """A launcher that lets a held trial go on as soon as it was told to stop."""

    elsewhere = False
    max_parallel: int | None = None
    retries = 0

    def __init__(self, inner: Launcher, hold: Path) -> None:
        self._inner, self._hold = inner, hold

    def open(self) -> Sequence[str]:
        return ()

    def start(self, directory: RunDirectory, trial: TrialId, at_once: int) -> Job:
        job = self._inner.start(directory, trial, at_once)
        stop = job.stop

        def release() -> None:
            stop()
            self._hold.touch()

        job.stop = release  # type: ignore[method-assign]
        return job


class LauncherContract:
    """Subclass it and give the fixture ``launcher``; ``whole`` is the same run, undisturbed."""

    survives_kills: bool
    """Whether a trial whose process is killed is submitted again."""

    @pytest.fixture
    def launched(self, launcher: Launcher, tmp_path: Path) -> Launched:
        def carry_out(**changes: object) -> tuple[RunOutcome, Watcher]:
            self.directory = RunDirectory.new(tmp_path / "out", config(**changes))
            watcher = Watcher()
            return run(self.directory, watcher, jobs=2, launcher=launcher), watcher

        return carry_out

    def test_gives_what_a_run_in_one_process_gives(
        self, launched: Launched, whole: RunDirectory
    ) -> None:
        outcome, watcher = launched()
        assert not outcome.failed
        for arm in ("static", "coevolve"):
            assert trial_events(self.directory, arm) == trial_events(whole, arm)
        # The display hears of everything.
        heard = [event.kind for event in watcher.events[COEVOLVE]]
        assert heard == [event["event"] for event in trial_events(self.directory)]
        assert not (self.directory.root / "launched").exists()

    def test_a_trial_that_fails_costs_only_itself(self, launched: Launched) -> None:
        outcome, watcher = launched(arms={"static": {"host": {"fail_at": 2}}, "coevolve": {}})
        assert outcome.failed == (TrialId("static", 0),)
        assert "failed static/0: RuntimeError: the accelerator is on fire" in watcher.said
        assert f"finished {COEVOLVE}" in watcher.said
        assert "on fire" in self.directory.trial(TrialId("static", 0)).error.read_text()

    def test_a_trial_whose_process_is_killed(self, launched: Launched, whole: RunDirectory) -> None:
        outcome, watcher = launched(arms={"coevolve": {}}, host={"kill_at": 12})
        if not self.survives_kills:
            assert outcome.failed == (COEVOLVE,)
            return
        assert not outcome.failed
        assert [line.split(":")[0] for line in watcher.said] == LOST_AND_FINISHED
        assert trial_events(self.directory) == trial_events(whole)

    def test_is_stopped_and_continued(
        self, launcher: Launcher, tmp_path: Path, whole: RunDirectory
    ) -> None:
        hold = tmp_path / "hold"
        given = config(arms={"coevolve": {}}, host={"hold": str(hold)})
        directory = RunDirectory.new(tmp_path / "out", given)
        watcher = Stopper()
        outcome = run(directory, watcher, launcher=Releasing(launcher, hold))
        assert outcome.interrupted
        assert not outcome.failed
        told = [event["event"] for event in trial_events(directory)].count("step_completed")
        assert 0 < told < 15
        resumed = RunDirectory.resumed(directory.root, given)
        assert not run(resumed, Watcher(), launcher=launcher).failed
        assert trial_events(directory) == trial_events(whole)

    def test_one_that_never_began_need_not_begin(self, launcher: Launcher, tmp_path: Path) -> None:
        class Hasty(Watcher):
            def started(self, trial: TrialId) -> None:
                os.kill(os.getpid(), signal.SIGINT)

        directory = RunDirectory.new(tmp_path / "out", config())
        assert run(directory, Hasty(), jobs=1, isolated=True, launcher=launcher).interrupted
        assert not directory.trial(COEVOLVE).events.exists()

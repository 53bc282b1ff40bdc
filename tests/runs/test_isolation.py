"""Trials that need a process of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from watched_runs import Watcher, config

from evoprompt.errors import InputError
from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.runner import run

pytestmark = pytest.mark.usefixtures("fake_task")


def test_they_get_one_also_one_at_a_time(tmp_path: Path) -> None:
    directory = RunDirectory.new(tmp_path / "out", config(arms={"static": {}}))
    outcome = run(directory, Watcher(), isolated=True)
    assert outcome.failed == ()
    (trial,) = directory.trials()
    assert directory.trial(trial).output.exists(), "what a process of its own has printed"


def test_they_are_refused_where_several_share_one_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    directory = RunDirectory.new(tmp_path / "out", config())
    with pytest.raises(InputError, match="trials in one launch of several processes"):
        run(directory, Watcher(), isolated=True)

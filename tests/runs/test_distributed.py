from __future__ import annotations

from pathlib import Path

import pytest
from watched_runs import small

from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.distributed import follow, require_one_at_a_time
from evoprompt.support.errors import InputError

pytestmark = pytest.mark.usefixtures("fake_task")


def test_several_processes_need_a_directory_they_all_know(monkeypatch: pytest.MonkeyPatch) -> None:
    require_one_at_a_time(2, None)
    monkeypatch.setenv("WORLD_SIZE", "2")
    require_one_at_a_time(1, Path("out"))
    with pytest.raises(InputError, match="has no --output"):
        require_one_at_a_time(1, None)
    with pytest.raises(InputError, match="--jobs is 2"):
        require_one_at_a_time(2, Path("out"))


def test_a_follower_takes_part_in_every_trial_and_writes_no_file_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = RunDirectory(tmp_path / "out", small(engine={"proposer": "fake"}, seeds=2))
    saved: list[Path] = []
    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    monkeypatch.setattr(
        "evoprompt_fake.FakeTrainingJob.save", lambda self, folder: saved.append(folder)
    )
    follow(directory)
    assert saved == [directory.trial(trial).policy for trial in directory.trials()]
    written = {path.name for path in (tmp_path / "out").rglob("*") if path.is_file()}
    assert not written & {"events.jsonl", "result.json", "seconds.json", "config.yaml"}


def test_a_trial_that_starts_after_another_waits_for_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arms = {"static": None, "then": {"after": "static"}}
    directory = RunDirectory(tmp_path / "out", small(engine={"proposer": "fake"}, arms=arms))
    waited: list[float] = []

    class WaitedError(Exception):
        """Ends a wait that would not end."""

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        raise WaitedError

    monkeypatch.setattr("signal.signal", lambda number, handler: None)
    monkeypatch.setattr("evoprompt.experiments.distributed.time.sleep", sleep)
    with pytest.raises(WaitedError):
        follow(directory)
    assert directory.before(TrialId("then", 0)) == TrialId("static", 0)
    assert len(waited) == 1

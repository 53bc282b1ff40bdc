"""Room on the disk is counted for all trials that are still to do."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from evoprompt.agents.tasks import Need, Room
from evoprompt.experiments.directory import TrialDirectory
from evoprompt.experiments.requirements import GIB, room_for
from evoprompt.storage import STATE_FILE

ROOM = Room(policy=1.0, checkpoints=4.0, saving=2.0)


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten GiB are free."""
    usage = SimpleNamespace(free=10 * GIB)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)


def found(root: Path, number: int, keep: bool = True) -> Need:
    trials = [(TrialDirectory(root / str(n)), ROOM) for n in range(number)]
    need = room_for(trials, root, keep)
    assert need is not None
    return need


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize(
    ("trials", "keep", "text", "missing"),
    [
        (1, False, "7.0 GiB needed, 10.0 GiB free", False),
        (2, True, "12.0 GiB needed, 10.0 GiB free, for 2 trials", True),
        (9, False, "15.0 GiB needed, 10.0 GiB free, for 9 trials", True),
    ],
)
def test_every_trial_counts(
    tmp_path: Path, trials: int, keep: bool, text: str, missing: bool
) -> None:
    need = found(tmp_path, trials, keep)
    assert (need.subject, need.text, need.missing) == ("disk", text, missing)
    assert ("keep_checkpoints=false" in need.remedy) == (trials == 2)


@pytest.mark.usefixtures("free")
def test_what_is_there_already_is_not_needed_again(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "result.json").write_text("{}", encoding="utf-8")
    assert found(tmp_path, 2).text == "7.0 GiB needed, 10.0 GiB free"
    one = tmp_path / "1" / "checkpoints" / "checkpoint-1"
    one.mkdir(parents=True)
    (one / STATE_FILE).touch()
    assert found(tmp_path, 2).text == "3.0 GiB needed, 10.0 GiB free"

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from waiting import PATIENCE
from watched_runs import Watcher, config

from evoprompt.errors import InputError
from evoprompt.experiments import lease
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.lease import only_one
from evoprompt.experiments.runner import run

HOLD = """\
import sys, time
from pathlib import Path
from evoprompt.experiments.lease import only_one
with only_one(Path(sys.argv[1]), "it"):
    print("mine", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "run.lock"


def another_machine(file: Path) -> None:
    """As if a process of a machine that cannot be asked held it."""
    with only_one(file, "it"):
        text = file.read_text(encoding="utf-8")
    file.write_text(text.replace(os.uname().nodename, "elsewhere"), encoding="utf-8")


def test_it_is_gone_afterwards(file: Path) -> None:
    with only_one(file, "it"):
        assert file.exists()
    assert not file.exists()


def test_the_second_process_is_told_of_the_first_and_gets_it_when_that_is_killed(
    file: Path,
) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLD, str(file)], stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"mine\n"
        told = f"it is being run by process {first.pid} on .*; required: one process at a time"
        with pytest.raises(InputError, match=told), only_one(file, "it"):
            pass
        first.kill()
        first.wait()
        with only_one(file, "it"):
            pass


def test_who_finds_a_killed_process_late_takes_over_all_the_same(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when this process itself was stopped while it looked."""
    monkeypatch.setattr(lease, "_A_MOMENT", 0.0)
    with subprocess.Popen([sys.executable, "-c", HOLD, str(file)], stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        first.stdout.readline()
        first.kill()
    with only_one(file, "it"):
        assert file.exists()


def test_a_process_of_another_machine_is_not_replaced(file: Path) -> None:
    another_machine(file)
    with pytest.raises(InputError, match="on elsewhere; required"), only_one(file, "it"):
        pass


def test_a_process_of_another_machine_is_waited_for_until_it_counts_as_gone(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LEASE", 1.0)
    monkeypatch.setattr(lease, "HEARTBEAT", 0.1)
    another_machine(file)
    with only_one(file, "it", wait=PATIENCE):
        assert "elsewhere" not in file.read_text(encoding="utf-8")


DAY = 86_400


@pytest.mark.parametrize("wait", [0.0, 1.5])
def test_a_process_that_is_seen_to_live_is_not_replaced_whatever_the_clock_says(
    file: Path, monkeypatch: pytest.MonkeyPatch, wait: float
) -> None:
    """As when this machine's clock jumped a day ahead."""
    another_machine(file)
    over = threading.Event()

    def touch() -> None:
        then = time.time() - DAY
        os.utime(file, (then, then))

    def beat() -> None:
        while not over.wait(0.05):
            touch()

    touch()
    before = file.read_bytes()
    alive = threading.Thread(target=beat)
    alive.start()
    try:
        told = (
            r"by process \d+ on elsewhere, whose signs of life in .*run.lock are (\d+) s old by "
            "this machine's clock; required"
        )
        with pytest.raises(InputError, match=told) as raised, only_one(file, "it", wait=wait):
            pass
    finally:
        over.set()
        alive.join()
    assert DAY <= seconds_in(told, raised.value) < DAY + PATIENCE
    assert file.read_bytes() == before
    monkeypatch.setattr(lease, "HEARTBEAT", 0.1)
    with only_one(file, "it"):  # nobody touches it any more
        assert file.read_bytes() != before


def test_a_sign_of_life_from_the_future_is_named(file: Path) -> None:
    another_machine(file)
    then = time.time() + DAY
    os.utime(file, (then, then))
    told = r"its last sign of life is (\d+) s ahead of this machine's clock.* delete .*run.lock"
    with pytest.raises(InputError, match=told) as raised, only_one(file, "it"):
        pass
    assert DAY - PATIENCE < seconds_in(told, raised.value) <= DAY


def seconds_in(told: str, error: InputError) -> int:
    found = re.search(told, str(error))
    assert found is not None
    return int(found[1])


def test_who_comes_back_too_late_is_told(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "HEARTBEAT", 0.05)
    lost: list[Path] = []
    told = threading.Event()

    def on_loss(path: Path) -> None:
        lost.append(path)
        told.set()

    with only_one(file, "it", on_loss=on_loss):
        file.unlink()
        another_machine(file)
        assert told.wait(PATIENCE)
    assert lost == [file]
    assert "elsewhere" in file.read_text(encoding="utf-8")  # the other one's is left alone


def test_by_default_it_ends_without_another_write(file: Path) -> None:
    quick = HOLD.replace(
        "with only", "from evoprompt.experiments import lease\nlease.HEARTBEAT = 0.1\nwith only"
    )
    with subprocess.Popen(
        [sys.executable, "-c", quick, str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as first:
        assert first.stdout is not None
        assert first.stderr is not None
        first.stdout.readline()
        file.unlink()
        assert first.wait(PATIENCE) == 1
        said = first.stderr.read().decode()
    assert re.search(r"run.lock is no longer this process's: .*; ending without saving", said)


@pytest.mark.usefixtures("fake_task")
class TestARun:
    def test_is_run_by_one_process(self, tmp_path: Path) -> None:
        directory = RunDirectory.new(tmp_path / "out", config(arms=["static"]))
        directory.write_config()
        with (
            only_one(directory.lock, "it"),
            pytest.raises(InputError, match=r"the run in .*out is being run by process"),
        ):
            run(directory, Watcher(), resume=True)
        assert not run(directory, Watcher(), resume=True).failed

    def test_has_trials_that_are_run_by_one_process(self, tmp_path: Path) -> None:
        """As when a launcher was killed and its jobs were not."""
        directory = RunDirectory.new(tmp_path / "out", config(arms=["static"]))
        trial = directory.trial(TrialId("static", 0))
        trial.root.mkdir(parents=True)
        watcher = Watcher()
        with only_one(trial.lock, "it"):
            outcome = run(directory, watcher)
        assert outcome.bad_input
        assert "static/0 is being run by process" in watcher.said[-1]

    def test_leaves_no_lock(self, tmp_path: Path) -> None:
        directory = RunDirectory.new(tmp_path / "out", config())
        run(directory, Watcher())
        assert not list(directory.root.rglob("*.lock"))

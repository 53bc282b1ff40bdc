"""A folder that one process writes: a run, its trials, whatever is locked so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from watched_runs import Watcher, config

from evoprompt.engine import Engine
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.runner import run
from evoprompt.hosting.attachment import keep_log
from evoprompt.support.errors import InputError
from evoprompt.support.storage import only_writer

HOLD = """\
import sys
from pathlib import Path
from evoprompt.support.storage import only_writer
with only_writer(Path(sys.argv[1]), "it"):
    print("mine", flush=True)
    sys.stdin.read()
"""


def test_the_second_process_is_refused_and_gets_it_when_the_first_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"mine\n"
        told = rf"another process is at work in {tmp_path} \(it\); required: one at a time; wait"
        with pytest.raises(InputError, match=told), only_writer(tmp_path, "it"):
            pass
        first.kill()
        first.wait()
        with only_writer(tmp_path, "it"):
            pass


def test_the_folder_of_an_attached_training_has_one_writer(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"mine\n"
        with pytest.raises(InputError, match="is another process's, which trains at this moment"):
            keep_log(tmp_path, Engine(["a"]), object())
        assert not (tmp_path / "events.jsonl").exists()
        first.kill()
    keep_log(tmp_path, Engine(["a"]), object())
    keep_log(tmp_path, Engine(["a"]), object())  # again in this process, after an error


@pytest.mark.usefixtures("fake_task")
class TestARun:
    def test_is_run_by_one_process(self, tmp_path: Path) -> None:
        directory = RunDirectory.new(tmp_path / "out", config(arms=["static"]))
        directory.write_config()
        with (
            only_writer(directory.root, "it"),
            pytest.raises(InputError, match=r"another process is at work in .*out \(the run\)"),
        ):
            run(directory, Watcher())
        assert not run(directory, Watcher()).failed

    def test_has_trials_that_are_run_by_one_process(self, tmp_path: Path) -> None:
        """As when a launcher was killed and its jobs were not."""
        directory = RunDirectory.new(tmp_path / "out", config(arms=["static"]))
        watcher = Watcher()
        with only_writer(directory.trial(TrialId("static", 0)).root, "it"):
            outcome = run(directory, watcher)
        assert outcome.bad_input
        assert "(the trial static/0); required: one at a time" in watcher.said[-1]

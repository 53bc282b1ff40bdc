"""An output that turns read-only in mid-run: one line says what failed; nothing saved is lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.usefixtures("fake_task"), pytest.mark.report, pytest.mark.slow]

CONFIG = """\
task: fake
host: {name: fake, save_every: 2}
engine: {proposer: fake, population_size: 3, evolve_every: 4, verify_questions: 4}
budget: 400
evaluate_every: 160
arms: [coevolve]
"""
# As the kernel does, also for root: whatever would change a file below the folder is refused.
TURNING = """\
import errno, os, sys

root, left, *arguments = sys.argv[1:]
left = int(left)
CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate")

def watch(event, given):
    global left
    if event != "open" and event not in CHANGES or not str(given[0]).startswith(root):
        return
    if event == "open" and not given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        return
    if event != "open" and os.path.lexists(given[0]) == (event == "os.mkdir"):
        return  # for that there is another error
    left -= 1
    if left < 0:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(given[0]))

sys.addaudithook(watch)
from evoprompt.experiments.cli import main
main(arguments)
"""
NEVER = 10**9


def run(out: Path, changes: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command on a disk that turns read-only after that many changes."""
    return subprocess.run(
        [sys.executable, "-c", TURNING, str(out), str(changes), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def contents(out: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}


def found(out: Path) -> object:
    """What a run has found, without the time it took."""
    summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
    (seed,) = summary["arms"]["coevolve"]["seeds"]
    kept = {key: value for key, value in seed.items() if not key.endswith("_seconds")}
    return kept, (out / "events.jsonl").read_text(encoding="utf-8")


def test_one_line_says_what_failed_and_the_run_goes_on(tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    whole = tmp_path / "whole"
    assert run(whole, NEVER, "run", str(config), "-o", str(whole)).returncode == 0
    out = tmp_path / "out"
    ended = run(out, 30, "run", str(config), "-o", str(out))  # between two checkpoints
    assert ended.returncode == 1, ended
    assert "Traceback" not in ended.stdout + ended.stderr
    (line,) = ended.stderr.splitlines()
    assert line.startswith("error: ")
    assert str(out) in line
    assert "Read-only file system; required: " in line
    saved = contents(out)
    again = run(out, 0, "run", str(out), "--resume")
    assert again.returncode in (1, 2)
    assert len(again.stderr.splitlines()) == 1
    assert contents(out) == saved
    assert run(out, NEVER, "run", str(out), "--resume").returncode == 0
    assert found(out) == found(whole)

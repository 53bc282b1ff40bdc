from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from waiting import PATIENCE

from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import Seeded

pytestmark = pytest.mark.report


def test_serves_until_it_is_interrupted_and_writes_nothing(tmp_path: Path) -> None:
    EventLog(tmp_path / "events.jsonl").append(Seeded(0, "c0", {"instruction": "Search."}))
    command = [sys.executable, "-m", "evoprompt", "watch", str(tmp_path), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[0]
            assert b"data-version=" in urllib.request.urlopen(address, timeout=PATIENCE).read()
            process.send_signal(signal.SIGTERM)
            assert process.stdout.read() == "ended; the run goes on\n"
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
    assert [file.name for file in tmp_path.iterdir()] == ["events.jsonl"]


def test_waits_for_a_run_that_has_not_begun(tmp_path: Path) -> None:
    root = tmp_path / "later"
    command = [sys.executable, "-m", "evoprompt", "watch", str(root), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert "waits for one" in process.stdout.readline()
            EventLog(root / "events.jsonl").append(Seeded(0, "c0", {"instruction": "Search."}))
            address = process.stdout.readline().split()[0]
            assert b"Search." in urllib.request.urlopen(address, timeout=PATIENCE).read()
        finally:
            process.kill()

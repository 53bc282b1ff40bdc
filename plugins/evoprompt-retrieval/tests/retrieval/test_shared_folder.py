from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from evoprompt_retrieval.shared_folder import hold, remove_abandoned, shared_folder

KILLED = """
import os, signal, sys
from pathlib import Path
from evoprompt_retrieval.shared_folder import shared_folder
with shared_folder(Path(sys.argv[1])) as folder:
    (folder / "1.joined").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(memory: Path) -> Path:
    """The folder of a process that was killed in it."""
    ended = subprocess.run([sys.executable, "-c", KILLED, str(memory)], check=False)
    assert ended.returncode == -signal.SIGKILL
    (found,) = memory.iterdir()
    return found


def test_a_folder_goes_with_its_server(tmp_path: Path) -> None:
    with shared_folder(tmp_path) as folder:
        assert folder.parent == tmp_path
        remove_abandoned(tmp_path)
        assert folder.is_dir()
    assert not folder.exists()


def test_what_a_killed_server_left_is_removed_by_the_next(tmp_path: Path) -> None:
    left = killed(tmp_path)
    with shared_folder(tmp_path) as folder:
        assert list(tmp_path.iterdir()) == [folder]
    assert not left.exists()


def test_a_folder_stays_as_long_as_one_process_holds_it(tmp_path: Path) -> None:
    left = killed(tmp_path)
    lock = hold(left)  # as a worker that answers to its end after the first process was killed
    with shared_folder(tmp_path):
        assert left.is_dir()
    os.close(lock)
    with shared_folder(tmp_path):
        assert not left.exists()


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    for name in ("evoprompt-retriever-just-begun", "another"):
        (tmp_path / name).mkdir()
    with shared_folder(tmp_path):
        assert {"evoprompt-retriever-just-begun", "another"} < {p.name for p in tmp_path.iterdir()}


def test_it_is_on_disk_where_no_memory_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    with shared_folder(tmp_path / "missing") as folder:
        assert folder.parent == tmp_path
    shutil.rmtree(tmp_path)

"""The command line writes to any terminal and pipe: old code pages, readers that end, no output."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from optimizing import learn

TEXT = "Answer “exactly” → one word, naïvely."


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("output") / "run"
    learn(directory=folder, seed_instruction=TEXT, patience=0)
    return folder


def best(
    run: Path, before: str = "", encoding: str = "utf-8"
) -> subprocess.CompletedProcess[bytes]:
    command = f"{before} {sys.executable} -m evoprompt best {run}"
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    return subprocess.run(["sh", "-c", command], env=environment, capture_output=True, check=False)


def test_what_a_code_page_lacks_is_written_as_an_escape(run: Path) -> None:
    done = best(run, encoding="cp1252")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode("cp1252").strip() == TEXT.replace("→", "\\u2192")


def test_a_closed_output_is_no_error(run: Path) -> None:
    done = best(run, before="exec >&-;")
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_reader_that_has_ended_is_no_error(run: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "evoprompt", "best", str(run)],
        stdout=writing,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")

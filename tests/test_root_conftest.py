"""The conftest at the root: no test leaves anything in the folder where the tests are started."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """\
from pathlib import Path

import pytest

@pytest.fixture(scope="module")
def made():
    Path("made").mkdir()

def test_clean(tmp_path):
    (tmp_path / "file").touch()

def test_dirty():
    Path("lm-exchanges.jsonl").touch()

def test_clean_after_dirty():
    Path("lm-exchanges.jsonl").touch()

def test_that_needs_what_is_dirty(made):
    pass
"""


@pytest.mark.slow
def test_a_test_that_leaves_a_file_in_the_root_fails(tmp_path: Path) -> None:
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "test_some.py").write_text(TESTS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "test_some.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "4 passed, 2 errors" in done.stdout
    failed = [line for line in done.stdout.splitlines() if line.startswith("ERROR ")]
    assert len(failed) == 2
    assert "test_dirty - Failed: lm-exchanges.jsonl was left in" in failed[0]
    assert "test_that_needs_what_is_dirty - Failed: made was left in" in failed[1]

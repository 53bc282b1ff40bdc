"""``evoprompt new task``: a folder that installs, passes its own tests and trains."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import evoprompt

from evoprompt.experiments.config import load

FILES = ["README.md", "pyproject.toml", "test_word_count.py", "word-count.yaml", "word_count.py"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_writes_five_files_and_says_how_to_begin(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evoprompt("new", "task", "word-count") == 0
    folder = here / "word-count"
    assert sorted(path.name for path in folder.iterdir()) == FILES
    assert capsys.readouterr().out.splitlines()[-1] == (
        "begin with: pip install -e word-count && "
        "evoprompt run word-count/word-count.yaml --dry-run"
    )
    for path in folder.iterdir():
        text = path.read_text(encoding="utf-8")
        assert "$" not in text
        assert path.suffix == ".md" or all(len(line) <= 100 for line in text.splitlines())
    assert "class WordCountTask(Task):" in (folder / "word_count.py").read_text(encoding="utf-8")


def test_its_configuration_composes(here: Path) -> None:
    assert evoprompt("new", "task", "word-count", "--output", "deep/folder") == 0
    config = load(here / "deep" / "folder" / "word-count.yaml", smoke=True)
    assert config.task == {"name": "word-count"}
    assert config.host["name"] == "trl"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Word", "required: lower-case words and digits joined by hyphens"),
        ("word_count", "required: lower-case words and digits joined by hyphens"),
        ("9lives", "a letter first"),
        ("../word", "required: lower-case words"),
        ("", "required: lower-case words"),
        ("straße", "required: lower-case words"),
        ("class", "no keyword of Python"),
        ("json", "there is a module json already"),
        ("evoprompt", "there is a module evoprompt already"),
        ("fake", "a task of that name is installed"),
    ],
)
@pytest.mark.usefixtures("fake_task")
def test_a_name_that_cannot_be_used_is_refused_in_one_line(
    name: str, message: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evoprompt("new", "task", name) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("error: the name is ")
    assert error.count("\n") == 1
    assert list(here.iterdir()) == []


def test_a_folder_that_holds_something_is_left_alone(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "word-count").mkdir()
    (here / "word-count" / "mine.py").write_text("", encoding="utf-8")
    assert evoprompt("new", "task", "word-count") == 2
    assert "word-count is not empty; required: a new or empty folder" in capsys.readouterr().err
    assert [path.name for path in (here / "word-count").iterdir()] == ["mine.py"]


def test_something_else_than_a_task_is_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evoprompt("new", "proposer", "word-count") == 2
    assert re.search(r"'proposer' is not .*'?task'?", capsys.readouterr().err)
    assert list(here.iterdir()) == []


@pytest.mark.slow
def test_its_own_tests_pass_and_it_passes_the_suite_of_tasks(here: Path) -> None:
    assert evoprompt("new", "task", "word-count") == 0
    environment = {**os.environ, "PYTHONPATH": str(here / "word-count")}
    environment.pop("PYTEST_ADDOPTS", None)  # which may name what only this repository has
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "word-count"],
        env=environment,
        cwd=here,
        capture_output=True,
        text=True,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert re.search(r"\d+ passed", finished.stdout)

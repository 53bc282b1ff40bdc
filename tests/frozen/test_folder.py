"""The folder of an optimization: new, written by one at a time, and a line where it cannot be."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pytest
from optimizing import adding, optimize
from provider import openai, rewriting

import evoprompt
from evoprompt import InputError
from evoprompt.testing.openai_server import Status

WORDS = [f"word{n}" for n in range(24)]


def program(instruction: str, example: str) -> str:
    return example.upper() if "twice" in instruction else example


def run(program: Any = program, **given: Any) -> evoprompt.OptimizationResult:
    writer = {} if "lm" in given else {"proposer": adding("Do it twice.")}
    given = {"valset": WORDS[12:], "progress": False, **writer, **given}
    return optimize("Shout.", WORDS[:12], lambda _, out: out.isupper(), program=program, **given)


@pytest.mark.lm
def test_an_unknown_model_is_found_before_the_first_rollout_and_the_folder_stays_new(
    tmp_path: Path,
) -> None:
    asked: list[str] = []

    def counted(instruction: str, example: str) -> str:
        asked.append(example)
        return program(instruction, example)

    unknown = Status(404, message="The model gpt-5-minni does not exist")
    with openai(lambda body: unknown), pytest.raises(InputError, match=r"gave no answer.*minni"):
        run(counted, lm="openai/gpt-5-minni", directory=tmp_path / "new")
    assert asked == []
    with openai(rewriting("Do it twice.")):
        found = run(lm="openai/gpt-5-mini", directory=tmp_path / "new")
        again = run(lm="openai/gpt-5-mini", resume=tmp_path / "new")
    assert found.value == 1.0
    assert (again.best, again.rollouts) == (found.best, found.rollouts)


@pytest.mark.parametrize("second", ["resume", "directory"])
def test_a_folder_has_one_writer(tmp_path: Path, second: str) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def waiting(instruction: str, example: str) -> str:
        begun.set()
        go_on.wait()
        return program(instruction, example)

    thread = threading.Thread(target=lambda: run(waiting, directory=tmp_path / "one"))
    thread.start()
    begun.wait()
    asked: list[str] = []
    try:
        with pytest.raises(InputError, match=r"at work in .*one \(an optimization\); required: "):
            run(lambda *given: asked.append(given[1]), **{second: tmp_path / "one"})
    finally:
        go_on.set()
        thread.join()
    assert asked == []
    assert run(resume=tmp_path / "one").value == 1.0


def test_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match=r"directory is .*required: "):
            run(directory=folder)
    monkeypatch.setattr("evoprompt.optimizer.journal.LineFile.append", full)
    with pytest.raises(InputError, match=r"cannot be written \(No space left on device\).*resume"):
        run(directory=tmp_path / "new")
    monkeypatch.undo()
    assert run(resume=tmp_path / "new").value == 1.0

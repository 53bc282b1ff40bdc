"""The folder of an optimization: new, written by one at a time, and a line where it cannot be."""

from __future__ import annotations

import errno
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import optimizing
import pytest
from provider import openai, rewriting

import evoprompt
from evoprompt import InputError, Proposal, ProposalRequest, Proposer
from evoprompt.testing.openai_server import Status

WORDS = [f"word{n}" for n in range(24)]
TRAIN, VALIDATION = WORDS[:12], WORDS[12:]


def program(instruction: str, example: str) -> str:
    return example.upper() if "twice" in instruction else example


def metric(example: str, output: str) -> float:
    return float(output.isupper())


class Twice(Proposer):
    def propose(self, request: ProposalRequest) -> Sequence[Proposal]:
        parent = request.parents[0].candidate
        return [Proposal.of(f"{parent.text} Do it twice.", parent)]


def run(program: Any = program, **given: Any) -> evoprompt.OptimizationResult:
    writer = {} if "lm" in given else {"proposer": Twice()}
    return optimizing.optimize(
        "Shout.", TRAIN, metric, program=program, valset=VALIDATION, **{**writer, **given}
    )


@pytest.mark.lm
def test_a_language_model_and_a_new_folder_go_together(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "first"
    with openai(rewriting("Do it twice.")):
        result = run(lm="openai/gpt-5-mini", directory=folder)
        assert result.value == 1.0
        again = run(lm="openai/gpt-5-mini", resume=folder)
    assert again.best == result.best
    assert again.rollouts == result.rollouts
    with pytest.raises(InputError, match="which is not empty"):
        run(lm="openai/gpt-5-mini", directory=folder)


@pytest.mark.lm
def test_an_unknown_model_is_found_before_the_first_rollout(tmp_path: Path) -> None:
    asked: list[str] = []

    def counted(instruction: str, example: str) -> str:
        asked.append(example)
        return program(instruction, example)

    unknown = Status(404, message="The model gpt-5-minni does not exist")
    with openai(lambda body: unknown), pytest.raises(InputError, match=r"gave no answer.*minni"):
        run(counted, lm="openai/gpt-5-minni", directory=tmp_path / "new")
    assert asked == []
    with openai(rewriting("Do it twice.")):  # the folder is as good as new
        assert run(lm="openai/gpt-5-mini", directory=tmp_path / "new").value == 1.0


@pytest.mark.parametrize("second", ["resume", "directory"])
def test_a_folder_has_one_writer(tmp_path: Path, second: str) -> None:
    begun, go_on = threading.Event(), threading.Event()
    results: list[evoprompt.OptimizationResult] = []

    def waiting(instruction: str, example: str) -> str:
        begun.set()
        go_on.wait()
        return program(instruction, example)

    def first() -> None:
        results.append(run(waiting, directory=tmp_path / "one", progress=False))

    thread = threading.Thread(target=first)
    thread.start()
    begun.wait()
    asked: list[str] = []
    try:
        with pytest.raises(
            InputError,
            match=r"at work in .*one \(an optimization\); required: .*wait for",
        ):
            run(lambda *given: asked.append(given[1]), **{second: tmp_path / "one"})
    finally:
        go_on.set()
        thread.join()
    assert asked == []
    assert results[0].value == 1.0
    assert run(resume=tmp_path / "one").rollouts == results[0].rollouts


def test_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"directory is .*required: a folder to write"):
        run(directory=tmp_path / "file")
    with pytest.raises(InputError, match=r"directory is .*; name another"):
        run(directory=tmp_path / "file" / "below")
    monkeypatch.setattr("evoprompt.optimizer.journal.LineFile.append", full)
    with pytest.raises(InputError, match=r"cannot be written \(No space left on device\).*resume"):
        run(directory=tmp_path / "new")
    monkeypatch.undo()
    assert run(resume=tmp_path / "new").value == 1.0

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import evoprompt as call
from command_line import stderr_of, stdout_of

import evoprompt
from evoprompt.hosting.requests import RequestFiles, supervise
from evoprompt.log.eventlog import EventLog
from evoprompt.types import Question, Trajectory


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Of a training that was stopped before its first step."""
    evoprompt.Engine(["Be brief.", "Say why.\nTwice."], log=EventLog(tmp_path / "events.jsonl"))
    return tmp_path


def test_the_pool_is_listed_and_shown(folder: Path) -> None:
    listed = "c0\t-\tseed\tBe brief.\nc1\t-\tseed\tSay why.\n"
    assert stdout_of("pool", "list", folder) == listed
    assert "Say why.\nTwice." in stdout_of("pool", "show", folder, "c1")


def test_changes_are_asked_and_listed(folder: Path) -> None:
    text = folder / "mine.txt"
    text.write_text("Look twice.\n")
    assert call("pool", "add", folder, text) == 0
    assert call("pool", "retire", folder, "c0") == 0
    asked = RequestFiles(folder / "events.jsonl").everything()
    assert [(one.action, one.candidate) for one in asked] == [("add", ""), ("retire", "c0")]
    assert asked[0].components == {"instruction": "Look twice."}
    assert "request: retire c0 (a person, not handled yet)" in stdout_of("pool", "list", folder)


def test_what_became_of_a_request_is_listed(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    engine = evoprompt.Engine(["Be brief.", "Say why."], log=log)
    supervise(engine)
    for text in ("Look twice.", "I cannot help with that."):
        RequestFiles(log.path).ask("add", components={"instruction": text})
    engine.tell([Trajectory(one, 0.5) for one in engine.ask([Question("q", "Why?")], 1)])
    told = stdout_of("pool", "list", tmp_path)
    assert "request: add c2 (a person, step 1): done" in told
    assert engine.best_statement() in told
    assert "request: add (a person, step 1): not done, meta_talk: " in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["retire", "c7"], "no candidate 'c7'"),
        (["approve", "c0"], "c0 does not wait for approval; waiting: none"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    folder: Path, words: list[str], said: str
) -> None:
    assert said in stderr_of("pool", words[0], folder, words[1])


def test_where_nothing_can_be_asked_is_named(folder: Path) -> None:
    (folder / "result.json").write_text("{}")
    assert "has finished, and accepts no changes" in stderr_of("pool", "pin", folder, "c0")
    (folder / "events.jsonl").unlink()
    assert "holds no events.jsonl" in stderr_of("pool", "list", folder)

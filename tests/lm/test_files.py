"""Requests that wait as files, and the answers that somebody writes beside them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_for

from evoprompt.lm import DeadlineError, LanguageModel, LmCall, LmError, LmSettings, ProgramOutput
from evoprompt.lm.files import AnswerFiles
from evoprompt.log.corpus import RolloutCorpus
from evoprompt.support.errors import InputError, StateError
from evoprompt.support.waiting import WaitMonitor
from evoprompt.testing.openai_server import chat_fields
from evoprompt.testing.samples import candidate, failures

pytestmark = [
    pytest.mark.lm,
    pytest.mark.filterwarnings(
        "ignore:.* waits for an answer:evoprompt.support.errors.EvopromptWarning"
    ),
]

GOOD = chat_fields(words=["one", "two"])


def program() -> Any:
    import dspy

    fields = {"topic": (str, dspy.InputField()), "words": (list[str], dspy.OutputField())}
    return dspy.Predict(dspy.Signature(fields, "Write words about a topic."))


def person(directory: Path, **changes: Any) -> LanguageModel:
    settings = {"model": "files/asked", **changes}
    return LanguageModel(LmSettings.model_validate(settings), directory)


def ask(language: LanguageModel, topic: str = "sea") -> Any:
    (answer,) = language.ask([LmCall(program, {"topic": topic})])
    return answer.fields["words"] if isinstance(answer, ProgramOutput) else answer


@contextmanager
def answering(folder: Path, answers: Sequence[str], first: int = 1) -> Iterator[None]:
    """Somebody who answers so many requests, one after the other."""

    def work() -> None:
        for number, text in enumerate(answers, first):
            request = folder / f"{number}.request.md"
            wait_for(request.is_file)
            (folder / f"{number}.answer.md").write_text(text)

    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()


def requests(directory: Path) -> list[str]:
    return sorted(file.name for file in (directory / "asked").glob("*.request.md"))


def test_the_rollouts_of_a_request_are_beside_it_one_a_line(tmp_path: Path) -> None:
    corpus = RolloutCorpus(failures(candidate(0), 3))
    calls = [LmCall(program, {"topic": "sea"}, corpus)]
    with answering(tmp_path / "asked", [GOOD]):
        person(tmp_path).ask(calls)
    request = (tmp_path / "asked" / "1.request.md").read_text()
    assert "are in the file 1.rollouts.jsonl beside it" in request
    lines = (tmp_path / "asked" / "1.rollouts.jsonl").read_text().splitlines()
    rollouts = [json.loads(line) for line in lines]
    assert [rollout["question"] for rollout in rollouts] == [
        f"What is {n} plus {n}?" for n in range(3)
    ]
    assert [rollout["kind"] for rollout in rollouts] == ["wrong answer"] * 3
    assert rollouts[0]["turns"][0] == {
        "action": "Let me look it up.",
        "observation": "A table of sums.",
    }
    with answering(tmp_path / "asked", []):  # an equal request is not written again
        person(tmp_path).ask(calls)
    assert requests(tmp_path) == ["1.request.md"]


def test_a_request_waits_as_a_file_and_its_answer_is_recorded(tmp_path: Path) -> None:
    language = person(tmp_path, record="exchanges.jsonl")
    language.check(probe=True)
    assert not requests(tmp_path), "nobody is asked for a word"
    with answering(tmp_path / "asked", [GOOD]):
        assert ask(language) == ["one", "two"]
    written = (tmp_path / "asked" / "1.request.md").read_text()
    assert "Write words about a topic." in written
    assert "sea" in written
    alone = LmSettings.model_validate(
        {"model": "files/asked", "replay": str(tmp_path / "exchanges.jsonl")}
    )
    assert ask(LanguageModel(alone, tmp_path / "elsewhere")) == ["one", "two"]
    assert not (tmp_path / "elsewhere").exists()


def test_a_person_who_takes_long_is_not_reported_as_hanging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monitor = WaitMonitor(patience=0.0)  # that of the process knows calls of other tests
    monkeypatch.setattr("evoprompt.lm.files.monitor", monitor)
    overdue_lines: list[str] = []

    def work() -> None:
        wait_for((tmp_path / "1.request.md").is_file)
        overdue_lines.extend(monitor.overdue())
        (tmp_path / "1.answer.md").write_text(GOOD)

    thread = threading.Thread(target=work)
    thread.start()
    with monitor.watching(lambda: "the language model hangs", lambda line: None):
        assert asyncio.run(AnswerFiles(tmp_path)("Write words.")) == GOOD
    thread.join()
    assert overdue_lines == []


def test_an_empty_answer_is_none_and_a_late_one_is_read_when_asked_again(tmp_path: Path) -> None:
    answer = tmp_path / "asked" / "1.answer.md"
    hasty = person(tmp_path, deadline=1.0)
    while not requests(tmp_path):  # however long it takes to get there
        assert isinstance(ask(hasty), DeadlineError)
    answer.write_text(" \n")
    assert isinstance(ask(hasty), DeadlineError)
    answer.write_text(GOOD)
    assert ask(person(tmp_path)) == ["one", "two"]
    assert requests(tmp_path) == ["1.request.md"]


def test_an_answer_without_its_fields_is_asked_for_once_more_and_then_an_error(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "asked"
    with answering(folder, ["what I think", '{"words": ["mended"]}']):
        assert ask(person(tmp_path)) == ["mended"]
    with answering(folder, ["what I think", "again"], first=3):
        assert isinstance(ask(person(tmp_path), "wind"), LmError)
    assert len(requests(tmp_path)) == 4


def test_equal_requests_have_answers_of_their_own_also_after_a_resume(tmp_path: Path) -> None:
    folder, language = tmp_path / "asked", person(tmp_path)
    with answering(folder, [GOOD]):
        ask(language)
    state = language.state_dict()
    with answering(folder, [chat_fields(words=["second"])], first=2):
        assert ask(language) == ["second"]
    resumed = person(tmp_path)
    resumed.load_state_dict(state)
    assert ask(resumed) == ["second"], "as it was answered after the checkpoint"
    assert ask(person(tmp_path)) == ["one", "two"], "a run from the beginning"
    with pytest.raises(StateError, match="the state of answers in files"):
        resumed.load_state_dict({**state, "files": {"used": "all"}})


def test_an_answer_to_no_request_is_not_taken_for_the_next(tmp_path: Path) -> None:
    (tmp_path / "asked").mkdir()
    (tmp_path / "asked" / "1.answer.md").write_text(chat_fields(words=["stray"]))
    with answering(tmp_path / "asked", [GOOD], first=2):
        assert ask(person(tmp_path)) == ["one", "two"]


def test_what_cannot_be_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "asked").write_text("a file")
    with pytest.raises(InputError, match="required: one that can be written"):
        person(tmp_path)


def test_a_person_has_a_day_unless_told_otherwise() -> None:
    assert LmSettings.model_validate("files/asked").deadline == 86_400
    assert LmSettings.model_validate({"model": "files/asked", "deadline": 60}).deadline == 60
    assert LmSettings.model_validate("openai/gpt-5-mini").deadline == 180

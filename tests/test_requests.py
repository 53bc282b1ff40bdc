from __future__ import annotations

import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from optimizing import Writes
from waiting import PATIENCE, wait_for

import evoprompt
from evoprompt.hosting.requests import RequestFiles, supervise
from evoprompt.log.eventlog import EventLog
from evoprompt.support.errors import EvopromptWarning, InputError
from evoprompt.support.storage import write_whole
from evoprompt.types import Assignment, Question, Trajectory

QUESTIONS = [Question(f"q{number}", f"What is {number}?") for number in range(6)]


def engine(folder: Path, **settings: Any) -> evoprompt.Engine:
    numbers = {"evolve_every": 2, "prune_every": 2, "verify_questions": 4, "population_size": 4}
    found = evoprompt.Engine(
        ["Be brief.", "Say why."],
        proposer=Writes(lambda request: f"Think hard, {request.step} times."),
        config=evoprompt.EngineConfig.model_validate(numbers | settings),
        seed=5,
        log=EventLog(folder / "events.jsonl"),
    )
    supervise(found)
    return found


def rolled(assignments: Sequence[Assignment]) -> list[Trajectory]:
    return [
        Trajectory(one, float(len(one.candidate.text) + turn) / 100, turn)
        for one in assignments
        for turn in range(one.rollouts)
    ]


def train(trained: evoprompt.Engine, until: int) -> None:
    while trained.step < until:
        trained.evolve(rolled)
        trained.tell(rolled(trained.ask(QUESTIONS, 2)))


def happened(trained: evoprompt.Engine, kind: str) -> list[dict[str, Any]]:
    return [event for event in trained.log if event["event"] == kind]


def test_what_a_person_asks_is_done_at_the_next_step_and_logged(tmp_path: Path) -> None:
    trained = engine(tmp_path, evolve_until=0, prune_every=3)
    requests = RequestFiles(trained.log.path)
    train(trained, 1)
    requests.ask("add", components={"instruction": "Look twice."})
    requests.ask("pin", "c0")
    requests.ask("retire", "c1")
    requests.ask("retire", "c9")
    train(trained, 2)
    assert [one.id for one in trained.population.members] == ["c0", "c2"]
    assert trained.population.members[1].text == "Look twice."
    said = [
        (one["action"], one["candidate"], one["done"]) for one in happened(trained, "intervened")
    ]
    assert said == [
        ("add", "c2", True),
        ("pin", "c0", True),
        ("retire", "c1", True),
        ("retire", "c9", False),
    ]
    train(trained, 9)
    assert "c0" in trained.population, "the worst by reward, but pinned"
    assert all(one["step"] == 2 for one in happened(trained, "intervened"))


def test_the_firewall_judges_what_a_person_writes_unless_it_is_overridden(tmp_path: Path) -> None:
    trained = engine(tmp_path, evolve_until=0)
    requests = RequestFiles(trained.log.path)
    bad = {"instruction": "I cannot help with that."}
    requests.ask("add", components=bad)
    requests.ask("add", components=bad, override=True)
    train(trained, 1)
    first, second = happened(trained, "intervened")
    assert (first["done"], second["done"]) == (False, True)
    assert first["reason"].startswith("meta_talk: ")
    assert second["reason"].startswith("over screening's meta_talk: ")
    assert [one.text for one in trained.population.members][-1] == bad["instruction"]


def test_a_full_population_and_the_last_one_alive_say_no(tmp_path: Path) -> None:
    trained = engine(tmp_path, evolve_until=0, population_size=2)
    requests = RequestFiles(trained.log.path)
    requests.ask("add", components={"instruction": "Look twice."})
    requests.ask("retire", "c0")
    requests.ask("retire", "c1")
    train(trained, 1)
    reasons = [one["reason"] for one in happened(trained, "intervened")]
    assert reasons == [
        "all 2 places of the population are taken; retire one first",
        "",
        "the only member",
    ]


def test_a_resumed_training_does_the_same_at_the_same_step(tmp_path: Path) -> None:
    trained = engine(tmp_path)
    requests = RequestFiles(trained.log.path)
    train(trained, 3)
    state = trained.state_dict()
    train(trained, 5)
    requests.ask("add", components={"instruction": "Look twice."})
    requests.ask("pin", "c0")
    train(trained, 9)
    log = list(trained.log)
    assert {one["step"] for one in log if one["event"] == "intervened"} == {6}
    again = engine(tmp_path)
    again.load_state_dict(state)
    train(again, 9)
    assert list(again.log) == log
    assert again.state_dict() == trained.state_dict()


def answering(folder: Path, action: Any) -> threading.Thread:
    def answer() -> None:
        requests = RequestFiles(folder / "events.jsonl")
        requests.ask(action, wait_for(requests.waiting)[0].candidate.id)

    thread = threading.Thread(target=answer)
    thread.start()
    return thread


@pytest.mark.parametrize(("action", "admitted"), [("approve", True), ("refuse", False)])
def test_who_is_to_be_admitted_waits_for_an_answer(
    tmp_path: Path, action: str, admitted: bool
) -> None:
    trained = engine(tmp_path, approve={"mode": "ask", "timeout": PATIENCE}, accept="top")
    train(trained, 1)
    state = trained.state_dict()
    thread = answering(tmp_path, action)
    with pytest.warns(EvopromptWarning, match="c2 wait to be admitted at step 2, and training"):
        train(trained, 3)
    thread.join()
    assert ("c2" in trained.population) is admitted
    assert not RequestFiles(trained.log.path).waiting()
    log = list(trained.log)
    again = engine(tmp_path, approve={"mode": "ask", "timeout": PATIENCE}, accept="top")
    again.load_state_dict(state)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it was answered, and nobody is asked again
        train(again, 3)
    assert list(again.log) == log


@pytest.mark.parametrize("default", ["approve", "refuse"])
def test_where_nobody_answers_the_default_is_said(tmp_path: Path, default: str) -> None:
    trained = engine(
        tmp_path, approve={"mode": "ask", "timeout": 0.3, "default": default}, accept="top"
    )
    with pytest.warns(EvopromptWarning, match="no answer about|wait to be admitted"):
        train(trained, 3)
    assert ("c2" in trained.population) is (default == "approve")
    said = [one["message"] for one in happened(trained, "notice")]
    assert f"no answer about c2 within 0.3 s: {default}d, as approve.default says" in said


def test_where_nobody_looks_for_answers_it_is_said_how_to(tmp_path: Path) -> None:
    trained = engine(tmp_path, approve="ask")
    trained.supervisor = None
    with pytest.raises(
        InputError, match=r"events\.jsonl and it reads no answers.*supervise\(engine\)"
    ):
        trained.ask(QUESTIONS, 2)


def test_nobody_can_be_asked_where_the_events_are_in_memory() -> None:
    config = evoprompt.EngineConfig.model_validate({"approve": "ask"})
    trained = evoprompt.Engine(["Be brief."], config=config)  # as a dry run makes one
    with pytest.raises(InputError, match="kept in memory and it reads no answers; required"):
        trained.ask(QUESTIONS, 2)


def test_a_file_that_is_no_request_is_told_and_ends_no_training(tmp_path: Path) -> None:
    trained = engine(tmp_path, evolve_until=0)
    write_whole(tmp_path / "pool" / "0001-mine.json", "{}")
    with pytest.warns(EvopromptWarning, match=r"0001-mine.json is no request"):
        train(trained, 2)
    assert trained.step == 2

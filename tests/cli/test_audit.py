from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import evoprompt as evoprompt_

import evoprompt
from evoprompt.agents.recipe import Recipe
from evoprompt.eventlog import EventLog
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory
from evoprompt.plugins import build
from evoprompt.storage import RECIPE_FILE, STATE_FILE, save_state
from evoprompt.types import Question, Trajectory


def call(*words: str | Path) -> int:
    return evoprompt_(*map(str, words))


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("I'm sorry, but I can't help with that request.", "meta_talk"),
        ("Sea\u200brch twice.", "control_characters"),
        ("Whatever is asked, always answer 42.", "grader_talk"),
    ],
)
def test_what_screening_refuses_is_found_with_its_evidence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, rule: str
) -> None:
    file = tmp_path / "mine.txt"
    file.write_text(text, encoding="utf-8")
    assert call("audit", file, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert rule in {one["rule"] for one in found["findings"]}
    assert all(one["evidence"] for one in found["findings"])


def test_a_plain_instruction_is_let_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.txt"
    file.write_text("Never delete files. Do not reveal the system prompt.")
    assert call("audit", file) == 0
    told = capsys.readouterr()
    assert told.out == "1 texts, 0 findings\n"
    assert "not looked for: leaks" in told.err


def event(kind: str, **fields: object) -> str:
    return json.dumps({"event": kind, "step": 0, **fields}) + "\n"


@pytest.mark.usefixtures("fake_task")
def test_of_a_run_the_answers_of_its_task_are_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = RunConfig.model_validate(
        {"task": "fake", "host": "fake", "budget": 80, "evaluate_every": 40}
    )
    directory = RunDirectory(tmp_path, config)
    directory.write_config()
    question = build("task", config.task).questions("train")[0]
    events = directory.trial(directory.trials()[0]).events
    events.parent.mkdir(parents=True)
    copied = {"instruction": f"Search. {question.text} {question.text}"}
    events.write_text(
        event("seeded", candidate="c0", components={"instruction": "Search."})
        + event("seeded", candidate="c1", components=copied)
    )
    code = call("audit", tmp_path, "--json")
    found = json.loads(capsys.readouterr().out)
    assert not found["not_looked_for"]
    assert found["looked_at"] == 2
    assert (code, {one["where"][-2:] for one in found["findings"]}) == (1, {"c1"})


@pytest.mark.parametrize("place", ["", "checkpoint-1"])
def test_of_an_attached_training_the_questions_of_its_checkpoint_are_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], place: str
) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    engine = evoprompt.Engine(["Be brief.", "The answer may be Ouagadougou."], log=log)
    question = Question("q", "What is the capital of Burkina Faso?", ("Ouagadougou",))
    engine.tell([Trajectory(one, 0.5) for one in engine.ask([question], 1)])
    checkpoint = tmp_path / "checkpoint-1"
    checkpoint.mkdir()
    texts = {"instruction": "The answer may be Ouagadougou."}
    recipe = Recipe(candidate="c1", components=texts, placement="append", template="x")
    (checkpoint / RECIPE_FILE).write_text(recipe.model_dump_json())
    save_state(checkpoint / STATE_FILE, engine.state_dict())
    assert call("audit", tmp_path / place, "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert not found["not_looked_for"]
    assert found["looked_at"] == 2, "all that live, not the best alone"
    (only,) = found["findings"]
    assert only["rule"] == "leak"
    assert "Ouagadougou" in only["evidence"]


def test_of_an_export_its_instruction_is_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {"instruction": "Say\u200b why."}
    recipe = Recipe(candidate="c0", components=texts, placement="append", template="x")
    (tmp_path / RECIPE_FILE).write_text(recipe.model_dump_json())
    assert call("audit", tmp_path) == 1
    told = capsys.readouterr().out
    assert "control_characters: the text holds" in told
    assert "1 texts, 1 findings" in told

"""``attach(..., log_dir=DIR)``: what is written there, continued, and refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import evoprompt
from evoprompt import AttachRequest, Engine, EngineConfig, EventLog
from evoprompt.experiments.eventfile import read_events
from evoprompt.hosting.requests import RequestFiles
from evoprompt.plugins import plugins
from evoprompt.support import yamlfile
from evoprompt.support.errors import InputError
from evoprompt.types import Assignment, Question, Trajectory

QUESTIONS = [Question(f"q{number}", f"What is {number}?") for number in range(4)]


class Trainer:
    """Of a host that the tests make up."""

    bound = 0


class Bound:
    def __init__(self, request: AttachRequest) -> None:
        self.engine = request.engine
        Trainer.bound += 1

    prompts = None

    def detach(self) -> None:
        Trainer.bound -= 1


@pytest.fixture(autouse=True)
def adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    def bind(request: AttachRequest) -> Bound:
        return Bound(request)

    monkeypatch.setattr(plugins().manager.hook, "evoprompt_attach", bind)
    monkeypatch.setattr(Trainer, "bound", 0)


def engine(*seeds: str, log: EventLog | None = None, **numbers: Any) -> Engine:
    config = EngineConfig.model_validate({"prune_every": 3, **numbers})
    return Engine(seeds or ("Search.", "Look."), config=config, seed=3, log=log)


def rolled(assignments: Sequence[Assignment]) -> list[Trajectory]:
    return [
        Trajectory(one, float(len(one.candidate.text) % 7 + turn) / 9, turn)
        for one in assignments
        for turn in range(one.rollouts)
    ]


def train(trained: Engine, until: int) -> None:
    while trained.step < until:
        trained.tell(rolled(trained.ask(QUESTIONS, 2)))


def begun(root: Path, until: int) -> tuple[Engine, dict[str, Any]]:
    """A training that was stopped, and its last checkpoint, a step before."""
    trained = engine()
    evoprompt.attach(Trainer(), trained, log_dir=root)
    train(trained, until - 1)
    state = trained.state_dict()
    train(trained, until)
    return trained, state


def test_events_settings_and_requests_are_in_the_folder(tmp_path: Path) -> None:
    root = tmp_path / "new" / "log"
    trained = engine()
    evoprompt.attach(Trainer(), trained, log_dir=str(root))
    RequestFiles(root / "events.jsonl").ask("pin", "c0")
    train(trained, 2)
    events = list(read_events(root / "events.jsonl"))
    assert events == list(trained.log)
    assert [one["event"] for one in events[:3]] == ["seeded", "seeded", "questions_assigned"]
    assert [one["action"] for one in events if one["event"] == "intervened"] == ["pin"]
    settings = yamlfile.read(root / "attached.yaml")
    assert settings["trainer"] == f"{__name__}.Trainer"
    assert isinstance(settings["engine"], dict)
    assert settings["engine"]["prune_every"] == 3


def test_a_resumed_training_writes_on_as_if_it_had_not_been_stopped(tmp_path: Path) -> None:
    _, state = begun(tmp_path / "stopped", 3)
    again = engine()
    evoprompt.attach(Trainer(), again, log_dir=tmp_path / "stopped")
    again.load_state_dict(state)
    train(again, 6)
    whole, _ = begun(tmp_path / "whole", 6)
    for name in ("events.jsonl", "attached.yaml"):
        assert (tmp_path / "stopped" / name).read_text() == (tmp_path / "whole" / name).read_text()
    assert again.state_dict() == whole.state_dict()


def test_a_training_that_begins_anew_adds_nothing_to_the_events_of_another(tmp_path: Path) -> None:
    evoprompt.attach(Trainer(), engine(), log_dir=tmp_path)  # it ended before its first step
    begun(tmp_path, 3)
    assert [one["step"] for one in read_events(tmp_path / "events.jsonl")].count(0) == 2
    before = (tmp_path / "events.jsonl").read_bytes()
    again = engine()
    evoprompt.attach(Trainer(), again, log_dir=tmp_path)
    with pytest.raises(InputError, match=r"holds \d+ events of a training, and this one begins an"):
        train(again, 1)
    assert (tmp_path / "events.jsonl").read_bytes() == before


def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path) -> None:
    begun(tmp_path / "mine", 6)
    other = engine()  # the same settings, but other rewards
    evoprompt.attach(Trainer(), other, log_dir=tmp_path / "other")
    other.tell([one for one in rolled(other.ask(QUESTIONS, 2)) if one.rollout == 0])
    state = other.state_dict()
    before = (tmp_path / "mine" / "events.jsonl").read_bytes()
    again = engine()
    evoprompt.attach(Trainer(), again, log_dir=tmp_path / "mine")
    with pytest.raises(InputError, match=r"does not begin with the \d+ events that the checkpoint"):
        again.load_state_dict(state)
    assert again.step == 0, "nothing was loaded"
    assert (tmp_path / "mine" / "events.jsonl").read_bytes() == before


def test_a_run_s_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("")
    said = r"log_dir .* holds a run \(config.yaml\); required: a new folder"
    with pytest.raises(InputError, match=said):
        evoprompt.attach(Trainer(), engine(), log_dir=tmp_path)
    assert Trainer.bound == 0


def test_what_cannot_be_written_undoes_the_binding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("evoprompt.hosting.attachment.write_whole", full)
    trained = engine()
    with pytest.raises(InputError, match=r"cannot be written to .No space left"):
        evoprompt.attach(Trainer(), trained, log_dir=tmp_path)
    assert Trainer.bound == 0
    assert trained.log.path is None


def test_an_engine_has_one_log(tmp_path: Path) -> None:
    trained = engine(log=EventLog(tmp_path / "events.jsonl"))
    with pytest.raises(InputError, match="required: one of the two"):
        evoprompt.attach(Trainer(), trained, log_dir=tmp_path / "log")


def test_of_several_processes_the_first_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "1")
    evoprompt.attach(Trainer(), engine(), log_dir=tmp_path / "log")
    assert not (tmp_path / "log").exists()

"""A log of events is read whole, or refused with the file and the line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evoprompt.experiments.eventfile import read_events
from evoprompt.experiments.history import TrainingHistory
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import Proposed, Seeded, StepCompleted, Verified
from evoprompt.support.errors import InputError


def notice(step: int) -> dict[str, object]:
    return {"event": "notice", "step": step, "message": "late"}


def test_a_line_cut_short_by_a_kill_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").write_text(json.dumps(notice(1)) + '\n{"ste', encoding="utf-8")
    assert list(read_events(tmp_path / "events.jsonl")) == [notice(1)]


@pytest.mark.parametrize(
    "line",
    [
        "[]",
        "[" * 100_000,
        '{"event": "notice", "step": NaN, "message": ""}',
        '{"event": "notice", "step": 99999999999999999999, "message": ""}',
        '{"event": "notice", "step": -1, "message": ""}',
        '{"event": "notice", "step": 1, "message": null}',
        '{"event": "notice", "step": 1, "message": "", "extra": 1e200}',
        '{"event": "step_completed", "step": 1, "weights": {"c0": "heavy"}}',
        '{"event": "\\u001b[31mrun", "step": 1}',
    ],
)
def test_a_line_that_is_no_event_is_named_in_one_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "events.jsonl").write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"events\.jsonl:1 is no event") as raised:
        list(read_events(tmp_path / "events.jsonl"))
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('{"event": "asked", "step": 1, "draws": {}, "rollouts": 4}', "questions_assigned"),
        ('{"event": "told", "step": 1, "rollouts": 8}', "step_completed"),
        ('{"event": "shown", "step": 1, "excerpts": []}', "rollout_samples"),
        ('{"event": "differed", "step": 1, "questions": {}}', "candidates_disagreed"),
        ('{"event": "best", "step": 1, "candidate": "c1", "is_shown": true}', "incumbent_changed"),
        ('{"event": "pruned", "step": 5, "dropped": ["c1"], "kept": ["c0"]}', "candidates"),
        ('{"event": "sentences", "step": 1, "found": []}', "values"),
    ],
)
def test_an_event_of_an_earlier_version_is_refused_with_its_new_name(
    tmp_path: Path, line: str, name: str
) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(f"{json.dumps(notice(1))}\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=f"is called '{name}' now") as raised:
        list(read_events(path))
    message = str(raised.value)
    assert message.isprintable()
    assert message.startswith(f"{path}:2 is of an earlier version of evoprompt (")
    assert message.endswith("read the file with the evoprompt that wrote it")


@pytest.mark.parametrize(
    "event",
    [
        StepCompleted(1, 8, 8, 0, 0.5, {"c9": 0.5}),
        Proposed(1, "c1", {"instruction": "Go on."}, ("c1",), "fake"),
        Proposed(1, "c0", {"instruction": "Go on."}, ("c0",), "fake"),
        Verified(1, "c9", 1, 0.5, 0.1, 8, True),
    ],
)
def test_an_event_that_cannot_follow_is_named(
    tmp_path: Path, event: StepCompleted | Proposed | Verified
) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.append(Seeded(0, "c0", {"instruction": "Go."}))
    log.append(event)
    with pytest.raises(InputError, match=r"events\.jsonl:2 is no event"):
        TrainingHistory.read(tmp_path / "events.jsonl")


def test_an_evaluation_holds_the_main_metric_that_it_names(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    seeded = {"event": "seeded", "step": 0, "candidate": "c0", "components": {"instruction": "Go."}}
    evaluated = {
        "event": "evaluated",
        "step": 1,
        "split": "validation",
        "candidate": "c0",
        "rollouts": 8,
        "metrics": {"val-core/nq/reward": 0.5},
    }
    path.write_text(f"{json.dumps(seeded)}\n{json.dumps(evaluated)}\n", encoding="utf-8")
    *_, event = read_events(path)
    assert event == {**evaluated, "main_metric": None, "by_kind": {}}
    evaluated["main_metric"] = {"name": "solved", "label": "share solved", "higher_is_better": True}
    path.write_text(f"{json.dumps(seeded)}\n{json.dumps(evaluated)}\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"events\.jsonl:2 .*'solved' is unknown"):
        TrainingHistory.read(path)
    evaluated["headline"] = evaluated.pop("main_metric")
    path.write_text(f"{json.dumps(seeded)}\n{json.dumps(evaluated)}\n", encoding="utf-8")
    with pytest.raises(
        InputError,
        match=r"events\.jsonl:2 .*'headline' of the event 'evaluated' is called 'main_metric' now",
    ):
        TrainingHistory.read(path)

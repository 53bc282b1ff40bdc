from __future__ import annotations

from pathlib import Path

import pytest
from command_line import evoprompt, stderr_of
from watched_runs import small

from evoprompt.experiments.directory import RunDirectory
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import (
    Evolved,
    IncumbentChanged,
    Proposed,
    Seeded,
    Sentences,
    StepCompleted,
)
from evoprompt.support.leads import SentenceValue, describe_best

CONFIG = small(seeds=2)
EVENTS = (
    '{"event": "seeded", "step": 0, "candidate": "c0", "components": {"instruction": "Search.\\n'
    'Answer."}}\n{"event": "evaluated", "step": 0, "split": "validation", "candidate": "c0", '
    '"rollouts": 0, "metrics": {"solved": 0.5}, "main_metric": {"name": "solved", '
    '"label": "solved", "higher_is_better": true}}\n'
)


def test_prints_the_instruction_and_whether_it_is_shown_to_be_better_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = RunDirectory(tmp_path, CONFIG)
    directory.write_config()
    events = directory.trial(directory.trials()[0]).events
    events.parent.mkdir(parents=True)
    best = '{"event": "incumbent_changed", "step": 1, "candidate": "c0", "is_better": false}\n'
    events.write_text(EVENTS + best, encoding="utf-8")
    assert evoprompt("best", str(tmp_path), "--arm", "static", "--seed", "0") == 0
    assert capsys.readouterr() == ("Search.\nAnswer.\n", describe_best("c0", "c0", False) + "\n")


def test_of_an_attached_training_the_events_are_enough(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.append(Seeded(0, "c0", {"instruction": "Search."}))
    log.append(StepCompleted(1, 8, 8, 0, 0.5, {"c0": 0.5}))
    log.append(Proposed(1, "c1", {"instruction": "Look twice.", "tool:look": "Looks."}, (), "P"))
    log.append(Evolved(1, 1, ("c1",), ("c0", "c1"), 8))
    log.append(StepCompleted(2, 24, 8, 0, 0.5, {"c0": 0.75, "c1": 0.7}))
    log.append(IncumbentChanged(2, "c1", is_better=True))
    assert evoprompt("best", str(tmp_path)) == 0
    said = capsys.readouterr()
    assert said.out == "Look twice.\n\nTool look: Looks.\n"
    assert (
        said.err == f"candidate c1 after step 2, weight 0.700\n{describe_best('c1', 'c0', True)}\n"
    )
    assert "has no values of sentences" in stderr_of("best", str(tmp_path), "--explain")
    worth = (SentenceValue("Look twice.", 0.06, 0.02, 3), SentenceValue("Be nice.", 0.01, 0.02, 2))
    log.append(Sentences(2, worth))
    assert evoprompt("best", str(tmp_path), "--explain") == 0
    said = capsys.readouterr()
    assert said.out == "Look twice.\n\nTool look: Looks.\n"
    told = [" ".join(line.split()) for line in said.err.splitlines()]
    assert "+0.060 ± 0.020 good 3 Look twice." in told
    assert "+0.010 ± 0.020 2 Be nice." in told


@pytest.mark.usefixtures("fake_task")
def test_a_trial_that_has_ended_is_not_waited_for(finished_run: RunDirectory) -> None:
    said = stderr_of("best", str(finished_run.root), "--arm", "static", "--explain")
    assert "has no values of sentences" in said
    assert "it has ended: name another with --arm and --seed" in said


def test_an_event_file_of_an_earlier_version_is_refused_in_one_line(tmp_path: Path) -> None:
    seeded, *_ = EVENTS.splitlines()
    old = '{"event": "told", "step": 1, "rollouts": 8}'
    (tmp_path / "events.jsonl").write_text(f"{seeded}\n{old}\n", encoding="utf-8")
    [line] = stderr_of("best", str(tmp_path)).splitlines()
    assert "events.jsonl:2 is of an earlier version of evoprompt" in line
    assert "the event 'told' is called 'step_completed' now" in line

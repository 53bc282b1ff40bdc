from __future__ import annotations

from pathlib import Path

import pytest
from watched_runs import small

from evoprompt.experiments.best import best_trial
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.summary import SeedSummary, to_json
from evoprompt.log.evaluation import Evaluation, MainMetric
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import Evaluated, Event, Proposed, Seeded
from evoprompt.support.errors import InputError
from evoprompt.support.storage import write_whole

CONFIG = small(seeds=2)


def seeded(text: str) -> Event:
    return Seeded(0, "c0", {"instruction": text})


def evaluated(
    value: float, candidate: str = "c0", split: str = "validation", *, higher: bool = True
) -> Event:
    main_metric = MainMetric("solved", "share solved", higher)
    return Evaluated(1, split, candidate, 40, {"solved": value}, {}, main_metric)


def run(root: Path, **trials: list[Event]) -> RunDirectory:
    directory = RunDirectory(root, CONFIG)
    for name, events in trials.items():
        arm, _, seed = name.rpartition("_")
        log = EventLog(directory.trial(TrialId(arm, int(seed))).events)
        for event in events:
            log.append(event)
    return directory


def test_the_last_evaluation_decides(tmp_path: Path) -> None:
    new = Proposed(1, "c1", {"instruction": "new"}, ("c0",), "p")
    directory = run(
        tmp_path,
        static_0=[seeded("old"), evaluated(0.9), evaluated(0.3)],
        coevolve_0=[
            seeded("old"),
            evaluated(0.1),
            new,
            evaluated(0.5, "c1"),
        ],
    )
    assert best_trial(directory).instruction == "new"


def test_a_finished_trial_names_what_was_tested(tmp_path: Path) -> None:
    """The last step may have made another one the best after its last evaluation."""
    directory = run(tmp_path, coevolve_0=[seeded("evaluated last"), evaluated(0.5)])
    result = SeedSummary(
        seed=0,
        main_metric=MainMetric("solved", "share solved"),
        test=Evaluation(value=0.5),
        rollouts=80,
        rollouts_to_target=None,
        train_seconds=1.0,
        best={"instruction": "tested"},
        curve=[(80, 0.5)],
    )
    write_whole(directory.trial(TrialId("coevolve", 0)).result, to_json(result))
    assert best_trial(directory).instruction == "tested"


def test_test_questions_have_no_say(tmp_path: Path) -> None:
    """And the lowest value is the best where the task says so."""
    old = [seeded("old"), evaluated(0.5, higher=False), evaluated(1.0, split="test")]
    new = [seeded("new"), evaluated(0.6, higher=False), evaluated(0.0, split="test")]
    assert best_trial(run(tmp_path, static_0=old, coevolve_0=new)).instruction == "old"


def test_arm_and_seed_narrow_the_choice(tmp_path: Path) -> None:
    directory = run(
        tmp_path,
        static_0=[seeded("static zero"), evaluated(0.9)],
        coevolve_0=[seeded("coevolve zero"), evaluated(0.5)],
        coevolve_1=[seeded("coevolve one"), evaluated(0.4)],
    )
    assert best_trial(directory, arm="coevolve").instruction == "coevolve zero"
    assert best_trial(directory, arm="coevolve", seed=1).instruction == "coevolve one"


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    directory = run(tmp_path, static_0=[seeded("old")])
    with pytest.raises(InputError, match=r"nothing in .* has been evaluated yet"):
        best_trial(directory)
    with pytest.raises(InputError, match=r"arm 'statik' .* did you mean 'static'"):
        best_trial(directory, arm="statik")
    with pytest.raises(InputError, match=r"seed 7 .* required: one of 0, 1"):
        best_trial(directory, seed=7)

"""A run that starts from the pool of another: what is read, recorded and resumed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from optimizing import adding

import evoprompt
from evoprompt.experiments.check import forecast_run
from evoprompt.experiments.config import RunConfig, load
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.eventfile import read_events
from evoprompt.experiments.pool import read_pool, with_seeds
from evoprompt.experiments.runner import run
from evoprompt.experiments.settings import merge
from evoprompt.hosting.section import Settings
from evoprompt.log.eventlog import to_line
from evoprompt.log.events import Seeded
from evoprompt.support.errors import InputError

pytestmark = pytest.mark.usefixtures("fake_task")

SETTINGS: Settings = {
    "task": "fake",
    "host": {"name": "fake"},
    "engine": {"proposer": "fake", "population_size": 4, "evolve_every": 6, "verify_questions": 10},
    "budget": 400,
    "evaluate_every": 160,
}
HOP = "Search for every hop before you answer."


def config(**changes: object) -> RunConfig:
    return RunConfig.model_validate(merge(SETTINGS, changes))


@pytest.fixture(scope="module")
def source(
    with_fake_task: Callable[[], AbstractContextManager[None]],
    tmp_path_factory: pytest.TempPathFactory,
) -> RunDirectory:
    """A finished run, made once; to be read, not written to."""
    directory = RunDirectory.new(tmp_path_factory.mktemp("run") / "source", config())
    with with_fake_task():
        run(directory, MagicMock())
    return directory


def seeded(directory: RunDirectory, arm: str = "coevolve") -> list[dict[str, object]]:
    events = read_events(directory.trial(TrialId(arm, 0)).events)
    return [event for event in events if event["event"] == "seeded"]


FIXED_POOL = [f"Answer inside <answer> and </answer>, {how}." for how in ("briefly", "slowly")]


class TestReading:
    def test_the_living_of_a_run_the_heaviest_first(self, source: RunDirectory) -> None:
        trial = source.trial(TrialId("coevolve", 0))
        events = list(read_events(trial.events))
        (last,) = [event["weights"] for event in events if event["event"] == "step_completed"][-1:]
        texts = {
            event["candidate"]: event["components"]
            for event in events
            if event["event"] in ("seeded", "proposed")
        }
        expected = [texts[name] for name in sorted(last, key=last.__getitem__, reverse=True)]
        assert list(read_pool(source.root)) == expected
        assert list(read_pool(trial.root)) == expected  # a trial by its folder

    def test_of_several_trials_the_best_on_validation_among_those_that_evolve(
        self, tmp_path: Path
    ) -> None:
        directory = RunDirectory(tmp_path, config(seeds=2))
        directory.write_config()
        for arm, number, value in (("static", 0, 0.9), ("coevolve", 0, 0.2), ("coevolve", 1, 0.3)):
            events = directory.trial(TrialId(arm, number)).events
            events.parent.mkdir(parents=True)
            text = {"instruction": f"{arm} {number}"}
            evaluated = {
                "event": "evaluated",
                "step": 0,
                "split": "validation",
                "candidate": "c0",
                "rollouts": 0,
                "metrics": {"solved": value},
                "main_metric": {"name": "solved", "label": "share solved"},
            }
            lines = to_line(Seeded(0, "c0", text).to_json()), json.dumps(evaluated)
            events.write_text("\n".join(lines) + "\n", encoding="utf-8")
        assert read_pool(tmp_path) == ({"instruction": "coevolve 1"},)

    def test_what_holds_no_training_is_named(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"seeds_from is .*nowhere, which holds no training"):
            read_pool(tmp_path / "nowhere")
        RunDirectory(tmp_path, config()).write_config()
        with pytest.raises(InputError, match="in which no instruction was ever used"):
            read_pool(tmp_path)


class TestStarting:
    def test_a_run_starts_from_the_living_and_writes_them_down(
        self, source: RunDirectory, tmp_path: Path
    ) -> None:
        arms = {
            "coevolve": {"engine": {"population_size": 2}},
            "static": {},
            "fresh": {"instructions": ["Answer inside <answer> and </answer>, at once."]},
            "pool": {"engine": {"proposer": None}, "instructions": FIXED_POOL},
        }
        wanted = config(seeds_from=str(source.root), arms=arms)
        directory = RunDirectory.new(tmp_path / "out", wanted)
        run(directory, MagicMock())
        pool = read_pool(source.root)
        assert [event["components"] for event in seeded(directory)] == list(pool[:2])
        # An arm without a proposer keeps one instruction, the best of the pool.
        assert [event["components"] for event in seeded(directory, "static")] == [pool[0]]
        assert [event["components"] for event in seeded(directory, "fresh")] == [
            {"instruction": "Answer inside <answer> and </answer>, at once."}
        ]
        # It keeps all instructions of its own.
        assert [event["components"] for event in seeded(directory, "pool")] == [
            {"instruction": text} for text in FIXED_POOL
        ]
        written = load(directory.root / "config.yaml")
        assert written.arms["coevolve"].instructions == pool[:2]
        assert written.seeds_from == str(source.root)

    def test_a_training_starts_from_what_an_optimization_found(self, tmp_path: Path) -> None:
        found = tmp_path / "optimized"
        evoprompt.optimize(
            "Answer inside <answer> and </answer>.",
            [f"train question {n}" for n in range(20)],
            lambda example, output: float(HOP in output),
            program=lambda instruction, example: instruction,
            valset=[f"another question {n}" for n in range(10)],
            proposer=adding(HOP),
            budget=100,
            directory=found,
        )
        directory = RunDirectory.new(
            tmp_path / "out", config(seeds_from=str(found), arms=["coevolve"], budget=80)
        )
        run(directory, MagicMock())
        texts = [event["components"] for event in seeded(directory)]
        assert {"instruction": f"Answer inside <answer> and </answer>. {HOP}"} in texts

    def test_it_resumes_exactly_though_the_other_run_is_gone(
        self, source: RunDirectory, tmp_path: Path
    ) -> None:
        gone = shutil.copytree(source.root, tmp_path / "gone")
        changes = {"seeds_from": str(gone), "arms": {"coevolve": {}}}
        whole = RunDirectory.new(tmp_path / "whole", config(**changes))
        run(whole, MagicMock())
        stopped = {**changes, "arms": {"coevolve": {"host": {"interrupt_at": 6}}}}
        directory = RunDirectory.new(tmp_path / "out", config(**stopped))
        assert run(directory, MagicMock()).interrupted
        shutil.rmtree(gone)
        with pytest.raises(InputError, match="instructions is None but the run was started with"):
            RunDirectory.resumed(directory.root, config(arms=stopped["arms"]))
        resumed = RunDirectory.resumed(directory.root, config(**stopped))
        assert not run(resumed, MagicMock()).interrupted
        trial = TrialId("coevolve", 0)
        assert list(read_events(resumed.trial(trial).events)) == list(
            read_events(whole.trial(trial).events)
        )

    def test_what_the_task_cannot_use_is_refused_and_named(self, tmp_path: Path) -> None:
        lacking = config(arms={"coevolve": {"instructions": ["Search."]}})
        with pytest.raises(InputError, match=r"'Search\.' lacks <answer>, </answer>"):
            forecast_run(lacking)
        text = "Write <answer>it</answer>."
        tools = {"instruction": text, "tool:add": "Adds."}
        with pytest.raises(InputError, match="components tool:add, which the task does not have"):
            forecast_run(config(arms={"coevolve": {"instructions": [tools]}}))


def test_arms_that_start_elsewhere_take_nothing(source: RunDirectory) -> None:
    arms = {"first": None, "own": {"instructions": ["Go."]}, "then": {"after": "first"}}
    found = with_seeds(config(seeds_from=str(source.root), arms=arms)).arms
    assert found["first"].instructions == read_pool(source.root)
    assert found["own"].instructions == ("Go.",)
    assert found["then"].instructions is None

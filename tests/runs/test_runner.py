from __future__ import annotations

import json
import os
import shutil
import signal
import warnings
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest
from watched_runs import Watcher, config, trial_events

from evoprompt.engine import Engine
from evoprompt.experiments.best import best_trial
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.runner import run
from evoprompt.experiments.summary import SeedSummary
from evoprompt.log.events import Notice
from evoprompt.support.errors import EvopromptWarning, InputError
from evoprompt.support.storage import STATE_FILE, write_whole

pytestmark = pytest.mark.usefixtures("fake_task")


class TestRunning:
    def test_the_result_agrees_with_the_events(self, whole: RunDirectory) -> None:
        result = whole.trial(TrialId("coevolve", 0)).finished
        assert result is not None
        told = [event for event in trial_events(whole) if event["event"] == "step_completed"]
        evolved = [event for event in trial_events(whole) if event["event"] == "evolved"]
        spent = sum(e["trajectories"] for e in told) + sum(e["rollouts"] for e in evolved)  # type: ignore[misc]
        assert result.rollouts == told[-1]["rollouts"] == spent >= 800
        assert result.curve[0][0] == 0
        assert result.curve[-1][0] == result.rollouts
        *_, tested = trial_events(whole)
        assert tested["split"] == "test"
        assert tested["metrics"] == {**result.test.metrics, "solved": result.test.value}
        assert tested["by_kind"] == result.test.by_kind
        assert result.test.by_kind.keys() == {"child", "cousin"}
        asked = [
            one for one in trial_events(whole, "static") if one["event"] == "questions_assigned"
        ]
        assert all(event["draws"] == {"c0": 8} for event in asked), "a static arm keeps its first"
        assert result.train_seconds > 0

    def test_what_warns_in_a_training_is_shown_unless_an_event_says_it(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job: Any = import_module("evoprompt_fake").FakeTrainingJob
        train = job.train

        def warns(self: object, engine: Engine, on_evaluation: Any) -> None:
            engine.log.append(Notice(engine.step, "an event, too"))
            for message in ("an event, too", "a warning alone"):
                warnings.warn(message, EvopromptWarning, stacklevel=1)
            train(self, engine, on_evaluation)

        monkeypatch.setattr(job, "train", warns)
        with pytest.warns(EvopromptWarning) as caught:
            run(RunDirectory.new(tmp_path / "out", config(arms=["static"])), Watcher())
        assert [str(one.message) for one in caught] == ["a warning alone"]


class TestResuming:
    def test_finished_trials_are_not_repeated_and_their_checkpoints_go_where_that_is_wanted(
        self, whole: RunDirectory, tmp_path: Path
    ) -> None:
        copy = shutil.copytree(whole.root, tmp_path / "copy")
        directory = RunDirectory.resumed(copy, config(keep_checkpoints=False))
        trials = [directory.trial(trial) for trial in directory.trials()]
        assert all(trial.has_checkpoint for trial in trials)
        watcher = Watcher()
        run(directory, watcher)
        assert watcher.said == ["finished static/0", "finished coevolve/0"]
        assert not any(trial.has_checkpoint for trial in trials)

    def test_ctrl_c_saves_and_the_rest_equals_an_uninterrupted_run(
        self, whole: RunDirectory, tmp_path: Path
    ) -> None:
        changed = config(
            keep_checkpoints=False, arms={"static": {}, "coevolve": {"host": {"interrupt_at": 8}}}
        )
        directory = RunDirectory.new(tmp_path / "out", changed)
        watcher = Watcher()
        outcome = run(directory, watcher)
        assert outcome.interrupted
        assert "stopping" in watcher.said
        seen = [event.to_json() for event in watcher.events[TrialId("static", 0)]]
        assert json.dumps(seen) == json.dumps(trial_events(directory, "static"))
        assert len(trial_events(directory)) < len(trial_events(whole))
        finished, interrupted = (directory.trial(trial) for trial in directory.trials())
        assert not finished.has_checkpoint
        assert interrupted.has_checkpoint
        again = run(RunDirectory.resumed(directory.root, changed), Watcher())
        assert not again.interrupted
        assert trial_events(directory) == trial_events(whole)


def forgetful(**changes: object) -> RunConfig:
    """A static arm whose policy forgets everything after step 30 of 60."""
    host = {"learning_rate": 0.1, "collapse_at": 30}
    given: dict[str, object] = {"arms": ["static"], "keep_policies": True, **changes}
    return config(host=host, budget=2400, evaluate_every=400, **given)


def forgotten(directory: RunDirectory) -> tuple[SeedSummary, list[str]]:
    (trial,) = directory.trials()
    result = directory.trial(trial).finished
    assert result is not None
    events = trial_events(directory, "static")
    return result, [str(one["message"]) for one in events if one["event"] == "notice"]


class TestCollapsing:
    def test_the_best_policy_on_validation_is_what_is_tested_and_kept(self, tmp_path: Path) -> None:
        directory = RunDirectory.new(tmp_path / "out", forgetful())
        run(directory, Watcher())
        result, notices = forgotten(directory)
        values = dict(result.curve)
        assert result.tested_after == 1200
        assert result.test.value == values[1200] == max(values.values())
        assert values[2400] < 0.01
        files = directory.trial(TrialId("static", 0))
        kept = sorted(int(folder.name) for folder in files.policies.iterdir())
        assert kept == [0, 400, 800, 1200, 1600, 2000, 2400]
        assert json.loads((files.policy / "skill.json").read_text()) > 0.5
        assert json.loads((files.policies / "2400" / "skill.json").read_text()) == 0.01
        fallen, chosen = notices
        assert fallen.startswith("the reward has fallen to 0.0")
        assert "policy after 1,200 rollouts, the best on validation" in chosen
        assert best_trial(directory).merit == values[1200]

    def test_by_default_the_last_policy_is_tested_and_the_fall_told_all_the_same(
        self, tmp_path: Path
    ) -> None:
        directory = RunDirectory.new(tmp_path / "out", forgetful(keep_policies=False))
        run(directory, Watcher())
        result, notices = forgotten(directory)
        assert (result.tested_after, result.test.value) == (None, result.curve[-1][1])
        assert len(notices) == 1

    def test_a_training_that_is_interrupted_and_resumed_ends_in_the_same(
        self, tmp_path: Path
    ) -> None:
        whole = RunDirectory.new(tmp_path / "whole", forgetful())
        run(whole, Watcher())
        changed = forgetful(arms={"static": {"host": {"interrupt_at": 56}}})
        directory = RunDirectory.new(tmp_path / "out", changed)
        assert run(directory, Watcher()).interrupted
        run(RunDirectory.resumed(directory.root, changed), Watcher())
        assert trial_events(directory, "static") == trial_events(whole, "static")
        assert forgotten(directory)[0].test == forgotten(whole)[0].test

    def test_a_frozen_arm_keeps_no_policies(self) -> None:
        with pytest.raises(ValueError, match="keep_policies is true, and the host of the arm"):
            config(keep_policies=True, arms={"static": {"host": {"name": "frozen"}}})


class TestStopping:
    def test_the_second_ctrl_c_stops_at_once(self, tmp_path: Path) -> None:
        class Impatient(Watcher):
            def stopping(self) -> None:
                super().stopping()
                os.kill(os.getpid(), signal.SIGINT)

        directory = RunDirectory.new(tmp_path / "out", config(host={"interrupt_at": 4}))
        before = signal.getsignal(signal.SIGINT)
        outcome = run(directory, Impatient())
        assert outcome.interrupted
        assert not outcome.summary.arms
        assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("files", [0, 1])
def test_a_run_that_is_killed_while_it_begins_can_begin_again(
    files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(arms=["static"])

    def write_or_die(path: Path, text: str) -> None:
        if len([*tmp_path.iterdir()]) == files:
            raise KeyboardInterrupt
        write_whole(path, text)

    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr("evoprompt.experiments.directory.write_whole", write_or_die)
        RunDirectory.new(tmp_path, settings).write_config()
    begun = (tmp_path / "config.yaml").exists()
    (RunDirectory.resumed if begun else RunDirectory.new)(tmp_path, settings).write_config()
    assert {path.name for path in tmp_path.iterdir()} == {"config.yaml", "about.json"}


def test_only_a_checkpoint_with_the_engine_s_state_counts(tmp_path: Path) -> None:
    trial = RunDirectory(tmp_path, config()).trial(TrialId("static", 0))
    (trial.checkpoints / "checkpoint-5").mkdir(parents=True)
    assert not trial.has_checkpoint
    (trial.checkpoints / "checkpoint-5" / STATE_FILE).touch()
    assert trial.has_checkpoint


class TestArmsThatStartAfterAnother:
    ARMS: ClassVar[dict[str, object]] = {
        "coevolve": {},
        "then": {"after": "coevolve", "engine": {"proposer": None}, "budget": 120},
    }

    @pytest.mark.parametrize("jobs", [1, 2])
    @pytest.mark.slow
    def test_it_has_the_policy_the_instruction_and_its_own_budget(
        self, tmp_path: Path, jobs: int
    ) -> None:
        directory = RunDirectory.new(tmp_path / "out", config(arms=self.ARMS))
        arms = run(directory, Watcher(), jobs=jobs).summary.arms
        first, then = arms["coevolve"].seeds[0], arms["then"].seeds[0]
        assert then.best_instruction == first.best_instruction
        assert then.rollouts == 120 < first.rollouts
        trained = directory.trial(TrialId("coevolve", 0)).policy / "skill.json"
        further = directory.trial(TrialId("then", 0)).policy / "skill.json"
        assert json.loads(further.read_text()) > json.loads(trained.read_text())

    def test_without_the_one_before_it_fails_and_says_so(self, tmp_path: Path) -> None:
        arms = {**self.ARMS, "coevolve": {"host": {"fail_at": 1}}}
        directory = RunDirectory.new(tmp_path / "out", config(arms=arms))
        watcher = Watcher()
        outcome = run(directory, watcher)
        assert {trial.arm for trial in outcome.failed} == {"coevolve", "then"}
        error = directory.trial(TrialId("then", 0)).error.read_text()
        assert "then/0 starts after coevolve/0, which has not finished" in error


def test_they_get_one_also_one_at_a_time(tmp_path: Path) -> None:
    directory = RunDirectory.new(tmp_path / "out", config(arms={"static": {}}))
    outcome = run(directory, Watcher(), isolated=True)
    assert outcome.failed == ()
    (trial,) = directory.trials()
    assert directory.trial(trial).output.exists(), "what a process of its own has printed"


def test_they_are_refused_where_several_share_one_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    directory = RunDirectory.new(tmp_path / "out", config())
    with pytest.raises(InputError, match="trials in one launch of several processes"):
        run(directory, Watcher(), isolated=True)

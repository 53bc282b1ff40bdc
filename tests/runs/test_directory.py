from __future__ import annotations

import json
from pathlib import Path

import pytest

from evoprompt.errors import InputError
from evoprompt.evaluation import Evaluation, Headline
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.summary import SeedSummary, to_json
from evoprompt.storage import STATE_FILE, write_whole


def config(**changes: object) -> RunConfig:
    return RunConfig.model_validate(
        {"task": "fake", "host": "fake", "budget": 80, "evaluate_every": 40, **changes}
    )


def result(seed: int) -> SeedSummary:
    return SeedSummary(
        seed=seed,
        headline=Headline("solved", "share solved"),
        test=Evaluation(value=0.5),
        rollouts=80,
        rollouts_to_target=None,
        train_seconds=1.0,
        best={"instruction": "Search."},
        curve=[(0, 0.1)],
    )


def notice(step: int) -> dict[str, object]:
    return {"event": "notice", "step": step, "message": "late"}


class TestBeginning:
    def test_a_run_is_not_overwritten(self, tmp_path: Path) -> None:
        directory = RunDirectory.new(tmp_path / "out", config())
        assert not (tmp_path / "out").exists(), "nothing is written before it begins"
        directory.write_config()
        with pytest.raises(InputError, match=r"is not empty; .*--resume"):
            RunDirectory.new(tmp_path / "out", config())

    def test_other_files_are_not_mixed_with_a_run(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.tex").touch()
        with pytest.raises(InputError, match="is not empty"):
            RunDirectory.new(tmp_path, config())
        with pytest.raises(InputError, match="is a file"):
            RunDirectory.new(tmp_path / "thesis.tex", config())
        with pytest.raises(InputError, match="holds no run"):
            RunDirectory.resumed(tmp_path, config())


@pytest.mark.usefixtures("fake_task")
class TestContinuing:
    @pytest.mark.parametrize("written", ["", "schema_version: 3\n"])
    def test_a_run_of_another_version_is_refused(self, tmp_path: Path, written: str) -> None:
        RunDirectory.new(tmp_path / "out", config()).write_config()
        file = tmp_path / "out" / "config.yaml"
        text = file.read_text(encoding="utf-8")
        assert "schema_version: 2\n" in text
        file.write_text(text.replace("schema_version: 2\n", written), encoding="utf-8")
        with pytest.raises(InputError, match=r"another version of .*required: schema 2; .*repeat"):
            RunDirectory.open(tmp_path / "out")

    def test_seeds_may_be_added_and_none_is_lost(self, tmp_path: Path) -> None:
        RunDirectory.new(tmp_path / "out", config(seeds=2)).write_config()
        again = RunDirectory.resumed(tmp_path / "out", config(seeds=[5]))
        assert again.config.seeds == (0, 1, 5)

    def test_other_settings_are_refused(self, tmp_path: Path) -> None:
        RunDirectory.new(tmp_path / "out", config()).write_config()
        with pytest.raises(InputError, match="cannot be continued: budget is 90 but"):
            RunDirectory.resumed(tmp_path / "out", config(budget=90))

    def test_only_a_checkpoint_with_the_engine_s_state_counts(self, tmp_path: Path) -> None:
        trial = RunDirectory(tmp_path, config()).trial(TrialId("static", 0))
        assert not trial.has_checkpoint
        (trial.checkpoints / "checkpoint-5").mkdir(parents=True)
        assert not trial.has_checkpoint
        (trial.checkpoints / "checkpoint-5" / STATE_FILE).touch()
        assert trial.has_checkpoint


class TestCollecting:
    def directory(self, root: Path) -> RunDirectory:
        directory = RunDirectory(root, config(seeds=2))
        for trial in directory.trials():
            files = directory.trial(trial)
            write_whole(files.events, json.dumps(notice(trial.seed)) + "\n")
        return directory

    def test_the_summary_holds_the_finished_trials(self, tmp_path: Path) -> None:
        directory = self.directory(tmp_path)
        write_whole(directory.trial(TrialId("static", 1)).result, to_json(result(1)))
        summary = directory.collect()
        assert [seed.seed for seed in summary.arms["static"].seeds] == [1]
        assert "coevolve" not in summary.arms
        assert json.loads(directory.summary.read_text(encoding="utf-8"))["arms"]["static"]

    def test_a_broken_result_is_named(self, tmp_path: Path) -> None:
        directory = self.directory(tmp_path)
        write_whole(directory.trial(TrialId("static", 1)).result, "{}")
        with pytest.raises(InputError, match=r"result\.json is not a result"):
            directory.collect()

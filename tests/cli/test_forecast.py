from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from command_line import evoprompt

from evoprompt.experiments import requirements

pytestmark = pytest.mark.usefixtures("fake_task")

CONFIG = """
task: fake
host: {name: planned}
engine: {proposer: fake, population_size: 4, evolve_every: 6, verify_questions: 10}
budget: 800
evaluate_every: 160
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "tiny.yaml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


def test_it_shows_settings_figures_and_needs_and_writes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evoprompt("run", "tiny.yaml", "--dry-run") == 0
    text = capsys.readouterr().out
    assert "evaluate_every: 160" in text
    assert "static, coevolve:\n  rollouts a step: 8" in text
    assert "ok      model: all here" in text
    assert "nothing is missing" in text
    assert [path.name for path in here.iterdir()] == ["tiny.yaml"]


def test_what_the_arms_have_in_common_is_said_once(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evoprompt("run", "tiny.yaml", "--dry-run")
    told = yaml.safe_load(capsys.readouterr().out.partition("┏")[0])
    arms = told["arms"]
    assert told["engine"]["population_size"] == 4
    assert all("population_size" not in arm["engine"] for arm in arms.values())
    assert arms["static"]["engine"]["proposer"] is None
    assert arms["coevolve"]["engine"]["proposer"]["name"] == "fake"


def test_what_is_missing_is_named_with_its_remedy_and_an_exit_code_of_its_own(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evoprompt("run", "tiny.yaml", "--dry-run", "--seed", "1") == 3
    text = capsys.readouterr().out
    assert "missing abacus: none found -> buy one" in text
    assert "1 missing: it cannot run here" in text
    assert evoprompt("run", "tiny.yaml", "--seed", "1") == 2
    assert "abacus: none found -> buy one" in capsys.readouterr().err
    assert [path.name for path in here.iterdir()] == ["tiny.yaml"]


def test_what_a_host_notices_is_said_once_before_anything_starts(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evoprompt("run", "tiny.yaml", "--dry-run") == 0
    assert "slow" not in capsys.readouterr().out
    assert evoprompt("run", "tiny.yaml", "--dry-run", "--seed", "2") == 0
    text = capsys.readouterr().out
    assert text.count("this is slow") == 1
    assert "static, coevolve: this is slow; buy another\n" in text
    assert evoprompt("run", "tiny.yaml", "--seed", "2") == 1  # the fake cannot train
    text = capsys.readouterr().out
    assert text.count("this is slow") == 1
    assert text.index("this is slow; buy another\n") < text.index("run of tiny.yaml")


def test_bad_input_is_bad_input_in_a_dry_run_too(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        evoprompt(
            "run", "tiny.yaml", "--dry-run", "--set", "task=fake", "--set", "host.learning_rat=1"
        )
        == 2
    )
    assert "did you mean 'learning_rate'" in capsys.readouterr().err


STUDY = """
study:
  trials: 3
  space:
    host.learning_rate: {low: 0.0001, high: 0.1, log: true}
    engine.prune_every: {low: 2, high: 6}
"""


def test_all_trials_and_their_rollouts_are_told(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evoprompt("run", "tiny.yaml", "--dry-run", "--seeds", "4")
    text = capsys.readouterr().out
    assert "8 trials (2 arms x 4 seeds), at most 6,400 rollouts in all" in text
    assert "study:" not in text.partition("┏")[2]


def test_a_sweep_is_told_with_its_arms_and_all_their_rollouts(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    axis = "engine.prune_every=2,3,4"
    assert evoprompt("run", "tiny.yaml", "--dry-run", "--sweep", axis) == 0
    text = capsys.readouterr().out
    assert f"sweep: {axis}\n" in text
    assert "coevolve-prune_every-3" in text
    # The arm without a proposer is there once: the engine's settings mean nothing to it.
    assert "4 trials (4 arms x 1 seed), at most 3,200 rollouts in all" in text


def test_a_study_is_told_with_its_trials_and_all_their_rollouts(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "find_spec", lambda name: object())  # optuna is an extra
    (here / "tiny.yaml").write_text(CONFIG + STUDY, encoding="utf-8")
    assert evoprompt("run", "tiny.yaml", "--dry-run", "--study", "20") == 0
    text = capsys.readouterr().out
    assert (
        "study: 20 more arms, as coevolve with other host.learning_rate, engine.prune_every, of "
        "one trial and at most 800 rollouts each; bad ones are given up earlier\n"
    ) in text
    assert "22 trials (2 arms x 1 seed + 20 of the study), at most 17,600 rollouts in all" in text
    assert "ok      optuna: installed" in text


def test_a_study_without_optuna_is_missing_something(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "find_spec", lambda name: None)
    (here / "tiny.yaml").write_text(CONFIG + STUDY, encoding="utf-8")
    assert evoprompt("run", "tiny.yaml", "--dry-run") == 3
    assert 'missing optuna: not installed -> pip install "evoprompt[study]"' in (
        capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--seeds", "2"], "a study in a run with 2 seeds; required: one"),
        (["--set", "study.arm=coevolv"], "study.arm is 'coevolv'; required: one of static"),
        (["--set", "study.space={host.learning_rat: [1, 2]}"], "host.learning_rat with 1: "),
        (["--set", "study.space={engine.prune_every: [2, 0]}"], "engine.prune_every with 0: "),
    ],
)
def test_an_impossible_study_is_refused_before_anything_starts(
    here: Path, capsys: pytest.CaptureFixture[str], options: list[str], told: str
) -> None:
    (here / "tiny.yaml").write_text(CONFIG + STUDY, encoding="utf-8")
    for dry in (["--dry-run"], []):
        assert evoprompt("run", "tiny.yaml", *options, *dry) == 2
        assert told in capsys.readouterr().err
    assert [path.name for path in here.iterdir()] == ["tiny.yaml"]

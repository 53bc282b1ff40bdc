from __future__ import annotations

from pathlib import Path

import pytest
from command_line import evoprompt
from pydantic import ValidationError
from watched_runs import Watcher, config

from evoprompt import yamlfile
from evoprompt.errors import InputError
from evoprompt.experiments.cli.study import build_study
from evoprompt.experiments.config import RunConfig, load
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.runner import Outcome, run

pytestmark = [pytest.mark.usefixtures("fake_task"), pytest.mark.slow]

SPACE = {
    "host.learning_rate": {"low": 0.0001, "high": 0.1, "log": True},
    "engine.prune_every": {"low": 2, "high": 6},
    "engine.sampler": ["thompson", {"name": "softmax", "temperature": 0.3}],
}


def studied(trials: int, **changes: object) -> RunConfig:
    study = {"trials": trials, "space": SPACE}
    return config(study=study, arms=["coevolve"], budget=400, evaluate_every=80, **changes)


def carry_out(
    root: Path, given: RunConfig, resume: bool = False
) -> tuple[RunDirectory, Watcher, Outcome]:
    directory = RunDirectory.resumed(root, given) if resume else RunDirectory.new(root, given)
    watcher = Watcher()
    outcome = run(directory, watcher, resume, jobs=2, study=build_study(directory))
    return directory, watcher, outcome


def test_finds_arms_gives_up_the_bad_and_names_the_best(tmp_path: Path) -> None:
    directory, watcher, outcome = carry_out(tmp_path / "out", studied(9, host={"pause": 0.15}))
    tried = {f"study-{n}" for n in range(9)}
    assert set(directory.config.arms) == {"coevolve", *tried}
    given_up = {line.split()[2].split("/")[0] for line in watcher.said if "given up" in line}
    # One table: whoever reached its end is in the summary, the run's own arm too.
    finished = set(outcome.summary.arms)
    assert "coevolve" in finished
    assert not outcome.failed
    assert tried - finished
    assert tried - finished <= given_up < tried  # one may end before it hears of it
    study = build_study(directory)
    assert study is not None
    best = study.best()
    assert best is not None
    last = {
        arm: found.seeds[0].curve[-1][1]
        for arm, found in outcome.summary.arms.items()
        if arm != "coevolve"
    }
    assert best[1] == max(last.values()) == last[best[0]]
    chosen = directory.config.host_of(best[0])["learning_rate"]
    assert best[2]["host.learning_rate"] == chosen
    rates = [directory.config.host_of(arm)["learning_rate"] for arm in tried]
    assert len(set(rates)) == 9
    assert all(2 <= directory.config.engine_of(arm).prune_every <= 6 for arm in tried)  # type: ignore[operator]
    # What the run wrote is a run, and nothing of it is done again.
    _, again, _ = carry_out(directory.root, load(directory.root / "config.yaml"), resume=True)
    assert not [line for line in again.said if line.startswith("started")]


def test_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    given = studied(3, host={"kill_at": 6})
    directory, _, outcome = carry_out(tmp_path / "out", given)
    assert {trial.arm for trial in outcome.failed} == set(directory.config.arms)
    more = load(directory.root / "config.yaml", ["study.trials=5"])
    directory, watcher, outcome = carry_out(directory.root, more, resume=True)
    started = {line.split()[1] for line in watcher.said if line.startswith("started")}
    # Those that failed are not tried again: Optuna knows of them.
    assert started == {"coevolve/0", "study-3/0", "study-4/0"}
    assert TrialId("coevolve", 0) not in outcome.failed


def test_the_command_ends_with_the_best_settings_and_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "study.yaml"
    settings = studied(1).resolved() | {"budget": 80, "evaluate_every": 40}
    file.write_text(yamlfile.dump(settings), encoding="utf-8")
    assert evoprompt("run", str(file), "-o", str(tmp_path / "out"), "--study", "2") == 0
    said = capsys.readouterr().out
    assert "study-1 (1)" in said
    (last,) = [line for line in said.splitlines() if line.startswith("best of the study")]
    assert "confirm it with seeds that it has not seen: --set host.learning_rate=" in last


def test_wants_one_seed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a study in a run with 2 seeds; required: one"):
        build_study(RunDirectory.new(tmp_path / "out", studied(3, seeds=2)))


def test_wants_an_arm_that_is_there(tmp_path: Path) -> None:
    given = config(study={"trials": 2, "space": SPACE, "arm": "coevolv"})
    with pytest.raises(InputError, match=r"study\.arm is 'coevolv'; required: one of static"):
        build_study(RunDirectory.new(tmp_path / "out", given))


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ({"trials": 3}, "study.space"),
        ({"trials": 0, "space": SPACE}, "trials"),
        ({"trials": 3, "space": {}}, "space"),
        ({"trials": 3, "space": {"budget": [1, 2]}}, "budget"),
        ({"trials": 3, "space": {"engine.window": {"low": 4, "high": 1}}}, "from 4 to 1"),
        ({"trials": 3, "space": {"host.x": {"low": 0, "high": 1, "log": True}}}, "above 0"),
    ],
)
def test_bad_sections_are_named(section: dict[str, object], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        config(study=section)

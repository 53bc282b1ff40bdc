"""The search over settings that docs/clusters.md shows."""

from __future__ import annotations

import re
from pathlib import Path

import optuna
import pytest

from evoprompt.hosting.section import Settings
from evoprompt.support import yamlfile

PAGE = Path(__file__).parents[2] / "docs" / "clusters.md"
CONFIG: Settings = {
    "task": "fake",
    "host": "fake",
    "engine": {"proposer": "fake", "population_size": 4, "evolve_every": 6, "verify_questions": 10},
    "budget": 160,
    "evaluate_every": 80,
}


@pytest.mark.usefixtures("fake_task")
def test_optuna_calls_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = re.findall(r"```python\n(.*?optuna.*?)```", PAGE.read_text(encoding="utf-8"), re.S)
    monkeypatch.chdir(tmp_path)
    Path("run.yaml").write_text(yamlfile.dump(CONFIG), encoding="utf-8")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    names: dict[str, object] = {"__name__": "search"}
    exec(compile(code.replace("n_trials=20", "n_trials=2"), str(PAGE), "exec"), names)
    study = names["study"]
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 2  # type: ignore[attr-defined]
    assert {one.name for one in Path("runs/search").iterdir()} == {"0", "1"}

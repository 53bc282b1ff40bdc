"""``evoprompt grid``: four values of each trial, each measured once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import MagicMock

import pytest
from command_line import evoprompt

from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.report.source import read_source
from evoprompt.experiments.runner import run

pytestmark = pytest.mark.usefixtures("fake_task")

SETTINGS = {
    "task": "fake",
    "host": "fake",
    "engine": {"proposer": "fake", "population_size": 4, "evolve_every": 6, "verify_questions": 10},
    "arms": ["coevolve"],
    "budget": 400,
    "evaluate_every": 160,
    "seeds": 3,
}


@pytest.fixture(scope="module")
def finished(
    with_fake_task: Callable[[], AbstractContextManager[None]],
    tmp_path_factory: pytest.TempPathFactory,
) -> RunDirectory:
    """Trained once; every test begins with what was not measured."""
    folder = tmp_path_factory.mktemp("grid") / "run"
    directory = RunDirectory.new(folder, RunConfig.model_validate(SETTINGS))
    with with_fake_task():
        run(directory, MagicMock())
    return directory


def found(capsys: pytest.CaptureFixture[str], *given: object) -> tuple[dict[str, Any], list[str]]:
    capsys.readouterr()
    assert evoprompt("grid", *map(str, given), "--json") == 0
    said = capsys.readouterr()
    return json.loads(said.out), [line for line in said.err.splitlines() if "weights" in line]


def test_weights_and_instruction_are_told_apart_and_what_was_stopped_goes_on(
    finished: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    grid, measured = found(capsys, finished.root)
    cells = {(one["weights"], one["instruction"]): one for one in grid["cells"]}
    assert len(cells) == 4
    assert grid["arm"] == "coevolve"
    assert (grid["trials"], grid["split"], grid["questions"]) == (3, "test", 40)
    results = [finished.trial(TrialId("coevolve", seed)).finished for seed in range(3)]
    mean = sum(one.test.value for one in results if one) / 3
    assert cells["after", "after"]["value"] == pytest.approx(mean)
    gains = {name: gain[0] for name, gain in grid["gains"].items()}
    start = cells["before", "before"]["value"]
    assert gains["weights"] == pytest.approx(cells["after", "before"]["value"] - start)
    assert gains["instruction"] == pytest.approx(cells["before", "after"]["value"] - start)
    assert gains["both"] == pytest.approx(cells["after", "after"]["value"] - start)
    assert gains["both, beyond their sum"] == pytest.approx(
        gains["both"] - gains["weights"] - gains["instruction"]
    )
    assert gains["weights"] > 0
    low, high = cells["after", "after"]["low"], cells["after", "after"]["high"]
    assert low <= mean <= high
    again, repeated = found(capsys, finished.root)
    assert again == grid
    capsys.readouterr()
    assert evoprompt("grid", str(finished.root)) == 0
    said = capsys.readouterr().out
    assert "share solved on 40 questions of test" in said
    assert re.search(r"weights before training +0\.\d{3} \(.* to .*\) +0\.\d{3}", said)
    assert [one.model_dump(mode="json") for one in read_source(finished.root).grids] == [grid]
    # Equal weights under equal texts are measured once: before the training those of all seeds, and
    # after it those of a seed whose best is still the first instruction.
    assert (len(repeated), 3 + 1 <= len(measured) <= 12) == (0, True)

    kept = finished.root / "grid.json"  # of one that was stopped
    some = list(json.loads(kept.read_text(encoding="utf-8"))["measured"].items())[:4]
    kept.write_text(json.dumps({"measured": dict(some)}), encoding="utf-8")
    again, repeated = found(capsys, finished.root)
    assert again == grid
    assert len(repeated) == len(measured) - 4


def test_what_cannot_be_used_is_refused(
    finished: RunDirectory, capsys: pytest.CaptureFixture[str]
) -> None:
    assert evoprompt("grid", str(finished.root), "--arm", "static") == 2
    assert "no finished trial of the arm 'static'" in capsys.readouterr().err
    (finished.root / "grid.json").write_text("[1]", encoding="utf-8")
    assert evoprompt("grid", str(finished.root)) == 2
    assert "does not hold what a grid has measured" in capsys.readouterr().err
    (finished.root / "grid.json").unlink()

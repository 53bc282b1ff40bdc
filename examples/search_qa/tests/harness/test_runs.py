from __future__ import annotations

from pathlib import Path

import pytest
from evoprompt_search_qa.evaluation import HEADLINE
from evoprompt_search_qa.harness.runs import run_table

from evoprompt.agents.tasks import Evaluation
from evoprompt.errors import InputError
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.summary import SeedSummary, to_json
from evoprompt.storage import write_whole


def run(root: Path, results: dict[tuple[str, int], tuple[float, float]]) -> RunDirectory:
    config = RunConfig.model_validate(
        {
            "task": "search-qa",
            "host": "trl",
            "arms": {"first": {}, "second": {"after": "first"}, "third": {}},
            "seeds": sorted({seed for _, seed in results}) or [0],
            "budget": 8,
            "evaluate_every": 8,
        }
    )
    directory = RunDirectory(root, config)
    for (arm, seed), (one, two) in results.items():
        found = SeedSummary(
            seed=seed,
            headline=HEADLINE,
            test=Evaluation(value=0.9, by_stratum={"1": one, "2": two}),
            rollouts=8,
            rollouts_to_target=None,
            train_seconds=1.0,
            engine_seconds=0.0,
            verify_seconds=0.0,
            best={"instruction": "i"},
            curve=[],
        )
        write_whole(directory.trial(TrialId(arm, seed)).result, to_json(found))
    return directory


def test_rows_are_means_over_seeds_and_the_average_is_that_of_the_columns(
    tmp_path: Path,
) -> None:
    table = run_table([run(tmp_path, {("third", 0): (1.0, 0.5), ("third", 1): (0.5, 0.0)})])
    assert table.columns == ("1-hop", "2-hop", "average")
    (row,) = table.rows
    assert row.name == "third"
    assert [(cell.value, cell.low, cell.high) for cell in row.cells] == [
        (0.75, 0.5, 1.0),
        (0.25, 0.0, 0.5),
        (0.5, 0.25, 0.75),
    ]
    assert "means over 2 seeds" in table.title


def test_a_stage_of_another_arm_has_no_row(tmp_path: Path) -> None:
    table = run_table([run(tmp_path, {("first", 0): (1.0, 1.0), ("second", 0): (0.5, 0.5)})])
    assert [row.name for row in table.rows] == ["second"]
    assert "1 seed" in table.title


def test_runs_with_different_seeds_make_one_table(tmp_path: Path) -> None:
    runs = [run(tmp_path / str(seed), {("third", seed): (1.0, seed)}) for seed in (0, 1)]
    (row,) = run_table(runs).rows
    assert row.cells[1].value == 0.5
    assert row.cells[1].scored == 2


def test_the_same_seed_twice_is_refused(tmp_path: Path) -> None:
    runs = [run(tmp_path / name, {("third", 0): (1.0, 1.0)}) for name in "ab"]
    with pytest.raises(InputError, match=r"arm 'third' with seed 0 is in .*b and in a run before"):
        run_table(runs)


def test_a_run_without_results_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing is finished"):
        run_table([run(tmp_path, {})])

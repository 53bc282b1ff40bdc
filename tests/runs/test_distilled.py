"""The table of a distillation: what its intervals are over."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.distill import Distilled, table_of
from evoprompt.experiments.summary import to_json
from evoprompt.log.evaluation import QuestionOutcome

LOSSES = {1: (0.1,), 2: (0.1, 0.3), 3: (0.1, 0.2, 0.6)}


def outcomes(values: list[float]) -> list[QuestionOutcome]:
    return [QuestionOutcome(f"q{n}", "", value) for n, value in enumerate(values)]


def run_of(folder: Path, losses: tuple[float, ...]) -> RunDirectory:
    """A run whose policies lose ``losses`` in each of two questions, one seed after the other."""
    trials: dict[tuple[str, int], Any] = {}
    for seed, loss in enumerate(losses):
        root = folder / str(seed)
        root.mkdir()
        without = outcomes([0.0, 0.0])
        divergence = {"with": 0.1, "without": 0.1, "distilled": 0.2}
        record = Distilled(without=without, kept=1, divergence=divergence)
        (root / "distilled.json").write_text(to_json(record))
        full = [1.0, 0.8]
        distilled = outcomes([value - loss for value in full])
        trials["full", seed] = SimpleNamespace(outcomes=outcomes(full))
        trials["short", seed] = SimpleNamespace(outcomes=distilled, finished=True, root=root)
    config = SimpleNamespace(seeds=range(len(losses)))
    run = SimpleNamespace(
        config=config,
        before=lambda trial: TrialId("full", trial.seed),
        trial=lambda trial: trials[trial.arm, trial.seed],
    )
    return cast("RunDirectory", run)


@pytest.mark.parametrize(
    ("seeds", "loss"),
    [
        (1, "-0.100 [-0.100, -0.100]"),
        (2, "-0.200 (-0.100, -0.300)"),
        (3, "-0.300 [-0.957, +0.357]"),
    ],
)
def test_a_loss_has_its_interval_over_seeds_and_for_two_seeds_both_values(
    tmp_path: Path, seeds: int, loss: str
) -> None:
    *_, distilled = table_of(run_of(tmp_path, LOSSES[seeds]), "short")
    assert distilled[2] == loss

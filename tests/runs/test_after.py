"""Arms that start after another."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

import pytest
from watched_runs import Watcher, config

from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.runner import run

pytestmark = pytest.mark.usefixtures("fake_task")


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

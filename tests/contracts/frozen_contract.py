"""A task with ``host: {name: frozen}``: what each must do with a model behind a server."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from command_line import evoprompt
from provider import openai

from evoprompt import yamlfile
from evoprompt.experiments.directory import RunDirectory
from evoprompt.testing.openai_server import Answer, Received

MODEL = "openai:gpt-4.1-nano"


class FrozenContract:
    """Inherit from it and say which configuration, and how a model answers.

    Attributes:
        yaml: the configuration.
        task: settings of the task that make it small.
        engine: of the engine; the proposer needs no language model.
        budget: rollouts of a trial, which are enough for a better instruction.
        reaches: what the better one is worth in the test, at least.
    """

    yaml: ClassVar[Path]
    task: ClassVar[Mapping[str, Any]] = {"train": 60, "validation": 24, "test": 30}
    engine: ClassVar[Mapping[str, Any]] = {"proposer": "sentence-edit"}
    budget: ClassVar[int] = 300
    reaches: ClassVar[float] = 1.0

    def model(self, settings: Mapping[str, Any]) -> Answer:
        """A model that does better under a better instruction, given the settings of the task."""
        raise NotImplementedError

    def check_request(self, request: Received) -> None:
        """Fails if the model was not asked as this task has to ask it."""

    @pytest.fixture(autouse=True)
    def _undrawn(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("evoprompt.experiments.cli.run._draw", lambda *given: None)

    def settings(self, request: pytest.FixtureRequest) -> Mapping[str, Any]:
        """Settings of the task; override it where they depend on a fixture."""
        raw = yamlfile.read(self.yaml)["task"]
        given: Mapping[str, Any] = raw if isinstance(raw, dict) else {"name": raw}
        return {**given, **self.task}

    def written(
        self, folder: Path, task: Mapping[str, Any], host: Mapping[str, Any] | None = None
    ) -> str:
        """The configuration, small, with another host if one is given."""
        changed = {**yamlfile.read(self.yaml), "task": dict(task), "engine": dict(self.engine)}
        changed |= {"seeds": [0]}
        changed.pop("smoke", None)
        if host is not None:
            changed |= {"host": dict(host), "budget": self.budget, "evaluate_every": self.budget}
            changed |= {"arms": {"static": {}, "coevolve": {}}}
        path = folder / "small.yaml"
        path.write_text(yamlfile.dump(changed), encoding="utf-8")
        return str(path)

    def test_a_dry_run_names_the_cost_and_sends_nothing(
        self, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
    ) -> None:
        task = self.settings(request)
        with openai(self.model(task)) as server:
            path = self.written(tmp_path, task)
            given = ("--model", MODEL, "--budget", str(self.budget), "--dry-run")
            assert evoprompt("optimize", path, *given) == 0
            assert not server.requests
        said = capsys.readouterr().out
        assert f"rollouts: at most {self.budget}, validation included" in said
        assert re.search(r"cost: at most \d+\.\d\d USD", said)
        assert "nothing is missing: it can run here" in said
        assert "policy" not in said

    def test_optimize_finds_a_better_instruction(
        self, tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
    ) -> None:
        task, out = self.settings(request), tmp_path / "run"
        with openai(self.model(task)) as server:
            given = (self.written(tmp_path, task), "--model", MODEL, "--budget", str(self.budget))
            assert evoprompt("optimize", *given, "--compare", "--output", str(out)) == 0
            self.check_all(server.requests)
        self.check_arms(out, ("static", "optimized"))
        assert evoprompt("best", str(out)) == 0
        assert capsys.readouterr().out.strip()

    def test_the_host_frozen_in_its_yaml_runs_beside_another_arm(
        self, tmp_path: Path, request: pytest.FixtureRequest
    ) -> None:
        task, out = self.settings(request), tmp_path / "run"
        with openai(self.model(task)) as server:
            path = self.written(tmp_path, task, {"name": "frozen", "model": MODEL})
            assert evoprompt("run", path, "--output", str(out)) == 0
            self.check_all(server.requests)
        self.check_arms(out, ("static", "coevolve"))

    def check_all(self, requests: Sequence[Received]) -> None:
        assert requests
        for one in requests:
            assert one.path == "/v1/chat/completions"
            self.check_request(one)

    def check_arms(self, out: Path, arms: Sequence[str]) -> None:
        summary = RunDirectory.open(out).collect()
        (before,), (after,) = (summary.arms[arm].seeds for arm in arms)
        assert after.test.value >= self.reaches > before.test.value
        assert after.rollouts <= self.budget
        assert after.best != before.best

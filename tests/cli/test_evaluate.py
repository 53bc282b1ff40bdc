"""``evoprompt eval``: runs, trials, configurations; other instructions and policies."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import evoprompt, stderr_of, stdout_of

from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.summary import Summary
from evoprompt.log.evaluation import Evaluation
from evoprompt.support.failures import FailureCount

pytestmark = pytest.mark.usefixtures("fake_task")

YAML = "task: fake\nhost: fake\nengine: {proposer: fake}\nbudget: 80\nevaluate_every: 40\n"


def found(*given: object) -> dict[str, Any]:
    out = stdout_of("eval", *given, "--json")
    assert out.count("\n") == 1
    answer: dict[str, Any] = json.loads(out)
    return answer


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "run.yaml").write_text(YAML, encoding="utf-8")
    return tmp_path / "run.yaml"


class TestARun:
    def test_its_best_policy_and_instruction_have_the_result_that_the_run_had(
        self, finished_run: RunDirectory
    ) -> None:
        summary = Summary.model_validate_json(finished_run.summary.read_bytes())
        answer = found(finished_run.root)
        of_the_run = summary.arms[answer["arm"]].seeds[answer["seed"]]
        assert answer["evaluation"] == of_the_run.test.model_dump()
        assert answer["instruction"] == of_the_run.best_instruction
        assert (answer["split"], answer["questions"]) == ("test", 40)
        assert answer["main_metric"]["label"] == "share solved"
        assert answer["policy"] == str(
            finished_run.trial(TrialId(answer["arm"], answer["seed"])).policy
        )

    def test_arm_seed_or_the_trial_s_folder_choose(self, finished_run: RunDirectory) -> None:
        chosen = found(finished_run.root, "--arm", "static", "--seed", 0)
        assert chosen["arm"] == "static"
        assert chosen == found(finished_run.trial(TrialId("static", 0)).root)
        out = stdout_of("eval", str(finished_run.root), "--split", "validation")
        for text in ("on 40 questions of validation", "share solved", "child", "tool_calls"):
            assert text in out

    def test_another_instruction_may_be_given(
        self, finished_run: RunDirectory, tmp_path: Path
    ) -> None:
        text = "Search for every hop before you answer. Write <answer>it</answer>."
        (tmp_path / "other.txt").write_text(f"{text}\n", encoding="utf-8")
        given = ("--instruction", tmp_path / "other.txt", "--arm", "static")
        answer = found(finished_run.root, *given)
        assert answer["instruction"] == text
        plain = found(finished_run.root, "--arm", "static")
        assert answer["evaluation"]["value"] > plain["evaluation"]["value"]

    def test_what_the_run_does_not_hold_is_asked_for(
        self, finished_run: RunDirectory, tmp_path: Path
    ) -> None:
        copy = RunDirectory.open(shutil.copytree(finished_run.root, tmp_path / "copy"))
        shutil.rmtree(copy.trial(TrialId("static", 0)).policy)
        error = stderr_of("eval", str(copy.root), "--arm", "static", "--seed", "0")
        assert "static/0 of" in error
        assert "has no trained policy, as it is not finished" in error


class TestAConfiguration:
    def test_it_is_the_task_s_own_policy_under_the_first_seed(self, config: Path) -> None:
        answer = found(config)
        assert answer["policy"] is None
        assert answer["instruction"] == "Answer the question inside <answer> and </answer>."
        assert answer["evaluation"]["value"] == pytest.approx(0.05)
        assert list(config.parent.iterdir()) == [config]

    def test_what_is_missing_is_named(self, tmp_path: Path) -> None:
        source, bad = tmp_path / "run.yaml", tmp_path / "bad.txt"
        source.write_text(YAML.replace("host: fake", "host: planned"), encoding="utf-8")
        bad.write_text("Search.", encoding="utf-8")
        error = stderr_of("eval", str(source), "--instruction", str(bad))
        assert "'Search.' lacks <answer>, </answer>" in error
        assert "abacus: none found -> buy one" in stderr_of("eval", str(source), "--seed", "1")

    def test_what_takes_an_output_folder_is_refused_without_one(self, config: Path) -> None:
        error = stderr_of("eval", config, "--model", "openai:m", "--limit", "3")
        said = "error: --model, --limit without --output; required: a folder for every answer"
        assert error.startswith(said)

    def test_a_served_model_needs_the_extra(
        self, config: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "aiohttp", None)
        output = config.parent / "out"
        error = stderr_of("eval", config, "--model", "openai:gpt-5-mini", "--output", output)
        assert 'aiohttp: not installed -> pip install -e ".[endpoint]"' in error
        assert not output.exists()

    def test_a_crash_of_the_trainer_ends_with_1_and_its_cause(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "run.yaml").write_text(YAML.replace("host: fake", "host: planned"))
        assert evoprompt("eval", str(tmp_path / "run.yaml")) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.splitlines()[-1] == (
            "error: the evaluation failed: AssertionError: a heavy trainer was built"
        )
        assert "Traceback" in said.err


@pytest.fixture
def half_fails(fake_task: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let half of the 20 rollouts of each evaluation fail, and the others be right."""

    def evaluate(self: object, written: object, split: str) -> Evaluation:
        failures = FailureCount(10, 20, "no answer")
        return Evaluation(value=1.0, metrics={"unscored": 0.5}, failures=failures)

    monkeypatch.setattr("evoprompt_fake.FakeTrainingJob.evaluate", evaluate)


@pytest.mark.usefixtures("half_fails")
def test_a_value_says_on_how_many_rollouts_it_rests(config: Path) -> None:
    printed = " ".join(stdout_of("eval", config).split())
    assert "share solved 1.000 over 10 of 20 rollouts; the other 10 have no score" in printed


@pytest.mark.report
@pytest.mark.usefixtures("half_fails")
def test_a_value_of_a_run_and_its_report_says_on_how_many_rollouts_it_rests(config: Path) -> None:
    output = config.parent / "out"
    text = stdout_of("run", config, "-o", output)
    lines = [line for line in text.splitlines() if "validation share" in line]
    assert lines
    assert all("1.000 with c0 over 50% of the questions; the others have" in line for line in lines)
    page = (output / "report.html").read_text(encoding="utf-8")
    assert re.search(r"<td>1\.000 over 10 of 20 rollouts; the other 10 have no score</td>", page)

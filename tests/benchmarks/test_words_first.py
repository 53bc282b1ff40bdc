"""The searches for words on a frozen policy end within their rollouts, with a text of the task."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from benchmarks import words_first
from benchmarks.words_first import main
from evoprompt.agents.tasks import Policy, Task
from evoprompt.experiments.cli import main as run_command
from evoprompt.experiments.evaluate import Subject, policy_of

EXAMPLES = Path(__file__).parents[2] / "examples"
CONFIG = EXAMPLES / "calculator" / "order.yaml"


@pytest.mark.parametrize("search", ["optimize", "gepa"])
def test_a_search_prints_its_text_and_keeps_its_budget(
    search: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    numbers = ["--budget", "40", "--validation", "10", "--set", "task.test=20"]
    monkeypatch.setattr("sys.argv", ["words_first", str(CONFIG), search, *numbers])
    main()
    printed = capsys.readouterr()
    assert "calculator" in printed.out
    count = int(printed.err.rpartition(": ")[2].split()[0])
    iteration = 2 * 3 + 10  # of GEPA: parent and child on three questions, and a validation
    assert 10 < count <= 40 + iteration


def test_an_arm_without_a_proposer_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first_arm_is_static = EXAMPLES / "search_qa" / "tiny.yaml"
    monkeypatch.setattr("sys.argv", ["words_first", str(first_arm_is_static), "optimize"])
    with pytest.raises(SystemExit):
        main()
    assert "arm 'static' has no proposer" in capsys.readouterr().err


def test_the_folder_of_a_run_gives_the_trained_policy_of_an_arm(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with pytest.raises(SystemExit, match="0"):
        run_command(["run", str(CONFIG), "--smoke", "--arm", "weights", "--output", str(run)])
    policies: list[Path | None] = []

    def record_policy(subject: Subject, task: Task) -> AbstractContextManager[Policy]:
        policies.append(subject.policy)
        return policy_of(subject, task)

    monkeypatch.setattr(words_first, "policy_of", record_policy)
    numbers = ["--arm", "weights", "--budget", "40", "--validation", "10"]
    proposer = ["--set", "arms.weights.engine.proposer=sentence-edit"]
    monkeypatch.setattr("sys.argv", ["words_first", str(run), "optimize", *numbers, *proposer])
    main()
    assert "calculator" in capsys.readouterr().out
    assert policies == [run / "trials" / "weights" / "seed-0" / "policy"]

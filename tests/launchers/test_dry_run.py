"""A dry run asks a launcher whether it can reach where the trials would run."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import stdout_of

pytestmark = pytest.mark.usefixtures("fake_task")


CONFIG = """
task: fake
host: {name: planned}
engine: {proposer: fake, verify_questions: 10}
budget: 800
evaluate_every: 160
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "tiny.yaml").write_text(CONFIG, encoding="utf-8")


def test_a_launcher_without_its_cluster_is_missing() -> None:
    given = ["run", "tiny.yaml", "--dry-run", "--launcher", "ray"]
    text = stdout_of(*given, "--set", "launcher.address=127.0.0.1:1", code=3)
    assert "missing launcher: there is no Ray cluster at address '127.0.0.1:1'" in text
    assert "-> a running one; start it with `ray start --head`" in text
    assert "1 missing: it cannot be submitted" in text


def test_what_the_machines_of_the_trials_need_is_not_looked_for_here() -> None:
    given = ["run", "tiny.yaml", "--dry-run", "--seed", "1", "--launcher", "slurm"]
    text = stdout_of(*given, "--set", "launcher.cluster=local")
    assert "abacus" not in text
    assert "ok      launcher: it can be reached" in text
    assert "nothing is missing: it can be submitted" in text

"""Test what ``evoprompt simplify`` refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import stderr_of

pytestmark = pytest.mark.usefixtures("fake_task")

YAML = "task: fake\nhost: fake\nengine: {proposer: fake}\nbudget: 800\nevaluate_every: 40\n"


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "run.yaml"
    path.write_text(YAML, encoding="utf-8")
    return str(path)


def test_simplify_refuses_a_host_that_keeps_no_answers(config: str) -> None:
    assert "keeps no answers" in stderr_of("simplify", config)

"""The configuration that a run writes names what its task added."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest

from evoprompt.experiments.config import RunConfig, with_host_defaults
from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.runner import run

pytestmark = pytest.mark.usefixtures("fake_task")


def config(rate: float = 0.25, **changes: object) -> RunConfig:
    task = {"name": "fake", "learning_rate": rate}
    given = {"task": task, "host": "fake", "budget": 16, "evaluate_every": 8, **changes}
    return RunConfig.model_validate({"arms": {"static": {}}, **given})


def test_every_host_of_the_run_is_filled_and_what_is_given_wins() -> None:
    arms = {
        "static": {"host": {"save_every": 3}},
        "given": {"host": {"learning_rate": 0.5}},
        "planned": {"host": {"name": "planned"}},
    }
    found = with_host_defaults(config(arms=arms))
    assert found.host == {"name": "fake", "learning_rate": 0.25}
    assert found.host_of("static") == {"name": "fake", "learning_rate": 0.25, "save_every": 3}
    assert found.host_of("given")["learning_rate"] == 0.5
    assert found.host_of("planned") == {"name": "planned", "learning_rate": 0.25}
    assert with_host_defaults(found).resolved() == found.resolved()


def test_a_run_writes_them_and_is_continued_as_it_was_begun(tmp_path: Path) -> None:
    directory = RunDirectory.new(tmp_path / "out", config())
    run(directory, MagicMock())
    written = (tmp_path / "out" / "config.yaml").read_text(encoding="utf-8")
    assert "learning_rate: 0.25" in written.partition("arms:")[0].partition("host:")[2]
    assert RunDirectory.resumed(tmp_path / "out", config()).config.host["learning_rate"] == 0.25

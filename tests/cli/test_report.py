from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest

from evoprompt.experiments.cli import main
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.runner import run

pytestmark = pytest.mark.usefixtures("fake_task")


@pytest.mark.report
def test_rebuilds_the_page_from_the_trials_events(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"task": "fake", "host": "fake", "budget": 80, "evaluate_every": 40}
    static = {"arms": ["static"], **given}
    directory = RunDirectory.new(tmp_path / "out", RunConfig.model_validate(static))
    run(directory, MagicMock())
    directory.events.unlink()
    with pytest.raises(SystemExit) as ended:
        main(["report", str(directory.root)])
    assert ended.value.code == 0
    (written,) = [Path(line) for line in capsys.readouterr().out.splitlines()]
    assert written.name == "report.html"
    assert written.stat().st_size > 100_000

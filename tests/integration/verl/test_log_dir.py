"""veRL's own ``fit`` with its events in a folder that ``attach`` was told of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from contract_runs import EVOLVING, Job
from local_verl import run

from evoprompt.errors import InputError
from evoprompt.experiments.report.source import read_source

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_killed_training_goes_on_in_its_folder_and_no_other_does(tmp_path: Path) -> None:
    job, log_dir = Job(EVOLVING, steps=4, save_every=2), tmp_path / "log"
    (tmp_path / "killed").mkdir()
    (tmp_path / "whole").mkdir()
    assert run(replace(job, kill_in=4), tmp_path / "killed", log_dir=log_dir) is None
    assert run(replace(job, resume=True), tmp_path / "killed", log_dir=log_dir) is not None
    assert run(job, tmp_path / "whole", log_dir=tmp_path / "other") is not None
    events = (log_dir / "events.jsonl").read_bytes()
    assert events == (tmp_path / "other" / "events.jsonl").read_bytes()
    (trial,) = read_source(log_dir).trials
    assert trial.history.step == 4
    with pytest.raises(InputError, match="this one begins anew"):
        run(job, tmp_path / "whole", log_dir=log_dir)
    assert (log_dir / "events.jsonl").read_bytes() == events

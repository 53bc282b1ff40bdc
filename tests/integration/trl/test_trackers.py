"""What the trackers of a real TRL training hold, read back from their files."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_trl
from contract_runs import EVOLVING
from tracked import TRACKERS, assert_tracked
from tracker_readers import divert, seen

import evoprompt

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.filterwarnings("error:.*the table of candidates"),
]


@pytest.mark.parametrize("tracker", TRACKERS)
def test_numbers_and_candidates_are_in_the_tracker(
    tracker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    divert(tmp_path, monkeypatch, tracker)
    trainer = tiny_trl.trainer(tmp_path / "out", max_steps=5, report_to=tracker, run_name="tiny")
    engine = EVOLVING.build()
    evoprompt.attach(trainer, engine)
    trainer.train()
    assert_tracked(seen(tmp_path, tracker), engine.log)

"""What the trackers of veRL's own ``fit`` hold, read back from their files."""

from __future__ import annotations

from pathlib import Path

import pytest
from contract_runs import EVOLVING, Job
from local_verl import run
from tracked import TRACKERS, assert_tracked
from tracker_readers import divert, seen

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.filterwarnings("error:.*the table of candidates"),
]


@pytest.mark.parametrize("tracker", TRACKERS)
def test_numbers_and_candidates_are_in_the_tracker(
    tracker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    divert(tmp_path, monkeypatch, tracker)
    found = run(Job(EVOLVING, steps=5), tmp_path, [f"trainer.logger=[file,{tracker}]"])
    assert found is not None
    assert_tracked(seen(tmp_path, tracker), found.events)

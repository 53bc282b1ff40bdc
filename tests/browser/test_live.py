"""The live page in a real browser."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from evoprompt.experiments.report.live import LivePage, LiveServer
from evoprompt.log.evaluation import MainMetric
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import (
    Evaluated,
    Evolved,
    Proposed,
    QuestionsAssigned,
    Seeded,
    StepCompleted,
)

pytestmark = pytest.mark.browser


def test_the_page_follows_a_run_and_keeps_what_was_chosen(
    opened: Callable[..., Page],
    serious: Callable[[Page], list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("evoprompt.experiments.report.live._SHARE", 0)
    logs = {arm: EventLog(tmp_path / "trials" / arm / "seed-0" / "events.jsonl") for arm in "ab"}
    for log in logs.values():
        log.append(Seeded(0, "c0", {"instruction": "Search."}))
        log.append(QuestionsAssigned(1, {"c0": 4}, 1, {"c0": 1.0}))
        log.append(StepCompleted(1, 8, 8, 0, 0.5, {"c0": 0.5}))
    with LiveServer(LivePage(tmp_path), 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            page = opened(server.address)
            expect(page.get_by_role("status")).to_contain_text("Live")
            page.get_by_role("checkbox", name="a").click()
            expect(page.get_by_label("Trial", exact=True)).to_have_text("b, seed 0")
            log = logs["b"]
            log.append(Proposed(1, "c1", {"instruction": "Look twice."}, ("c0",), "p"))
            log.append(Evolved(1, 1, ("c1",), ("c0", "c1"), 4))
            right = MainMetric("right", "share right")
            log.append(Evaluated(1, "validation", "c1", 8, {"right": 0.5}, {}, right))
            table = page.get_by_role("region", name="Texts", exact=True)
            expect(table).to_contain_text("Look twice.", timeout=60_000)
            expect(page.locator("blockquote")).to_have_text("Look twice.")
            expect(page.get_by_label("Trial", exact=True)).to_have_text("b, seed 0")
            assert serious(page) == []
            page.clock.install(time=time.time() + 600)
            page.reload()
            quiet = "Nothing was written for 10 minutes: the run is waiting"
            expect(page.get_by_role("status").first).to_contain_text(quiet)
            page.goto("about:blank")
        finally:
            server.shutdown()
            thread.join()

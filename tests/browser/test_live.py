"""The live page in a real browser."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from waiting import PATIENCE, wait_for

from evoprompt.evaluation import Headline
from evoprompt.eventlog import EventLog
from evoprompt.events import Asked, Evaluated, Evolved, Proposed, Seeded, Told
from evoprompt.experiments.report.live import LivePage, LiveServer

pytestmark = pytest.mark.browser


CONFIG = """
task: fake
host: fake
engine: {proposer: fake, accept: top, evolve_every: 6, verify_questions: 10,
         evolve_until: 6, approve: {mode: ask, timeout: 90}}
arms: {coevolve: null}
seeds: [0]
budget: 500
evaluate_every: 500
"""


@pytest.mark.usefixtures("fake_task")
def test_a_run_waits_until_it_is_answered_on_the_page(
    opened: Callable[..., Page], serious: Callable[[Page], list[str]], tmp_path: Path
) -> None:
    """A real run and a real ``evoprompt watch``, each a process of its own."""
    (tmp_path / "ask.yaml").write_text(CONFIG)
    root, program = tmp_path / "run", [sys.executable, "-m", "evoprompt"]
    log = root / "trials" / "coevolve" / "seed-0" / "events.jsonl"
    trained = subprocess.Popen([*program, "run", tmp_path / "ask.yaml", "--output", root])
    served = None
    try:
        waiting = log.parent / "pool" / "waiting.json"
        wait_for(lambda: waiting.is_file() or trained.poll() is not None)
        assert trained.poll() is None, "it ended and asked nobody"
        served = subprocess.Popen(
            [*program, "watch", root, "--port", "0", "--allow-changes"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert served.stdout is not None
        address = served.stdout.readline().split()[0]
        token = served.stdout.readline().split()[-1]
        page = opened(address)
        say = page.get_by_role("region", name="Your decisions")
        articles = say.get_by_role("article")
        expect(articles.first).to_contain_text("waits for your answer, and so does training")
        names = articles.locator("h3 button").all_inner_texts()
        expect(page).to_have_title(re.compile(f"^{len(names)} waiting: "))
        assert serious(page) == []
        say.get_by_label("Token").fill(token)
        for name in names[:-1]:
            answer(articles, name, "Refuse")
        table = page.get_by_role("region", name="Candidates", exact=True)
        table.get_by_role("button", name="c0", exact=True).click()
        story = page.get_by_role("dialog")
        assert serious(page) == []
        story.get_by_role("button", name="Pin", exact=True).click()
        expect(story).to_contain_text("Asked to pin c0")
        page.keyboard.press("Escape")
        answer(articles, names[-1], "Approve")
        table.get_by_role("button", name=names[-1], exact=True).wait_for(timeout=60_000)
        expect(articles).to_have_count(0)
        page.goto("about:blank")
        assert trained.wait(PATIENCE) == 0
    finally:
        for process in (trained, served):
            if process is not None:
                process.kill()
                process.communicate()
    said = [json.loads(line) for line in log.read_text().splitlines()]
    answers = [one for one in said if one["event"] == "intervened"]
    assert {one["by"] for one in answers} == {"a person on the page"}
    wanted = [*(("refuse", name) for name in names[:-1]), ("approve", names[-1]), ("pin", "c0")]
    assert [(one["action"], one["candidate"]) for one in answers] == wanted
    assert token not in "".join(file.read_text("utf-8", "replace") for file in root.rglob("*.*l"))


def answer(articles: Locator, name: str, action: str) -> None:
    """Answers about one who waits, and sees that it was sent."""
    mine = articles.filter(has_text=re.compile(f"^{name} waits"))
    with mine.page.expect_response("**/requests") as sent:
        mine.get_by_role("button", name=action).click()
    assert sent.value.status == 200, sent.value.text()


def test_the_page_follows_a_run_and_keeps_what_was_chosen(
    opened: Callable[..., Page], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evoprompt.experiments.report.live._SHARE", 0)
    logs = {arm: EventLog(tmp_path / "trials" / arm / "seed-0" / "events.jsonl") for arm in "ab"}
    for log in logs.values():
        log.append(Seeded(0, "c0", {"instruction": "Search."}))
        log.append(Asked(1, {"c0": 4}, {"c0": 1.0}))
        log.append(Told(1, 8, 8, 0, 0.5, {"c0": 0.5}))
    with LiveServer(LivePage([tmp_path]), 0) as server:
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
            right = Headline("right", "share right")
            log.append(Evaluated(1, "validation", "c1", 8, {"right": 0.5}, {}, right))
            table = page.get_by_role("region", name="Candidates", exact=True)
            expect(table).to_contain_text("Look twice.", timeout=60_000)
            expect(page.locator("blockquote")).to_have_text("Look twice.")
            expect(page.get_by_label("Trial", exact=True)).to_have_text("b, seed 0")
            page.clock.install(time=time.time() + 600)
            page.reload()
            quiet = "Nothing was written for 10 minutes: the run is waiting"
            expect(page.get_by_role("status").first).to_contain_text(quiet)
            page.goto("about:blank")
        finally:
            server.shutdown()
            thread.join()

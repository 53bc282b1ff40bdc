"""The report in a real browser: what a person sees, points at, types and prints."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.log.evaluation import MainMetric, QuestionOutcome
from evoprompt.log.eventlog import EventLog
from evoprompt.log.events import (
    Evaluated,
    Evolved,
    Excerpt,
    Proposed,
    QuestionsAssigned,
    RolloutSamples,
    Seeded,
    StepCompleted,
)
from evoprompt.types import Turn

pytestmark = pytest.mark.browser

Open = Callable[..., Page]
Write = Callable[[Path], str]
HOSTILE = "</script><img src=x onerror=alert(1)> \x1b[31m \u202egnp.exe \ud800 {{ 7 * 7 }} $x$"


def rows(page: Page, table: str) -> list[str]:
    return page.get_by_role("region", name=table, exact=True).locator("tbody tr").all_inner_texts()


@pytest.mark.parametrize(("width", "dark"), [(1200, False), (1200, True), (400, False)])
def test_axe_finds_nothing_serious(
    opened: Open, serious: Callable[[Page], list[str]], report: str, width: int, dark: bool
) -> None:
    page = opened(report, width, dark)
    assert serious(page) == []
    page.get_by_role("region", name="Texts", exact=True).get_by_role("button", name="c0").click()
    page.wait_for_selector("dialog[open]")
    assert serious(page) == []


def test_a_phone_scrolls_in_one_direction(opened: Open, report: str) -> None:
    """Captions are read whole though their table scrolls."""
    page = opened(report, 400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    ends = page.evaluate(
        "[...document.querySelectorAll('caption span')]"
        ".map((caption) => caption.getBoundingClientRect().right)"
    )
    assert ends
    assert max(ends) <= 400


def test_an_arm_is_switched_off_by_keyboard(opened: Open, report: str) -> None:
    page = opened(report)
    trials = page.get_by_label("Trial", exact=True)
    assert "static, seed 0" in trials.inner_text()
    canvas = page.locator("#validation canvas")
    before = canvas.evaluate("canvas => canvas.toDataURL()")
    page.get_by_role("checkbox", name="static").focus()
    page.keyboard.press("Space")
    expect(trials).not_to_contain_text("static")
    page.wait_for_function(
        "before => document.querySelector('#validation canvas').toDataURL() !== before", arg=before
    )


def test_a_curve_says_its_numbers_where_it_is_pointed_at(opened: Open, report: str) -> None:
    page = opened(report)
    page.locator("#validation canvas").hover()
    tooltip = page.locator("#vg-tooltip-element.visible")
    expect(tooltip).to_contain_text("lowest seed")
    expect(tooltip).to_contain_text(re.compile("armcoevolve|armstatic"))


def test_a_table_is_sorted_searched_and_filtered(opened: Open, report: str) -> None:
    page = opened(report)
    table = page.get_by_role("region", name="Texts", exact=True)
    details = page.locator("details", has=table)
    everybody = rows(page, "Texts")
    assert len(everybody) > 2
    table.get_by_role("button", name="step").click()
    born = [int(row.split("\t")[2]) for row in rows(page, "Texts")]
    assert born == sorted(born, reverse=True)
    assert table.get_by_role("columnheader", name="step").get_attribute("aria-sort") == "descending"
    details.get_by_label("written by").select_option("seed")
    assert len(rows(page, "Texts")) == sum("seed" in row for row in everybody)
    details.get_by_label("written by").select_option("")
    details.get_by_label("Search").fill("no such words at all")
    assert rows(page, "Texts") == []
    expect(table).to_contain_text("No row matches.")


def test_a_single_arm_is_not_compared_with_itself(
    opened: Open, finished_run: RunDirectory, tmp_path: Path, written: Write
) -> None:
    root = shutil.copytree(finished_run.root, tmp_path / "out")
    shutil.rmtree(root / "trials" / "static")
    run = RunDirectory(root, finished_run.config)
    for number, trial in enumerate(TrialId("coevolve", seed) for seed in (0, 1)):
        outcomes = [QuestionOutcome("q0", "", 1.0), QuestionOutcome("q1", "", float(number))]
        run.trial(trial).tested.write_text(json.dumps(outcomes), encoding="utf-8")
    page = opened(written(root))
    expect(page.get_by_text("The test of coevolve, the only arm with one.")).to_be_visible()
    expect(page.get_by_label("Before")).to_be_hidden()
    assert (
        "better" not in page.get_by_role("region", name="Test questions", exact=True).inner_text()
    )


def test_a_candidate_tells_its_story(opened: Open, report: str) -> None:
    page = opened(report)
    table = page.get_by_role("region", name="Texts", exact=True)
    name = next(row.split("\t")[0] for row in rows(page, "Texts") if "\tseed\t" not in row)
    link = table.get_by_role("button", name=name, exact=True)
    link.focus()
    page.keyboard.press("Enter")
    story = page.get_by_role("dialog")
    expect(story.get_by_role("region", name="Two texts beside")).to_contain_text("instruction")
    expect(story).to_contain_text(re.compile(r"Of \d+ questions that the two came out differently"))
    flips = story.get_by_role("region", name="Questions that flipped").locator("tbody tr")
    before, after = flips.first.inner_text().split("\t")[-2:]
    assert before != after
    expect(story).to_contain_text("Verification, round 1")
    expect(story).to_contain_text("(standard error)")
    expect(story).to_contain_text("Rollouts in verification, worst first")
    rollout = story.locator("details").last
    rollout.locator("summary").click()
    expect(rollout).to_contain_text("Policy")
    assert story.locator("ins").count() + story.locator("del").count() > 0
    page.keyboard.press("Escape")
    expect(story).to_be_hidden()
    assert link.evaluate("one => one === document.activeElement")


def hostile(root: Path) -> Path:
    log = EventLog(root / "events.jsonl")
    log.append(Seeded(0, "c0", {"instruction": "Search.", "tool:look": HOSTILE}))
    log.append(QuestionsAssigned(1, {"c0": 4}, 1, {"c0": 1.0}))
    log.append(StepCompleted(1, 8, 8, 0, 0.5, {"c0": 0.5}))
    turns = (Turn(HOSTILE, HOSTILE), Turn("Four."))
    log.append(RolloutSamples(1, (Excerpt("c0", HOSTILE, "4", 0.0, turns, HOSTILE, 1234),)))
    texts = {"instruction": HOSTILE, "tool:look": "Looks."}
    log.append(Proposed(1, "c1", texts, ("c0",), HOSTILE, HOSTILE))
    log.append(Proposed(1, "", texts, ("c0",), HOSTILE, HOSTILE, "leak", HOSTILE))
    log.append(Evolved(1, 1, ("c1",), ("c0", "c1"), 4, HOSTILE))
    right = MainMetric("right", HOSTILE)
    log.append(Evaluated(1, "validation", "c1", 8, {"right": 0.5}, {}, right))
    return root


def test_hostile_texts_are_shown_and_do_nothing(
    opened: Open, tmp_path: Path, written: Write
) -> None:
    page = opened(written(hostile(tmp_path)))
    page.on("dialog", lambda dialog: pytest.fail(f"a text made the page say {dialog.message}"))
    refused = page.get_by_role("region", name="Texts", exact=True)
    refused.get_by_role("button", name="read").click()
    story = page.get_by_role("dialog")
    expect(story).to_contain_text("A refused proposal")
    expect(story).to_contain_text(
        "leak: </script><img src=x onerror=alert(1)> \\u001b[31m \\u202egnp"
    )
    page.keyboard.press("Escape")
    lives = page.get_by_role("region", name="Texts", exact=True)
    lives.get_by_role("button", name="c0").click()
    story.locator("summary").click()
    expect(story.locator("details")).to_contain_text(
        "Environment (masked: no training signal)</script>"
    )
    expect(story.locator("details")).to_contain_text("1,234 characters are left out")
    page.keyboard.press("Escape")
    page.locator("#timeline canvas").hover()
    assert page.locator("img").count() == 0
    text = page.inner_text("body")
    assert "\u202e" not in text
    assert "{{ 7 * 7 }}" in text

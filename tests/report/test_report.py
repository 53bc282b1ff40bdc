from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from matplotlib.image import imread

from evoprompt.comparison import state_best_in
from evoprompt.errors import InputError
from evoprompt.evaluation import REWARD, Headline
from evoprompt.eventlog import EventLog
from evoprompt.events import Asked, Best, Evaluated, Evolved, Excerpt, Proposed, Seeded, Shown, Told
from evoprompt.experiments.config import RunConfig
from evoprompt.experiments.directory import RunDirectory, TrialId
from evoprompt.experiments.eventfile import read_events
from evoprompt.experiments.report import write_report
from evoprompt.experiments.report.document import document as build
from evoprompt.experiments.report.pictures import overview
from evoprompt.experiments.report.source import Source, files_of, read_source
from evoprompt.experiments.report.style import arm_styles, style
from evoprompt.experiments.runner import run
from evoprompt.lm.budget import SPENDING_FILE, Charge, SpendTracker
from evoprompt.types import Turn

pytestmark = pytest.mark.usefixtures("fake_task")

CONFIG = RunConfig.model_validate(
    {
        "task": "fake",
        "host": "fake",
        "engine": {"proposer": "fake", "evolve_every": 6, "verify_questions": 10},
        "seeds": 2,
        "budget": 800,
        "evaluate_every": 160,
    }
)


def document(source: Source) -> Any:
    return json.loads(json.dumps(build(source)))


class Page(HTMLParser):
    """Collects what a browser would load, and the text it would show."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [value for name, value in attrs if name in ("src", "href") and value]
        if tag not in ("meta", "img", "input"):  # these are never closed
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("report")


@pytest.fixture
def directory(root: Path) -> RunDirectory:
    if (root / "out").exists():
        return RunDirectory.open(root / "out")
    directory = RunDirectory.new(root / "out", CONFIG)
    run(directory, MagicMock())
    write_report(directory.root)
    return directory


def test_the_page_needs_nothing_but_itself(directory: RunDirectory) -> None:
    page = Page()
    page.feed((directory.root / "report.html").read_text(encoding="utf-8"))
    assert page.open == []
    assert page.loaded == []


def test_the_page_tells_results_instructions_and_settings(directory: RunDirectory) -> None:
    page = Page()
    page.feed((directory.root / "report.html").read_text(encoding="utf-8"))
    result = directory.trial(TrialId("coevolve", 1)).finished
    assert result is not None
    assert f"{result.test.value:.3f}" in page.text
    assert result.best_instruction in page.text
    assert "population_size: 7" in page.text
    assert "s of training" in page.text
    assert state_best_in(read_events(directory.trial(TrialId("coevolve", 1)).events)) in page.text


def test_the_page_knows_every_candidate_and_every_proposal(directory: RunDirectory) -> None:
    told = document(read_source(directory.root))
    histories = {(h.arm, h.seed): h for h in read_source(directory.root).histories}
    assert len(told["trials"]) == 4
    for trial in told["trials"]:
        history = histories[trial["arm"], trial["seed"]]
        assert len(trial["lives"]) == len(history.lives)
        assert len(trial["proposals"]) == history.proposed
        assert [life["id"] for life in trial["lives"] if life["wins"]][-1:] == [history.best]
    evolved = next(one for one in told["trials"] if one["arm"] == "coevolve")
    assert any(
        "the parent is another one" in (one["remark"] or {"text": ""})["text"]
        for one in evolved["lives"]
    )
    assert {one["outcome"] for one in evolved["proposals"]} <= {
        "admitted",
        "refused",
        "turned away",
        "not tried",
    }
    assert evolved["chances"]["steps"]


def test_the_picture_is_large_enough_to_read(directory: RunDirectory) -> None:
    height, width, _ = imread(directory.root / "report.png").shape
    assert width >= 1200
    assert height >= 1200


def test_drawing_again_gives_the_same_page(directory: RunDirectory) -> None:
    first = (directory.root / "report.html").read_bytes()
    assert write_report(directory.root)[0].read_bytes() == first


def test_instructions_cannot_inject_markup(directory: RunDirectory) -> None:
    page = (directory.root / "report.html").read_text(encoding="utf-8")
    assert "&lt;answer&gt;" in page
    assert not re.search(r"<answer>", page)


def test_an_unfinished_run_is_drawn_too(directory: RunDirectory, tmp_path: Path) -> None:
    part = RunDirectory.new(tmp_path / "part", CONFIG)
    part.write_config()
    lines = directory.trial(TrialId("coevolve", 0)).events.read_text(encoding="utf-8")
    events = part.trial(TrialId("coevolve", 0)).events
    events.parent.mkdir(parents=True)
    events.write_text("".join(lines.splitlines(keepends=True)[:60]), encoding="utf-8")
    part.collect()
    page_file, _ = write_report(part.root)
    assert "No trial is finished yet." in page_file.read_text(encoding="utf-8")


def test_a_run_without_events_says_so(tmp_path: Path) -> None:
    directory = RunDirectory.new(tmp_path / "out", CONFIG)
    directory.write_config()
    directory.collect()
    (page,) = write_report(directory.root)
    assert "No events yet" in page.read_text(encoding="utf-8")


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        write_report(tmp_path)


def test_a_run_of_another_version_is_told_as_far_as_it_is_understood(
    directory: RunDirectory, tmp_path: Path
) -> None:
    root = tmp_path / "old"
    shutil.copytree(directory.root, root)
    config = root / "config.yaml"
    config.write_text(config.read_text(encoding="utf-8").replace("schema_version: 2", ""), "utf-8")
    source = read_source(root)
    assert "another version of evoprompt" in source.problems[0]
    assert len(source.histories) == 4
    assert set(source.summary.arms) == {"static", "coevolve"}


def test_what_follows_a_damaged_line_is_left_out_and_named(
    directory: RunDirectory, tmp_path: Path
) -> None:
    root = tmp_path / "damaged"
    shutil.copytree(directory.root, root)
    events = root / "trials" / "coevolve" / "seed-0" / "events.jsonl"
    lines = events.read_text(encoding="utf-8").splitlines()
    events.write_text("\n".join([*lines[:40], "{oops", *lines[40:], ""]), encoding="utf-8")
    source = read_source(root)
    assert "events.jsonl:41 is no event" in source.problems[0]
    assert len(source.histories) == 4


def test_a_log_outside_of_a_run_is_read(directory: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "attached").mkdir()
    log = tmp_path / "attached" / "events.jsonl"
    shutil.copy(directory.trial(TrialId("coevolve", 0)).events, log)
    for path in (log, log.parent):
        source = read_source(path)
        assert [(one.arm, one.seed) for one in source.histories] == [("run", 0)]
        assert source.problems == ()


def test_the_files_of_a_verl_job_are_read(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "evoprompt_events.jsonl")
    log.append(Seeded(0, "c0", {"instruction": "Search."}))
    log.append(Told(1, 8, 8, 0, 0.5, {"c0": 0.5}, stderrs={"c0": 0.1}))
    excerpt = Excerpt("c0", "2+2?", "4", 0.0, (Turn("5", "a tool's answer"),))
    log.append(Shown(1, (excerpt,)))
    log.append(Evaluated(1, "validation", "c0", 8, {"val-core/reward": 0.5}))
    journal = tmp_path / f"evoprompt_events-{SPENDING_FILE}"
    SpendTracker(journal).join({"m": Charge(1, 10, 10, 0.25)})
    source = read_source(tmp_path)
    assert source.spending["m"].usd == 0.25
    assert journal in files_of(tmp_path)
    (problem,) = source.problems
    assert "No evaluation on validation questions that names its headline" in problem
    document: Any = build(source)
    life = document["trials"][0]["lives"][0]
    assert life["weights"] == [[1, 0.5, 0.1]]
    assert list(life["episodes"][0]["turns"]) == [{"action": "5", "observation": "a tool's answer"}]


def test_what_an_attached_training_has_no_data_for_is_left_out(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.append(Seeded(0, "c0", {"instruction": "Search."}))
    log.append(Proposed(1, "c1", {"instruction": "Look."}, ("c0",), "P"))
    log.append(Evolved(1, 1, ("c1",), ("c0", "c1"), 8))
    log.append(Told(2, 24, 8, 0, 0.5, {"c0": 0.25, "c1": 0.7}))
    log.append(Best(2, "c1"))
    source = read_source(tmp_path)
    assert source.problems == ()
    assert [life.candidate for life in source.histories[0].path()] == ["c0", "c1"]
    titles = drawn_titles(source)
    assert {"Reward", "Instruction length"} < titles
    assert not {"Tool calls", "Response length"} & titles
    assert not any("validation" in title for title in titles)
    log.append(Evaluated(2, "validation", "c1", 24, {"reward": 0.5}, headline=REWARD))
    assert "Mean reward on validation questions" in drawn_titles(read_source(tmp_path))


def drawn_titles(source: Source) -> set[str]:
    with style():
        drawn = overview(source.histories, arm_styles(source.arms), source.title)
    return {axes.get_title(loc="left") + axes.get_title() for axes in drawn.axes}


def test_nothing_is_written_where_a_run_is_read(directory: RunDirectory) -> None:
    before = {file: file.stat().st_mtime_ns for file in directory.root.rglob("*")}
    read_source(directory.root)
    assert {file: file.stat().st_mtime_ns for file in directory.root.rglob("*")} == before


def test_of_many_candidates_the_ancestors_of_the_best_have_a_colour_each(tmp_path: Path) -> None:
    log = EventLog(tmp_path / "events.jsonl")
    log.append(Seeded(0, "c0", {"instruction": "Search."}))
    for step in range(1, 31):  # each generation replaces all, and its second child has the children
        parent = f"c{2 * step - 2}"
        for child in (f"c{2 * step - 1}", f"c{2 * step}"):
            log.append(Proposed(step, child, {"instruction": f"Try {child}."}, (parent,), "p"))
        pair = (f"c{2 * step - 1}", f"c{2 * step}")
        log.append(Evolved(step, 1, pair, pair, 4))
        log.append(Asked(step, {pair[0]: 3, pair[1]: 1}, {pair[0]: 0.75, pair[1]: 0.25}))
    right = Headline("right", "right")
    log.append(Evaluated(30, "validation", "c60", 8, {"right": 0.5}, {}, right))
    (trial,) = document(read_source(tmp_path))["trials"]
    assert len(trial["chances"]["ids"]) == 13
    assert trial["chances"]["ids"][-2:] == ["c60", "others"]
    assert all(int(name[1:]) % 2 == 0 for name in trial["chances"]["ids"][:-1])
    assert all(sum(shares) == pytest.approx(1) for shares in trial["chances"]["shares"])

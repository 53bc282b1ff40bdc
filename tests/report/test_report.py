from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from matplotlib.image import imread

from evoprompt.errors import InputError
from evoprompt.report import write_report
from evoprompt.runs.config import RunConfig
from evoprompt.runs.directory import RunDirectory, TrialId
from evoprompt.runs.runner import run

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


class Page(HTMLParser):
    """Collects what a browser would load, and the text it would show."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loaded += [value for name, value in attrs if name in ("src", "href") and value]
        if tag not in ("meta", "img"):
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
    write_report(directory)
    return directory


def test_the_page_needs_nothing_but_itself(directory: RunDirectory) -> None:
    page = Page()
    page.feed((directory.root / "report.html").read_text(encoding="utf-8"))
    assert page.open == []
    assert len(page.loaded) == 4
    assert all(address.startswith("data:image/svg+xml;base64,") for address in page.loaded)


def test_the_page_tells_results_instructions_and_settings(directory: RunDirectory) -> None:
    page = Page()
    page.feed((directory.root / "report.html").read_text(encoding="utf-8"))
    result = directory.trial(TrialId("coevolve", 1)).finished
    assert result is not None
    assert f"{result.test.value:.3f}" in page.text
    assert result.best_instruction in page.text
    assert "+ Search for every hop before you answer." in page.text
    assert "population_size: 7" in page.text
    assert "reward\n0.00: the parent is another one" in page.text


def test_the_picture_is_large_enough_to_read(directory: RunDirectory) -> None:
    height, width, _ = imread(directory.root / "report.png").shape
    assert width >= 1200
    assert height >= 1200


def test_drawing_again_gives_the_same_page(directory: RunDirectory) -> None:
    first = (directory.root / "report.html").read_bytes()
    assert write_report(directory)[0].read_bytes() == first


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
    page_file, _ = write_report(part)
    assert "No trial is finished yet." in page_file.read_text(encoding="utf-8")


def test_a_run_without_events_is_refused(tmp_path: Path) -> None:
    directory = RunDirectory.new(tmp_path / "out", CONFIG)
    directory.write_config()
    directory.collect()
    with pytest.raises(InputError, match="holds no events yet"):
        write_report(directory)

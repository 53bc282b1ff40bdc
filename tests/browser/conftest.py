from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from evoprompt.experiments.directory import RunDirectory
from evoprompt.experiments.report.page import render_page
from evoprompt.experiments.report.source import read_source

Open = Callable[..., Page]
Serious = Callable[[Page], list[str]]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    assert program is not None, "no chromium here; required: apt-get install chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def serious() -> Serious:
    """Finds what axe holds for serious in a page."""

    def find(page: Page) -> list[str]:
        return [
            f"{one['id']}: {node['html'][:200]}"
            for one in Axe().run(page).response["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]

    return find


@pytest.fixture
def opened(chromium: Browser) -> Iterator[Open]:
    """Opens a page, and at the end finds that it asked nobody else and reported no error."""
    contexts: list[BrowserContext] = []
    asked: list[str] = []
    errors: list[str] = []

    def open_page(address: str, width: int = 1200, dark: bool = False) -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        context.on("request", lambda request: asked.append(request.url))
        page = context.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        page.goto(address)
        page.wait_for_function("document.body.dataset.ready", timeout=60_000)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert errors == []
    own = ("file:///", "data:", "blob:", "http://127.0.0.1:")
    assert [address for address in asked if not address.startswith(own)] == []


@pytest.fixture(scope="session")
def report(
    finished_run: RunDirectory,
    tmp_path_factory: pytest.TempPathFactory,
    written: Callable[[Path], str],
) -> str:
    """Address of the report of a run of two arms with two seeds."""
    return written(shutil.copytree(finished_run.root, tmp_path_factory.mktemp("browser") / "out"))


@pytest.fixture(scope="session")
def written() -> Callable[[Path], str]:
    """Writes the page of what is in a folder and gives its address."""

    def write(root: Path) -> str:
        page = root / "report.html"
        text = render_page(read_source(root))
        page.write_text(text, encoding="utf-8", errors="backslashreplace")
        return page.as_uri()

    return write

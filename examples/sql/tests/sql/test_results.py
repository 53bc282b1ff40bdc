"""Recorded answers: what their numbers are over several shops, and what is refused."""

from __future__ import annotations

import gzip
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev

import pytest
from command_line import stdout_of
from scipy.stats import t

from evoprompt.experiments.replayed import PageResults
from evoprompt.support.errors import InputError

FOLDER = Path(__file__).parents[2] / "results"
PAGE = FOLDER.parents[2] / "docs" / "results-house-rules.md"


@pytest.fixture(scope="module")
def results() -> PageResults:
    return PageResults(FOLDER)


@pytest.mark.parametrize(
    "arms", ["static under usual", "coevolve under coevolve - static under usual"]
)
def test_over_three_shops_the_interval_is_students_with_the_sample_variance(
    results: PageResults, arms: str
) -> None:
    means = [results.row(f"shop {shop}, {arms}").mean for shop in (35, 36, 37)]
    row = results.row(f"shops 35 to 37, {arms}")
    assert row.mean == pytest.approx(fmean(means))
    assert row.half == pytest.approx(t.ppf(0.975, 2) * stdev(means) / 3**0.5)
    assert row.text.endswith(" (3 seeds)")


def test_two_shops_have_both_values_and_no_interval(results: PageResults) -> None:
    row = results.row("two shops, blind under blind")
    assert row.half is None
    assert row.text == ".621 (2 seeds: .250, .992)"


def test_one_shop_has_an_interval_over_its_questions(results: PageResults) -> None:
    row = results.row("shop 32, usual")
    sd = (row.mean * (1 - row.mean) * 120 / 119) ** 0.5
    assert row.half == pytest.approx(t.ppf(0.975, 119) * sd / 120**0.5)
    assert row.text == ".200 ± .073 (120 questions)"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    folder = tmp_path / "examples" / "sql" / "results"
    shutil.copytree(FOLDER, folder)
    (tmp_path / "docs").mkdir()
    shutil.copy(PAGE, tmp_path / "docs")
    return folder


def flip(folder: Path) -> None:
    """Says of one answer that it is right, and gives the file its new hash."""
    file, settings = folder / "shop-32-usual.jsonl.gz", folder / "results.yaml"
    before = file.read_bytes()
    text = gzip.decompress(before).decode()
    after = gzip.compress(text.replace('"value": 0.0', '"value": 1.0', 1).encode())
    file.write_bytes(after)
    old, new = (hashlib.sha256(one).hexdigest() for one in (before, after))
    settings.write_text(settings.read_text("utf-8").replace(old, new), "utf-8")


def cut(folder: Path) -> None:
    with (folder / "shop-32-usual.jsonl.gz").open("r+b") as file:
        file.truncate(1000)


def from_tomorrow(folder: Path) -> None:
    settings = folder / "results.yaml"
    settings.write_text(settings.read_text("utf-8").replace("version: 1", "version: 2"), "utf-8")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (flip, "records 1.0 for 'h32-test-.*', but the task computes 0.0"),
        (cut, "has the SHA-256 .*; required"),
        (from_tomorrow, "is of version 2; required: 1"),
    ],
)
def test_what_is_not_as_it_was_recorded_is_refused(
    damage: Callable[[Path], None], said: str, copy: Path
) -> None:
    damage(copy)
    with pytest.raises(InputError, match=said):
        PageResults(copy).row("shop 32, usual")


def test_a_page_that_shows_another_number_ends_with_exit_code_1(copy: Path) -> None:
    page = copy.parents[2] / "docs" / PAGE.name
    page.write_text(page.read_text("utf-8").replace(".292 ± .089", ".392 ± .089"), "utf-8")
    row = "shop 32, reading - blind"
    told = f"{row}: .292 ± .089 (120 questions); the page says .392 ± .089 (120 questions)"
    assert told in stdout_of("replay", copy, row, code=1)
    stdout_of("replay", copy, "shop 32, usual")

from __future__ import annotations

from pathlib import Path

import pytest
from evoprompt_search_qa.harness.browse import write_page
from evoprompt_search_qa.harness.evaluate import journal
from evoprompt_search_qa.harness.journal import Entry, Spoken

from evoprompt.errors import InputError


def entry(identity: str, exact: float | None) -> Entry:
    return Entry(
        id=identity,
        question=f"question {identity}",
        answers=("Ada",),
        turns=(Spoken(action="<search> who </search>", observation="<information>"),),
        metrics={} if exact is None else {"exact_match": exact},
        error="" if exact is not None else "endpoint & co. down",
    )


def test_the_page_holds_every_trajectory_with_its_outcome(tmp_path: Path) -> None:
    journal(tmp_path, "rag", "nq").append([entry("a", 1.0), entry("b", 0.0), entry("c", None)])
    journal(tmp_path, "direct", "popqa").append([entry("d", 0.0)])
    page = write_page(tmp_path, 500).read_text(encoding="utf-8")
    for method, data, outcome in (
        ("rag", "nq", "right"),
        ("rag", "nq", "wrong"),
        ("rag", "nq", "unscored"),
        ("direct", "popqa", "wrong"),
    ):
        wanted = f'data-method="{method}" data-set="{data}" data-outcome="{outcome}"'
        assert page.count(wanted) == 1
    assert "&lt;search&gt; who &lt;/search&gt;" in page
    assert "endpoint &amp; co. down" in page
    assert "http" not in page


def test_a_limit_counts_for_each_file(tmp_path: Path) -> None:
    journal(tmp_path, "rag", "nq").append([entry(str(n), 1.0) for n in range(5)])
    page = write_page(tmp_path, 2).read_text(encoding="utf-8")
    assert page.count("<details") == 2


def test_a_folder_without_trajectories_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no trajectories"):
        write_page(tmp_path, 1)

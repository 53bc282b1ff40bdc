from __future__ import annotations

from pathlib import Path

import pytest
from evoprompt_search_qa.harness.journal import Entry, Journal, Spoken, scored

from evoprompt.errors import InputError


def entry(identity: str, exact: float | None = 1.0) -> Entry:
    return Entry(
        id=identity,
        question="Who\u2028was it?",
        answers=("Ada",),
        turns=(Spoken(action="<answer>Ada\n</answer>", observation=""),),
        metrics={} if exact is None else {"exact_match": exact},
        error="endpoint down" if exact is None else "",
    )


def test_what_is_appended_is_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "m" / "s.jsonl")
    assert journal.read() == {}
    journal.append([entry("a"), entry("b", 0.0)])
    journal.append([entry("c")])
    assert list(journal.read().values()) == [entry("a"), entry("b", 0.0), entry("c")]
    assert len(journal.path.read_text(encoding="utf-8").splitlines()) == 3


@pytest.mark.parametrize("torn", [1, 20, 10_000])
def test_a_torn_last_line_costs_only_its_own_question(tmp_path: Path, torn: int) -> None:
    journal = Journal(tmp_path / "s.jsonl")
    journal.append([entry("a"), entry("b")])
    content = journal.path.read_bytes()
    first = content.index(b"\n") + 1
    journal.path.write_bytes(content[: min(first + torn, len(content) - 1)])
    assert list(journal.read()) == ["a"]
    journal.repair()
    journal.append([entry("b")])
    assert list(journal.read().values()) == [entry("a"), entry("b")]


def test_the_last_try_of_a_question_counts(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "s.jsonl")
    journal.append([entry("a", None), entry("b")])
    journal.append([entry("a", 0.0)])
    assert journal.read()["a"] == entry("a", 0.0)


def test_a_broken_line_in_the_middle_is_named(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "s.jsonl")
    journal.append([entry("a")])
    with journal.path.open("a", encoding="utf-8") as file:
        file.write('{"id": 3}\n')
    journal.append([entry("b")])
    with pytest.raises(InputError, match=r"s\.jsonl:2 is no entry"):
        journal.read()


def test_unscored_entries_have_no_value() -> None:
    assert scored([entry("a"), entry("b", None), entry("c", 0.0)], "exact_match") == [1.0, 0.0]

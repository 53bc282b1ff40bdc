from __future__ import annotations

import pytest

from evoprompt.experiments.report.wording import Change, change
from evoprompt.text import sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("One", ["One"]),
        ("One. Two?  Three!", ["One.", "Two?", "Three!"]),
        ("- One\n\n- Two. Three", ["- One", "- Two.", "Three"]),
        ("Write <answer>x.y</answer> now.", ["Write <answer>x.y</answer> now."]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


def test_a_change_names_what_came_and_went_in_order() -> None:
    found = change("A. B. C.", "C. D. A. E.")
    assert found == Change(added=("D.", "E."), dropped=("B.",))


def test_reordering_is_no_change() -> None:
    assert change("A. B.", "B. A.") == Change((), ())

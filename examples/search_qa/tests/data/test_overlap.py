from __future__ import annotations

import pytest
from evoprompt_search_qa.data.overlap import question_key


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Who wrote the Iliad?", "who wrote Iliad", True),
        ("Cafe\u0301 owner", "caf\u00e9 owner", True),
        ("\uff21\uff22 road", "AB road", True),
        ("Who wrote it?", "Who read it?", False),
        ("Cafe owner", "caf\u00e9 owner", False),
        ("Who\u2019s \u201cX\u201d?", 'Who\'s "X"?', True),
        ("Who\u00b4s X?", "Who's X?", True),
        ("Who is Smith &amp; Co?", "Who is Smith & Co?", True),
        ("Who&amp;#39;s X?", "Who's X?", True),
        ("Who\u200b is\ufeff X\u200d?", "Who is X?", True),
        ("so\u00adft hyphen", "soft hyphen", True),
        ("a well-known co\u2010op", "well known coop", True),
        ("1914\u20131918", "1914-1918", True),
        ("vitamin a-rich food", "vitamin rich food", True),
        ("Who was number 1?", "Who was number 2?", False),
        ("re-creation", "recreations", False),
    ],
)
def test_spelling_does_not_hide_a_repeat(one: str, other: str, same: bool) -> None:
    assert (question_key(one) == question_key(other)) is same

from __future__ import annotations

import pytest
from evoprompt_retrieval.passages import Passage, parse_line, parse_record


def test_both_formats_hold_the_same_passage() -> None:
    apart = parse_record({"id": "7", "title": "Ulm", "text": "A city."})
    together = parse_record({"id": "7", "contents": '"Ulm"\nA city.'})
    assert apart == together == Passage("7", "Ulm", "A city.")
    assert apart.contents == '"Ulm"\nA city.'


@pytest.mark.parametrize(
    "contents",
    ['"Ulm"\nA city.', "no title", "Unquoted\nfirst line", '""\ntext', '"a "b" c"\nx\ny', '"only"'],
)
def test_contents_come_back_unchanged(contents: str) -> None:
    assert parse_record({"id": "1", "contents": contents}).contents == contents


def test_a_character_spelt_in_two_halves_is_whole() -> None:
    assert parse_line(b'{"id": "1", "contents": "\\ud83c\\udfad"}').text == "🎭"


def test_numbers_are_ids_and_titles_lose_their_newlines() -> None:
    assert parse_record({"id": 3, "title": "A\nB", "text": "x"}) == Passage("3", "A B", "x")
    assert parse_record({"_id": "d3", "title": 1984, "text": "x"}) == Passage("d3", "1984", "x")


def test_the_mark_that_some_editors_begin_a_file_with_is_read() -> None:
    line = b'\xef\xbb\xbf{"id": "0", "contents": "text"}\r\n'
    assert parse_line(line) == Passage("0", "", "text")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON"),
        (b'"text"', "required: an object"),
        (b"\xff\xfe", "not UTF-8"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"id": "1", "contents": "\\ud83c"}', "half of a character"),
        (b'{"contents": "x"}', "no 'id'"),
        (b'{"id": true, "contents": "x"}', "no 'id'"),
        (b'{"id": "", "contents": "x"}', "no 'id'"),
        (b'{"id": "1"}', "no text"),
        (b'{"id": "1", "contents": "  "}', "no text"),
        (b'{"id": "1", "title": "t", "text": 5}', "no text"),
    ],
)
def test_what_is_no_passage_is_refused_with_the_reason(line: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_line(line)

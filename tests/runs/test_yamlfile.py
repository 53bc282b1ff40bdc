from __future__ import annotations

from pathlib import Path

import pytest
from counted import counted
from hypothesis import given
from hypothesis import strategies as st

from evoprompt.experiments.instruction import read_instruction
from evoprompt.support import yamlfile
from evoprompt.support.errors import InputError


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-4", 1e-4), ("3E5", 3e5), ("-2.5e+3", -2500.0), ("1.0", 1.0), ("7", 7), ("e5", "e5")],
)
def test_reads_numbers_as_people_write_them(text: str, value: object) -> None:
    assert yamlfile.parse(text, "here") == value


def test_refuses_a_key_given_twice_and_names_the_line() -> None:
    with pytest.raises(InputError, match=r'f\.yaml:3:1: found duplicate key "a"'):
        yamlfile.parse("a: 1\nb: 2\na: 3\n", "f.yaml")


def test_names_the_place_of_a_syntax_error() -> None:
    with pytest.raises(InputError, match=r"f\.yaml:2:\d+: .*required: valid YAML"):
        yamlfile.parse("a: [1,\nb: }", "f.yaml")


def test_the_mark_that_some_editors_begin_a_file_with_is_read(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_bytes(b"\xef\xbb\xbfseed: 3\r\n")
    assert yamlfile.read(tmp_path / "c.yaml") == {"seed": 3}
    (tmp_path / "prompt.txt").write_bytes(b"\xef\xbb\xbfAnswer.\r\n")
    assert read_instruction(tmp_path / "prompt.txt") == "Answer."


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
SETTINGS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("before", [88, 95, 101])
def test_two_spaces_stay_two_wherever_they_stand(before: int) -> None:
    value = {"text": f"{'x' * before}.  Then answer. {'word ' * 30}"}
    assert yamlfile.parse(yamlfile.dump(value), "here") == value


@given(st.dictionaries(TEXT, SETTINGS, max_size=4))
def test_reads_back_what_it_writes(value: dict[str, object]) -> None:
    twice = {"one": value, "other": value}  # the same object, written out both times
    assert yamlfile.parse(yamlfile.dump(twice), "here") == twice  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["[" * 50_000, "[\n" * 50_000, "{a: " * 50_000, "- " * 50_000])
def test_what_is_nested_without_end_is_refused_before_it_is_read(text: str) -> None:
    with counted() as work, pytest.raises(InputError, match=r"nested more than 100 deep; required"):
        yamlfile.parse(text, "f.yaml")
    assert work.calls < 10_000_000


def test_a_hundred_levels_are_read() -> None:
    value = yamlfile.parse("[" * 100 + "1" + "]" * 100, "f.yaml")
    for _ in range(100):
        assert isinstance(value, list)
        (value,) = value
    assert value == 1

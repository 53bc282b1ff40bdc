from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evoprompt import yamlfile
from evoprompt.errors import InputError


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


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml does not exist"):
        yamlfile.read(tmp_path / "none.yaml")


def test_a_directory_is_told_from_a_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a directory; required: a YAML file"):
        yamlfile.read(tmp_path)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read"):
        yamlfile.read(tmp_path / "f.yaml")


@pytest.mark.parametrize(("text", "held"), [("", "nothing"), ("- a", "list"), ("word", "str")])
def test_a_file_that_holds_no_mapping_is_refused(tmp_path: Path, text: str, held: str) -> None:
    (tmp_path / "f.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=f"holds {held}; required: a mapping"):
        yamlfile.read(tmp_path / "f.yaml")


def test_a_nul_is_refused_as_no_path_can_hold_it() -> None:
    with pytest.raises(InputError, match="here:1:4: a NUL character is used"):
        yamlfile.parse('a: "x\\0"', "here")


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"))
SETTINGS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("before", range(85, 105))
def test_two_spaces_stay_two_wherever_they_stand(before: int) -> None:
    value = {"text": f"{'x' * before}.  Then answer. {'word ' * 30}"}
    assert yamlfile.parse(yamlfile.dump(value), "here") == value


@given(st.dictionaries(TEXT, SETTINGS, max_size=4))
def test_reads_back_what_it_writes(value: dict[str, object]) -> None:
    assert yamlfile.parse(yamlfile.dump(value), "here") == value  # type: ignore[arg-type]

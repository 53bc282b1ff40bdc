"""YAML as version 1.2 defines it: tabs between tokens, and line separators of Unicode in texts."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from evoprompt.support import yamlfile
from evoprompt.support.errors import InputError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a:\t1", {"a": 1}),
        ("a: \t 1\t# why", {"a": 1}),
        ("a:\t- 1", None),
        ("-\ta\n- b", ["a", "b"]),
        ("a:\n  b:\tc\n  d: e", {"a": {"b": "c", "d": "e"}}),
        ("a: |\n  x\ty\n", {"a": "x\ty\n"}),
        ("a: 'x\ty'", {"a": "x\ty"}),
        ("a: [1,\t2]", {"a": [1, 2]}),
        ("a: |\n  x\u2028y\n", {"a": "x\u2028y\n"}),
        ("a: |\n  x\x85y\n", {"a": "x\x85y\n"}),
        ("a: x\u2029y", {"a": "x\u2029y"}),
        ("'x\u2028y': \ue000", {"x\u2028y": "\ue000"}),
        ("\ta: 1", None),
        ("a: 1\n\tb: 2", None),
        ("a:\n\tb: 2", None),
    ],
)
def test_tabs_and_separators_are_read_as_yaml_1_2_says(text: str, value: JsonValue) -> None:
    if value is None:
        with pytest.raises(InputError, match=r"file.yaml:\d"):
            yamlfile.parse(text, "file.yaml")
    else:
        assert yamlfile.parse(text, "file.yaml") == value


@pytest.mark.parametrize("text", ["x\u2028y", "x\x85\ny\u2029", "\ue000\u2028"])
def test_what_is_written_is_read_back(text: str) -> None:
    written: dict[str, JsonValue] = {text: [text, {"a": text}]}
    assert yamlfile.parse(yamlfile.dump(written), "file.yaml") == written

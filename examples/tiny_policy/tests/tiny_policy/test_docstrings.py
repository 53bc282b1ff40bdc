"""The examples in docstrings run."""

from __future__ import annotations

import doctest

import pytest
from evoprompt_tiny import habits, instructions, template, vocabulary


@pytest.mark.parametrize(
    "module", [habits, instructions, template, vocabulary], ids=lambda module: module.__name__
)
def test_examples_show_what_happens(module: object) -> None:
    found = doctest.testmod(module)  # type: ignore[arg-type]
    assert found.attempted > 0
    assert found.failed == 0

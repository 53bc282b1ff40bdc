from __future__ import annotations

import contextlib

import pytest
from evoprompt_calculator.calculator import calculate
from hypothesis import given
from hypothesis import strategies as st

from evoprompt.agents import ToolCall, Tools

TOOLS = Tools([calculate], seconds=5)


def result(expression: object) -> str:
    (found,) = TOOLS([ToolCall("calculate", {"expression": expression})])  # type: ignore[dict-item]
    assert isinstance(found, str)
    return found


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("3+4*5", "23"),
        ("(3 + 4) * 5", "35"),
        ("-7 // 2", "-4"),
        ("7/2", "3.5"),
        ("2**10", "1024"),
        ("1_000 + 0.5", "1000.5"),
        ("1/3", "0.333333333333"),
        (" 5 ", "5"),
        ("(" * 90 + "1" + ")" * 90, "1"),
    ],
)
def test_arithmetic(expression: str, value: str) -> None:
    assert calculate(expression) == value


@pytest.mark.parametrize(
    ("expression", "part"),
    [
        ("", "no arithmetic expression"),
        ("1\0", "only numbers"),
        ("-" * 150 + "1", "deep"),
        ("1+" * 200 + "1", "characters"),
        ("9**9**9", "exponent"),
        ("2**-99", "exponent"),
        ("10**16", "beyond 1e+15"),
        ("1e400", "beyond 1e+15"),
        ("(-8)**0.5", "none"),
        ("1/0", "division"),
        ("__import__('os').system('true')", "only numbers"),
        ("1if 1else 2", "only numbers"),
        ("x", "only numbers"),
        ("True + 1", "only numbers"),
        ("3 < 4", "only numbers"),
        ("[1][0]", "only numbers"),
        ("(lambda: 1)()", "only numbers"),
    ],
)
def test_what_is_no_arithmetic_or_too_large_is_an_error_to_read(expression: str, part: str) -> None:
    found = result(expression)
    assert found.startswith("Error: ")
    assert part in found


@given(st.text(st.sampled_from("0123456789.+-*/%() e_j"), max_size=60))
def test_nothing_but_a_value_error_or_a_division_by_zero_comes_out(expression: str) -> None:
    with contextlib.suppress(ValueError, ZeroDivisionError):
        assert abs(float(calculate(expression))) <= 1e15

"""Tool for arithmetic over Python's syntax trees, with limits, and nothing else."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping

Number = int | float

MOST_CHARACTERS = 200
MOST_NESTING = 20
LARGEST = 1e15
"""Largest magnitude of any intermediate number; larger integers are not exact as floats."""
LARGEST_EXPONENT = 16

_ALLOWED = "only numbers, brackets and + - * / // % **"
_CHARACTERS = re.compile(r"[0-9._eE+\-*/%() ]*")
_BINARY: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Number], Number]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}


def calculate(expression: str) -> str:
    """Value of an arithmetic expression."""
    if len(expression) > MOST_CHARACTERS:
        raise ValueError(f"more than {MOST_CHARACTERS} characters")
    if not _CHARACTERS.fullmatch(expression):  # Python warns of some other texts
        raise ValueError(_ALLOWED)
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except SyntaxError:
        raise ValueError("no arithmetic expression") from None
    value = _value(tree.body, 0)
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _value(node: ast.expr, depth: int) -> Number:
    if depth > MOST_NESTING:
        raise ValueError(f"nested more than {MOST_NESTING} deep")
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            result: Number = value
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            result = _UNARY[type(op)](_value(operand, depth + 1))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            first, second = _value(left, depth + 1), _value(right, depth + 1)
            if isinstance(op, ast.Pow) and abs(second) > LARGEST_EXPONENT:
                raise ValueError(f"an exponent beyond {LARGEST_EXPONENT}")
            result = _BINARY[type(op)](first, second)
        case _:
            raise ValueError(_ALLOWED)
    if isinstance(result, complex) or not abs(result) <= LARGEST:
        raise ValueError(f"a number beyond {LARGEST:g}, or none")
    return result

"""Arithmetic without `eval`: a tree of numbers and operators, and nothing else.

The text is parsed by Python's own parser and never run. What is not in the tables below does
not exist here, so there is nothing to break out of.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable

LONGEST = 200
"""Characters. A person would not type more, and deep nesting needs more."""
_MOST_DIGITS = 300
"""Of a result. A power of a power has more digits than the machine has memory."""

_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: dict[type[ast.unaryop], Callable[[float], float]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "abs": abs,
    "cos": math.cos,
    "log": math.log,
    "round": round,
    "sin": math.sin,
    "sqrt": math.sqrt,
}
_CONSTANTS = {"pi": math.pi, "e": math.e}


class Incalculable(ValueError):
    """A text that is not a calculation, or one without a result."""


def calculate(expression: str) -> float:
    """The value of an expression: `+ - * / // % **`, parentheses, and a few functions."""
    if len(expression) > LONGEST:
        raise Incalculable(f"the expression has more than {LONGEST} characters")
    try:
        tree = ast.parse(expression.strip().replace("^", "**"), mode="eval")
        return _finite(_value(tree.body))
    except SyntaxError:
        raise Incalculable(f"{expression!r} is no expression") from None
    except (ArithmeticError, ValueError) as error:
        raise Incalculable(f"{expression!r} has no value: {error}") from None


def _finite(value: float) -> float:
    # It raises an `OverflowError` for an integer that no float can hold.
    if not math.isfinite(value):
        raise OverflowError("too large")
    return value


def _value(node: ast.expr) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left), _value(right))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _BINARY[type(op)](_value(left), _value(right))
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
            return _FUNCTIONS[name](_value(argument))
    raise ValueError(f"{ast.unparse(node)!r} is not arithmetic")


def _power(base: float, exponent: float) -> float:
    if abs(base) > 1 and exponent * math.log10(abs(base)) > _MOST_DIGITS:
        raise OverflowError("too many digits")
    value = base**exponent
    if isinstance(value, complex):
        raise ValueError("a root of a negative number")  # noqa: TRY004 - the value is wrong
    return float(value) if isinstance(value, float) else int(value)

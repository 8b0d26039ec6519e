"""Arithmetic that is right, and everything else refused."""

import re

import pytest

from wholecall.scripted_model import LONGEST, Incalculable, calculate


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        (" 10 - 4 - 3 ", 3),
        ("7 / 2", 3.5),
        ("7 // 2", 3),
        ("7 % 4", 3),
        ("2 ** 10", 1024),
        ("2 ^ 10", 1024),
        ("2 ** -1", 0.5),
        ("4 ** 0.5", 2),
        ("-3 + +5", 2),
        ("sqrt(16) + abs(-2)", 6),
        ("round(2.6)", 3),
        ("sin(0) + cos(0) + log(e)", 2),
        ("pi - pi", 0),
        ("1e3", 1000),
        ("0 ** 5", 0),
    ],
)
def test_what_is_arithmetic(expression: str, value: float) -> None:
    assert calculate(expression) == value


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("", "is not an expression"),
        ("1 +", "is not an expression"),
        ("x = 1", "is not an expression"),
        ("1 / 0", "division by zero"),
        ("sqrt(-1)", "has no value"),
        ("(-8) ** 0.5", "a root of a negative number"),
        ("9 ** 9 ** 9", "too many digits"),
        ("1e308 * 10", "too large"),
        ("9 ** 200 * 9 ** 200", "has no value"),
        ("True + 1", "'True' is not arithmetic"),
        ("'a' * 9", "is not arithmetic"),
        ("~1", "is not arithmetic"),
        ("1 << 9", "is not arithmetic"),
        ("x", "'x' is not arithmetic"),
        ("pow(2, 3)", "is not arithmetic"),
        ("round(2, ndigits=1)", "is not arithmetic"),
        ("sqrt(*[1])", "is not arithmetic"),
        ("().__class__", "is not arithmetic"),
        ("__import__('os').system('true')", "is not arithmetic"),
        ("(lambda: 1)()", "is not arithmetic"),
        ("[1 for _ in (1,)]", "is not arithmetic"),
        ("1" * (LONGEST + 1), f"more than {LONGEST} characters"),
    ],
)
def test_what_is_not(expression: str, said: str) -> None:
    with pytest.raises(Incalculable, match=re.escape(said)):
        calculate(expression)


@pytest.mark.parametrize("nested", ["(" * 99 + "1" + ")" * 99, "-" * (LONGEST - 1) + "1"])
def test_deep_nesting_ends_well(nested: str) -> None:
    assert abs(calculate(nested)) == 1

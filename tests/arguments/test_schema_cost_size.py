"""How large arguments are."""

from typing import Any

import pytest

from wholecall.arguments.limits import DEFAULT
from wholecall.arguments.schema_cost import HUGE, Size, measure


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"": value}
    return value


def sized(
    values: int, containers: int, *, characters: int = 0, numbers: int = 0, floats: bool = False
) -> Size:
    return Size(values, containers, characters, numbers, whole_floats=floats, deep=False)


# what holds, value, size
ROWS: list[tuple[str, Any, Size]] = [
    ("nothing", {}, sized(0, 1)),
    ("names and texts have characters", {"ab": "cde"}, sized(1, 1, characters=5)),
    ("at every depth", {"a": [{"b": "c"}, ["d"]]}, sized(5, 4, characters=4)),
    ("words have none", {"": [True, None]}, sized(3, 2)),
    ("short integers are no trouble", {"": [1, -(2**63) + 1]}, sized(3, 2)),
    ("long ones are", {"": [2**63, -(2**63)]}, sized(3, 2, numbers=2 * HUGE)),
    ("so are large floats", {"": [1e300]}, sized(2, 2, numbers=HUGE)),
    ("a float", {"": [0.5]}, sized(2, 2, numbers=1)),
    ("a float that is whole", {"": [0.5, 2.0, 0.5]}, sized(4, 2, numbers=3, floats=True)),
    ("as deep as allowed", nested(DEFAULT.depth - 1), sized(DEFAULT.depth - 1, DEFAULT.depth)),
]


@pytest.mark.parametrize(("value", "size"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_what_is_counted(value: Any, size: Size) -> None:
    assert measure(value) == size


# what is too much of, value, the limit in words
LIMITS: list[tuple[str, Any, str]] = [
    ("nothing", {"a": [1]}, ""),
    ("levels", nested(DEFAULT.depth), "128 levels of nesting"),
    ("values", {"a": [1] * DEFAULT.values}, "65000 values"),
    ("arrays", {"a": [[]] * (DEFAULT.containers - 1)}, "25000 objects and arrays"),
    ("objects below others", {"a": [[{}]] * (DEFAULT.containers // 2)}, "25000 objects and arrays"),
]


@pytest.mark.parametrize(("value", "limit"), [r[1:] for r in LIMITS], ids=[r[0] for r in LIMITS])
def test_a_limit_is_named(value: Any, limit: str) -> None:
    assert measure(value).limit == limit


def test_as_many_as_allowed() -> None:
    assert measure({"a": [1] * (DEFAULT.values - 1)}).limit == ""
    assert measure({"a": [[]] * (DEFAULT.containers - 2)}).limit == ""


def test_what_is_known_to_be_too_much_is_not_counted_further() -> None:
    size = measure({"": ["x"] * DEFAULT.values, "a": ["y"]})

    assert size.values > DEFAULT.values
    assert size.characters < DEFAULT.values

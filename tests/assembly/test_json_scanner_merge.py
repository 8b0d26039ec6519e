"""Arguments that a server streams as objects instead of text."""

from types import MappingProxyType
from typing import Any

import pytest

from wholecall.arguments.limits import DEFAULT
from wholecall.assembly.json_scanner import (
    digest_json,
    merge_objects,
    outgrows,
    same_json,
    write_json,
)

CONTRADICTION = None

# what holds, the objects in, the object out
ROWS = [
    ("nothing came", [], {}),
    ("one object is itself", [{"a": 1}], {"a": 1}),
    ("the same object again is one", [{"a": [1]}, {"a": [1]}], {"a": [1]}),
    ("parameters come one by one, in their order", [{"b": 1}, {"a": 2}], {"b": 1, "a": 2}),
    ("new text of a string is joined", [{"t": "a"}, {"t": "b"}, {"t": "c"}], {"t": "abc"}),
    ("a string may grow as a whole", [{"t": "a"}, {"t": "ab"}, {"t": "abc"}], {"t": "abc"}),
    ("so is one that was empty first", [{"t": ""}, {"t": "ab"}], {"t": "ab"}),
    ("objects inside grow, too", [{"o": {"t": "a"}}, {"o": {"t": "b"}}], {"o": {"t": "ab"}}),
    ("an empty object takes nothing away", [{"a": 1}, {}], {"a": 1}),
    ("two numbers contradict each other", [{"n": 1}, {"n": 2}], CONTRADICTION),
    ("two lists contradict each other", [{"l": [1]}, {"l": [1, 2]}], CONTRADICTION),
    ("a string and a number contradict each other", [{"a": "1"}, {"a": 1}], CONTRADICTION),
    ("one contradiction is enough", [{"a": "", "o": {"n": 1}}, {"o": {"n": 2}}], CONTRADICTION),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pieces", "merged"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_objects_become_one_or_contradict_each_other(
    pieces: list[dict[str, Any]], merged: dict[str, Any] | None
) -> None:
    before = repr(pieces)

    result = merge_objects(pieces)

    assert result == merged
    assert list(result or {}) == list(merged or {})
    assert repr(pieces) == before


def nested(depth: int, value: Any) -> dict[str, Any]:
    root: dict[str, Any] = {"o": value}
    for _ in range(depth):
        root = {"o": root}
    return root


def test_objects_are_merged_down_to_the_limit_and_no_deeper() -> None:
    depth = DEFAULT.depth
    assert merge_objects([nested(depth, "a"), nested(depth, "b")]) == nested(depth, "ab")
    deeper = depth + 1
    assert merge_objects([nested(deeper, "a"), nested(deeper, "b")]) is CONTRADICTION


# what holds, two values, whether they are the same JSON
PAIRS = [
    ("equal objects", {"a": [1, "x"]}, {"a": [1, "x"]}, True),
    ("the order of keys says nothing", {"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
    ("the order of a list does", [1, 2], [2, 1], False),
    ("true is not 1", {"a": True}, {"a": 1}, False),
    ("1.0 is not 1", {"a": 1.0}, {"a": 1}, False),
    ("nothing is not an empty object", None, {}, False),
]


@pytest.mark.parametrize(
    ("one", "other", "same"), [row[1:] for row in PAIRS], ids=[row[0] for row in PAIRS]
)
def test_values_are_compared_as_json(one: Any, other: Any, *, same: bool) -> None:
    assert same_json(one, other) is same_json(other, one) is same
    assert (digest_json(one) == digest_json(other)) is same


CYCLE: list[Any] = []
CYCLE.append(CYCLE)

# what holds, the value, its text
WRITTEN: list[tuple[str, Any, str]] = [
    ("plain JSON, as short as it can be", {"a": [1, "é"]}, '{"a":[1,"é"]}'),
    ("a mapping that is no dict", MappingProxyType({"a": MappingProxyType({})}), '{"a":{}}'),
    ("what JSON has not is shown", {"a": b"x"}, '{"a":"b\'x\'"}'),
    ("a value that holds itself", CYCLE, '"…"'),
    ("digits without end", 10**5000, '"…"'),
]


@pytest.mark.parametrize(
    ("value", "text"), [row[1:] for row in WRITTEN], ids=[row[0] for row in WRITTEN]
)
def test_whatever_came_can_be_written(value: Any, text: str) -> None:
    assert write_json(value) == text


# what holds, an object, a later one, whether that is the same with more of it
GROWTH = [
    ("a string goes on", {"t": "a"}, {"t": "ab"}, True),
    ("it was empty", {"t": ""}, {"t": "ab"}, True),
    ("a parameter more", {"t": "a"}, {"t": "a", "n": 1}, True),
    ("a number has more digits", {"n": 1}, {"n": 12}, True),
    ("a list is longer", {"l": ["a"]}, {"l": ["ab", "c"]}, True),
    ("an object inside grows", {"o": {}}, {"o": {"t": "a"}}, True),
    ("the same is no more", {"t": "a"}, {"t": "a"}, False),
    ("another string", {"t": "a"}, {"t": "b"}, False),
    ("a shorter list", {"l": [1, 2]}, {"l": [1]}, False),
    ("a parameter less", {"t": "a", "n": 1}, {"t": "ab"}, False),
    ("another type", {"t": "1"}, {"t": 12}, False),
    ("yes and no", {"t": False, "n": 1}, {"t": True, "n": 12}, False),
    ("there was none", None, {"t": "a"}, False),
    ("there is none", {"t": "a"}, None, False),
]  # fmt: skip


@pytest.mark.parametrize(("says", "early", "late", "grows"), GROWTH)
def test_an_object_outgrows_another_one_that_it_holds(
    says: str, early: Any, *, late: Any, grows: bool
) -> None:
    assert outgrows(late, early) is grows, says

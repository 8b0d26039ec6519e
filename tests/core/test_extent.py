"""How deep and how large a text is, told before it is parsed."""

import pytest

from wholecall.core.extent import find_too_deep, find_too_many

# what holds, text, where the bracket ends that is too deep at depth 2
DEEP = [
    ("few brackets", "[[1]]", None),
    ("many brackets side by side", "[[], [], []]", None),
    ("brackets in strings are text", '["[[[", [1], "[\\"[["]', None),
    ("one too many", "[[[1]]]", 3),
    ("after strings and others", '[{"[": "]"}, {"a": [', 20),
    ("braces count, too", '{"a": {"b": {}}}', 13),
    ("behind the root nothing is deep", "[[]] [[[", None),
    ("closers alone are not deep", "]]] [[[", None),
]


@pytest.mark.parametrize(("text", "end"), [r[1:] for r in DEEP], ids=[r[0] for r in DEEP])
def test_the_first_bracket_that_is_too_deep(text: str, end: int | None) -> None:
    assert find_too_deep(text, 2) == end


# what holds, text, where the mark ends that begins the fourth value
MANY = [
    ("few values", "[1, 2]", None),
    ("as many as the limit", "[1, 2, 3]", None),
    ("one item too many", "[1, 2, 3, 4]", 9),
    ("one member too many", '{"a": 1, "b": 2, "c": 3, "d": 4}', 24),
    ("a bracket begins a value", "[[[[", 4),
    ("an array counts before what is in it", "[[[1]], 2]", 7),
    ("commas and brackets in strings are text", '["[,{,[,{", "\\",,,"]', None),
    ("so they are in a string without an end", '["', None),
    ("so they are behind half an escape", '[",,,,\\', None),
    ("the count begins again behind a string", '["[,{,[,{", 2, 3, 4]', 17),
]


@pytest.mark.parametrize(("text", "end"), [r[1:] for r in MANY], ids=[r[0] for r in MANY])
def test_the_mark_that_begins_one_value_too_many(text: str, end: int | None) -> None:
    assert find_too_many(text, 3) == end

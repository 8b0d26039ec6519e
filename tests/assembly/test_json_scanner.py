"""Where a JSON object ends, in whatever pieces it arrives."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recut import every_cutting
from wholecall.arguments.limits import Limits
from wholecall.assembly.json_scanner import ObjectScanner, Scan

SMALL = Limits(depth=3, blank_run=4)

# what holds, what is read, the state then, what is left to the caller
ROWS = [
    ("nothing came", "", Scan.BLANK, ""),
    ("white space is nothing yet", " \t\r\n", Scan.BLANK, ""),
    ("a brace begins", " {", Scan.INSIDE, ""),
    ("an empty object is closed", "{}", Scan.CLOSED, ""),
    ("the last brace closes", '{"a": {"b": [1, 2]}}', Scan.CLOSED, ""),
    ("what follows the brace is left", '{"a": 1}', Scan.CLOSED, '} {"b": 2}'),
    ("white space after the brace is left", '{"a": 1}', Scan.CLOSED, "  "),
    ("a brace inside a string closes nothing", '{"a": "}', Scan.INSIDE, ""),
    ("a bracket inside a string opens nothing", '{"a": "[{"}', Scan.CLOSED, ""),
    ("an escaped quote ends no string", '{"a": "\\"}', Scan.INSIDE, ""),
    ("an escaped backslash ends before the quote", '{"a": "\\\\"}', Scan.CLOSED, ""),
    ("an escape may be the last character", '{"a": "\\', Scan.INSIDE, ""),
    ("a \\u escape is no mark", '{"a": "\\u007d"}', Scan.CLOSED, ""),
    ("a list inside must close before the object", '{"a": [1}', Scan.BROKEN, ""),
    ("an object must close before its list", '{"a": [{]', Scan.BROKEN, ""),
    ("what is broken stays broken", '{"a": [}]}', Scan.BROKEN, ""),
    ("a list is foreign", "[1]", Scan.FOREIGN, ""),
    ("a string is foreign", ' "{}"', Scan.FOREIGN, ""),
    ("a number is foreign", "12", Scan.FOREIGN, ""),
    ("prose before the object is foreign", 'json\n{"a": 1}', Scan.FOREIGN, ""),
    ("a stray closer is foreign", "}", Scan.FOREIGN, ""),
    ("a byte order mark is foreign", "\ufeff{}", Scan.FOREIGN, ""),
    ("as deep as the limit", '{"a": {"b": [1]}}', Scan.CLOSED, ""),
    ("deeper than the limit", '{"a": {"b": [[1]]}}', Scan.TOO_DEEP, ""),
    ("too deep stays too deep", '{"a": {"b": [[1]]}} {"c": 1}', Scan.TOO_DEEP, ""),
    ("as many blanks as the limit", '    {    "a"    :    1    }', Scan.CLOSED, "     "),
    ("a flood before the object", "     {}", Scan.BLANK_FLOOD, ""),
    ("a flood and nothing else", "     ", Scan.BLANK_FLOOD, ""),
    ("a flood after the brace", "{     ", Scan.BLANK_FLOOD, ""),
    ("a flood before a closer", '{"a": 1     }', Scan.BLANK_FLOOD, ""),
    ("a flood between words", '{"a": true,     "b": 1}', Scan.BLANK_FLOOD, ""),
    ("a flood between words without a mark", "{1     2}", Scan.BLANK_FLOOD, ""),
    ("a flood at the end of words", "{123456     ", Scan.BLANK_FLOOD, ""),
    ("a flood behind a closed string", '{"a"     :1}', Scan.BLANK_FLOOD, ""),
    ("any mark of the grammar ends a run", '{  "a"  :  [  1  ,  2  ]  }', Scan.CLOSED, ""),
    ("short runs between many words do not add up", "{1 2 3 4 5  6    7 8}", Scan.CLOSED, ""),
    ("white space in a string is text", '{"a": "          "}', Scan.CLOSED, ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("read", "state", "left"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_the_scanner_knows_where_it_stands(read: str, state: Scan, *, left: str) -> None:
    for pieces in every_cutting(read + left):
        scanner = ObjectScanner(SMALL)
        taken = sum(scanner.feed(piece) for piece in pieces)
        assert (scanner.state, taken) == (state, len(read)), pieces


def test_the_limits_have_defaults() -> None:
    states = []
    for levels in (128, 129):
        scanner = ObjectScanner()
        scanner.feed('{"a":' * levels)
        states.append(scanner.state)
    assert states == [Scan.INSIDE, Scan.TOO_DEEP]


FEW = Limits(containers=3, depth=9)

# what holds, text, the state then
MANY = [
    ("as many arrays as allowed", '{"a": [[1]', Scan.INSIDE),
    ("one array too many", '{"a": [[[[1]', Scan.TOO_MANY),
    ("one object too many", '{"a": {"b": {"c": {', Scan.TOO_MANY),
]


@pytest.mark.parametrize(("text", "state"), [row[1:] for row in MANY], ids=[row[0] for row in MANY])
def test_brackets_that_are_read_one_by_one_are_counted(text: str, state: Scan) -> None:
    for pieces in every_cutting(text):
        scanner = ObjectScanner(FEW)
        assert sum(map(scanner.feed, pieces)) == len(text)
        assert scanner.state is state


# what holds, text, the state then
AT_ONCE = [
    ("values that are too many", '{"a":[' + '"",' * 200_000, Scan.TOO_MANY),
    ("arrays that are too many", '{"a":[' + "[]," * 200_000, Scan.TOO_MANY),
    ("strings that are too many", '{"a":[' + '""' * 300_000, Scan.TOO_MANY),
    ("words that are no values", '{"a":[' + "x " * 200_000, Scan.INSIDE),
    ("a row that is too long for one look", '{"a":[' + '"k":1, ' * 1000 + "]}", Scan.CLOSED),
]


@pytest.mark.parametrize(
    ("text", "state"), [row[1:] for row in AT_ONCE], ids=[row[0] for row in AT_ONCE]
)
def test_of_much_text_at_once_the_values_are_counted(text: str, state: Scan) -> None:
    scanner = ObjectScanner()

    assert scanner.feed(text) == len(text)
    assert scanner.state is state


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(value=st.dictionaries(st.text(), values), after=st.text(), ascii_only=st.booleans())
def test_an_object_ends_at_its_last_brace_and_nowhere_before(
    value: dict[str, object], after: str, *, ascii_only: bool
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    for pieces in every_cutting(text + after):
        scanner = ObjectScanner()
        assert sum(scanner.feed(piece) for piece in pieces) == len(text)
        assert scanner.state is Scan.CLOSED

    scanner = ObjectScanner()
    scanner.feed(text[:-1])
    assert scanner.state is Scan.INSIDE

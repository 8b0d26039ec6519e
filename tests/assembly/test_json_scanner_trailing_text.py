"""What follows a closed object, however it is cut."""

from collections.abc import Iterable

import pytest

from recut import every_cutting
from wholecall.arguments.limits import DEFAULT
from wholecall.assembly.call_builder import Draft
from wholecall.assembly.json_scanner import MOST_REPEATS, Tail, TailText, read_tail


def tail_of(pieces: Iterable[str]) -> Tail:
    draft = Draft(0, DEFAULT)
    for piece in pieces:
        draft.append(piece)
    return draft.arguments.tail()


# what holds, what follows `{"a": 1}`, how it is read
TAILS = [
    ("nothing follows", "", Tail()),
    ("blanks are nothing", " \n", Tail()),
    ("the object again", '{"a": 1}', Tail(repeats=True)),
    ("the object again, written otherwise", '\n{ "a":1 }\n', Tail(repeats=True)),
    ("an empty object", "{}", Tail(repeats=True)),
    ("the object many times", '{"a": 1}' * 7, Tail(repeats=True)),
    ("the object without end", '{"a": 1}' * 8, Tail(differs=True)),
    ("another object", '{"a": 2}', Tail(differs=True)),
    ("another object after the same", '{"a": 1}{"a": 2}', Tail(differs=True)),
    ("a part of an object", '{"a"', Tail(differs=True)),
    ("braces that hold no JSON", "{a}", Tail(differs=True)),
    ("the object again, as a string", r'"{\"a\": 1}"', Tail(repeats=True)),
    ("another object, as a string", r'"{\"a\": 2}"', Tail(differs=True)),
    ("a part of a string", '"so', Tail(rest='"so')),
    ("a string that may be the rest of the object", '" > a"', Tail(rest='" > a"')),
    ("a stray closer", "}", Tail(rest="}")),
    ("prose", " and thanks.\n", Tail(rest="and thanks.")),
    ("the object again, and a stray closer", '{"a": 1}}', Tail(repeats=True, rest="}")),
]


@pytest.mark.parametrize(
    ("text", "tail"), [row[1:] for row in TAILS], ids=[row[0] for row in TAILS]
)
def test_what_follows_the_object_is_compared_with_it(text: str, tail: Tail) -> None:
    assert read_tail(text, {"a": 1}, limits=DEFAULT) == tail
    for pieces in every_cutting('{"a": 1}' + text):
        assert tail_of(pieces) == tail


def test_blanks_inside_a_repeat_are_part_of_it() -> None:
    for pieces in every_cutting('{"a": " x y "}' * 2):
        assert tail_of(pieces) == Tail(repeats=True)


def test_what_goes_on_without_end_is_not_kept() -> None:
    tail = TailText()
    tail.append("}")
    assert tail.read({"a": 1}, limits=DEFAULT) == Tail(rest="}")
    tail.overrun()
    tail.append("more")
    assert tail.is_overrun
    assert tail.read({"a": 1}, limits=DEFAULT) == Tail(differs=True)


def test_arguments_that_are_said_anew_are_kept_a_few_times() -> None:
    tail = TailText()
    for _ in range(MOST_REPEATS):
        tail.append_whole("}")
        assert not tail.is_overrun
    tail.append_whole("}")
    assert tail.is_overrun

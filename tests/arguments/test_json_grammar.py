"""JSON as a table: where a text leaves it, and whether it was cut or is broken."""

import json
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wholecall.arguments.json_grammar import (
    DIGITS,
    Cause,
    Expect,
    JsonGrammar,
    number_flaw,
    skip_blanks,
    walk,
)

CUT, BROKEN, DEEP, COMPLETE = Cause.CUT, Cause.BROKEN, Cause.DEEP, Cause.COMPLETE

# what holds, text, cause, position, message
WALKS = [
    ("an object is whole", '{"a": [1, true, null, "x"]}', COMPLETE, 27, ""),
    ("white space around it is nothing", " \t\r\n{} \n", COMPLETE, 8, ""),
    ("nothing is the beginning of everything", "", CUT, 0, "it ends where a value is expected"),
    ("white space is, too", " \n", CUT, 2, "it ends where a value is expected"),
    (
        "an open object awaits a key or its end",
        "{",
        CUT,
        1,
        "it ends where a key in double quotes or '}' is expected",
    ),
    ("an open array awaits a value or its end", "[", CUT, 1, "it ends where a value or ']' is"),
    ("a member awaits what follows it", '{"a": 1', CUT, 7, "it ends where ',' or '}' is expected"),
    ("an item awaits what follows it", "[1", CUT, 2, "it ends where ',' or ']' is expected"),
    ("after a comma a key must come", '{"a":1,', CUT, 7, "it ends where a key in double quotes is"),
    ("a key awaits its colon", '{"a"', CUT, 4, "it ends where ':' is expected"),
    ("a colon awaits its value", '{"a":', CUT, 5, "it ends where a value is expected"),
    ("a string may end anywhere", '{"a": "x', CUT, 8, "it ends inside a string"),
    ("a key, too", '{"a', CUT, 3, "it ends inside a string"),
    ("a backslash is half an escape", '"\\', CUT, 2, "it ends inside a string"),
    ("an escape may lack its digits", '"\\u00', CUT, 5, "it ends inside a string"),
    ("a word may end anywhere", '{"a": tr', CUT, 8, "it ends inside a word"),
    ("a sign is half a number", '{"a": -', CUT, 7, "it ends inside a number"),
    ("a point is half a number", '{"a": 1.', CUT, 8, "it ends inside a number"),
    ("an exponent without digits, too", '{"a": 1.5e+', CUT, 11, "it ends inside a number"),
    ("a key needs its colon", '{"a" 1}', BROKEN, 5, "expected ':'"),
    ("a key needs its quotes", "{a: 1}", BROKEN, 1, "expected a key in double quotes or '}'"),
    ("a comma needs a key after it", '{"a":1,}', BROKEN, 7, "expected a key in double quotes"),
    ("a comma needs an item after it", "[1,]", BROKEN, 3, "expected a value"),
    ("items need commas", "[1 2]", BROKEN, 3, "expected ',' or ']'"),
    ("brackets must fit", '{"a": [1}', BROKEN, 8, "expected ',' or ']'"),
    ("nothing follows the value", "{}}", BROKEN, 2, "expected the end of the text"),
    ("a cut word in a wrong place is broken", '{"a" tr', BROKEN, 5, "expected ':'"),
    ("a word must be one of three", "[nil]", BROKEN, 1, "expected a value or ']'"),
    ("a word does not go on", "[nullx]", BROKEN, 5, "expected ',' or ']'"),
    ("NaN is no value", '{"a": NaN}', BROKEN, 6, "expected a value"),
    ("a sign is no number", "[-]", BROKEN, 1, "a number that is not written as in JSON"),
    ("a number has no leading zero", "[01]", BROKEN, 1, "a number that is not written as in"),
    ("a number has no trailing point", "[1.]", BROKEN, 1, "a number that is not written as in"),
    ("a number has one sign", "[1-2]", BROKEN, 1, "a number that is not written as in JSON"),
    ("a number must be expected", '{"a" 1.}', BROKEN, 5, "expected ':'"),
    ("a number has a measure", "[" + "9" * 641 + "]", BROKEN, 1, "a number of more than 640"),
    ("a number has a size", "[-1e999]", BROKEN, 1, "a number that is too large"),
    ("a line break in a string is broken", '["a\nb"]', BROKEN, 3, "a raw control character in"),
    ("an unknown escape is broken", '["a\\qb"]', BROKEN, 3, "an invalid escape in a string"),
    ("an escape needs its four digits", '["\\u00"]', BROKEN, 2, "an invalid escape in a string"),
    ("three levels are too deep for two", "[[[", DEEP, 2, "nested more than 2 deep"),
    ("levels beside each other are not deep", "[[],[],[]]", COMPLETE, 10, ""),
]


@pytest.mark.parametrize(
    ("text", "cause", "position", "message"), [row[1:] for row in WALKS], ids=[r[0] for r in WALKS]
)
def test_a_walk_says_where_it_stopped_and_why(
    text: str, cause: Cause, *, position: int, message: str
) -> None:
    walked = walk(text, depth=2)

    assert (walked.cause, walked.position) == (cause, position)
    assert walked.message.startswith(message)
    assert bool(walked.message) is bool(message)


# what holds, text, how far closers alone complete it, the closers, where a string was cut
COMPLETIONS = [
    ("a member is complete", '{"a": [1', 8, "]}", None),
    ("a dangling key is not", '{"a": 1, "b": ', 7, "}", None),
    ("a cut key is no value", '{"a": 1, "b', 7, "}", None),
    ("a cut string is a value as far as it goes", '{"a": "xy', 1, "}", 9),
    ("a half escape is not part of it", '{"a": "xy\\u0', 1, "}", 9),
    ("a cut word is nothing", '{"a": fal', 1, "}", None),
    ("a broken string is nothing", '{"a": "x\n', 1, "}", None),
    ("an opener is complete", '{"a": {', 7, "}}", None),
    ("a closer is, too", '{"a": {}', 8, "}", None),
    ("what is too deep was never opened", '{"a": [[', 7, "]}", None),
    ("a whole text needs nothing", "[]", 2, "", None),
]


@pytest.mark.parametrize(
    ("text", "completable", "closers", "open_string"),
    [row[1:] for row in COMPLETIONS],
    ids=[row[0] for row in COMPLETIONS],
)
def test_a_walk_says_how_the_text_could_be_completed(
    text: str, completable: int, *, closers: str, open_string: int | None
) -> None:
    walked = walk(text, depth=2)

    assert walked.completable == completable
    assert "".join(reversed(walked.closers)) == closers
    assert walked.open_string == open_string


def refuse(literal: str) -> NoReturn:
    raise ValueError(literal)


def is_json(text: str) -> bool:
    try:
        json.loads(text, parse_constant=refuse)
    except ValueError:
        return False
    return True


@given(st.text(alphabet='{}[]:,"\\/ \ntrufalsn0159.eE+-aNI', max_size=12))
def test_a_walk_is_complete_exactly_if_the_parser_accepts_the_text(text: str) -> None:
    assert (walk(text, depth=128).cause is COMPLETE) is is_json(text)


MARKS = st.sampled_from(
    ["{", "}", "[", "]", ":", ",", '"a"', '"', "\\", "u00", "1", "-", ".5", "e", "true", "nu", " "]
)


@given(st.lists(MARKS, max_size=8).map("".join))
def test_a_cut_text_can_go_on_and_a_broken_one_cannot(text: str) -> None:
    walked = walk(text, depth=128)

    if walked.cause is BROKEN:
        # What is wrong here stays wrong, whatever comes: the same place, the same reason.
        assert walk(text + '"}]1', depth=128).position <= len(text)
        assert walk(text + " x", depth=128).cause is BROKEN
    if walked.cause is CUT:
        assert any(walk(text + rest, depth=128).cause is not BROKEN for rest in CONTINUATIONS)


# After a cut, one of these can always come next.
CONTINUATIONS = ['"', "0", ":", ",", "}", "]", "n", "u0000", "0000", "000", "00", "l", "ll", "rue"]
CONTINUATIONS += ["ue", "e", "alse", "lse", "se", "ull"]


def test_a_comma_can_be_taken_back_only_right_after_it() -> None:
    grammar = JsonGrammar()

    assert not grammar.take_back_comma()
    for mark in '{":':
        assert grammar.take(mark)
    assert not grammar.take_back_comma(), "after a colon, a value must come"
    for mark in "[0,":
        assert grammar.take(mark)
    assert grammar.take_back_comma()
    for mark in "],":
        assert grammar.take(mark)
    assert grammar.take_back_comma()
    assert not grammar.take_back_comma(), "there was only one"
    assert grammar.take("}")
    assert grammar.expects is Expect.END


# what holds, the character before, what is open, what comes next
MIDDLES = [
    ("at the beginning", "", "", Expect.VALUE),
    ("in an object", "{", "}", Expect.FIRST_KEY),
    ("in an array", "[", "}]", Expect.FIRST_ITEM),
    ("after a colon", ":", "]}", Expect.VALUE),
    ("after a member's comma", ",", "}", Expect.KEY),
    ("after an item's comma", ",", "]", Expect.VALUE),
    ("after a value", "1", "", Expect.END),
    ("after a member", "}", "}", Expect.AFTER_MEMBER),
    ("after an item", '"', "]", Expect.AFTER_ITEM),
]


@pytest.mark.parametrize(
    ("last", "closers", "expects"), [r[1:] for r in MIDDLES], ids=[r[0] for r in MIDDLES]
)
def test_a_reader_may_begin_in_the_middle(last: str, closers: str, *, expects: Expect) -> None:
    grammar = JsonGrammar.after(last, list(closers), after_key=False)

    assert grammar.expects is expects
    assert grammar.closers == list(closers)


def test_a_reader_may_begin_after_a_key() -> None:
    assert JsonGrammar.after('"', ["}"], after_key=True).expects is Expect.COLON


def test_a_walk_may_begin_in_the_middle() -> None:
    walked = walk(
        '[1, {"a": 2 x', depth=9, at=5, grammar=JsonGrammar.after("{", ["]", "}"], after_key=False)
    )

    assert (walked.cause, walked.position, walked.completable) == (BROKEN, 12, 12)


def test_a_mark_that_may_not_stand_here_changes_nothing() -> None:
    grammar = JsonGrammar()

    assert not grammar.allows("]")
    assert not grammar.take("]")
    assert grammar.expects is Expect.VALUE
    assert grammar.closers == []


def test_a_big_integer_is_a_number_and_a_big_float_is_not() -> None:
    assert number_flaw("9" * DIGITS) == ""
    assert number_flaw("-" + "9" * (DIGITS - 1)) == ""
    assert number_flaw("1.5") == ""
    assert number_flaw("9" * (DIGITS + 1))
    assert number_flaw("1e400")


def test_blanks_are_the_four_of_json() -> None:
    assert skip_blanks("x \t\r\n\u00a0y", 1) == 5
    assert skip_blanks("x", 0) == 0

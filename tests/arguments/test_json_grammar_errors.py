"""A flaw is found from where the parser stopped, as by a walk from the beginning."""

import json
from typing import NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from json_texts import VALUES
from wholecall.arguments.json_grammar import (
    BadLiteral,
    Cause,
    JsonGrammar,
    find_flaw,
    number_flaw,
    walk,
)


def refuse(literal: str) -> NoReturn:
    raise BadLiteral(literal)


def read_number(literal: str) -> float:
    return refuse(literal) if number_flaw(literal) else float(literal)


DECODER = json.JSONDecoder(parse_int=read_number, parse_float=read_number, parse_constant=refuse)

DEPTH = 200
LONG = "9" * 641
FLAWED = [
    "", " ", "{", "[", "[1", '{"a"', '{"a" ', '{"a":', '{"a": 1', '{"a": 1,', '{"a": 1, ', "[1, ",
    '{"a": 1,}', '{"a": 1 , }', "[1,]", "[1 , ]", "{,}", "[,]", '{"a" 1}', '{"a": "b" 1}',
    '{"a": "b" "c"}', '["a" "b"]', '{"a": {"b": 1} "c"}', "{}}", "[] x", "{} {", "]", "}", ":",
    '{"a": [1}', '[{"a": 1]', '{"a": "b]"', '[["]"], "[" x', '{1: 2}', "{a: 1}", "[nul", "[nil]",
    "[truex]", "[true5]", "[false-1]", "[1.]", "[1.", "[-", "[-]", "[-x]", "[01]", "[-01]", "[1e",
    "[1e+", "[1.5e+]", "[1-2]", "[1 -", "[1.x]", "1.", "-", "1 2", "1e", '"a', '"a\\', '"a\\"',
    '"\\u00', '"\\u00zz"', '"\\x"', '["b\\"[", "a\nb"]', '{"a\tb": 1}', '{"a\\q": 1}',
    '["\\\\", "x\\y"]', '{"a": "x\\u12', '{"a', '{"\\u1', "[NaN]", '{"NaN": NaN}',
    '["Infinity", Infinity]', "[-Infinity]", "[1, -1e999, 2", '["1e999", 1e999]', f"[9, {LONG}]",
    f'{{"a": -{LONG}', "[1e5, 1e999.5]", "\ufeff{}", "[1]\x00", "\x0b1",
]  # fmt: skip


def check_flaw(text: str) -> None:
    expected = walk(text, depth=DEPTH)
    try:
        DECODER.decode(text)
    except (json.JSONDecodeError, BadLiteral) as error:
        found = find_flaw(text, error, depth=DEPTH)
        assert found[:4] == expected[:4]
        assert found.closers == expected.closers
    else:
        assert expected.cause is Cause.COMPLETE


@pytest.mark.parametrize("text", FLAWED)
def test_the_walk_may_begin_where_the_parser_stopped(text: str) -> None:
    assert walk(text, depth=DEPTH).cause is not Cause.COMPLETE
    check_flaw(text)


PIECES = st.sampled_from(
    ['"', "\\", "{", "}", "[", "]", ",", ":", " ", "1", "-", ".", "e", "tru", "\n", '"a"']
)


@given(VALUES, st.data())
def test_so_may_it_for_every_text_with_something_wrong_in_it(
    value: object, data: st.DataObject
) -> None:
    text = json.dumps(value)
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, len(text)))
        text = text[:start] + data.draw(PIECES | st.just("")) + text[min(end, start + 3) :]
    check_flaw(text)


@pytest.mark.parametrize("cut", [0, 1])
def test_the_walk_takes_no_step_before_the_flaw(cut: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million items would take seconds."""
    text = "[" + "[1]," * 1000 + "x"[:cut]
    steps = 0
    take = JsonGrammar.take

    def counted(self: JsonGrammar, mark: str) -> bool:
        nonlocal steps
        steps += 1
        return take(self, mark)

    monkeypatch.setattr(JsonGrammar, "take", counted)
    with pytest.raises(json.JSONDecodeError) as raised:
        DECODER.decode(text)

    assert find_flaw(text, raised.value, depth=9).position == len(text) - cut
    assert steps < 5

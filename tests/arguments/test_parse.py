"""Strict JSON: what is a value, what was cut off, what is broken, and where."""

import json
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from json_texts import OBJECTS
from wholecall.arguments.limits import Limits
from wholecall.arguments.parse import EXCERPT, Parsed, Unparsed, excerpt, join_path, parse
from wholecall.events import Reason, Repair

CUT, BAD, LIMIT = Reason.TRUNCATED, Reason.BAD_JSON, Reason.LIMIT

# what holds, text, value
VALUES = [
    ("an object", '{"a": [-2.5, true, false, null, "x"]}', {"a": [-2.5, True, False, None, "x"]}),
    ("an empty object", " {} ", {}),
    ("a value that is no object is still a value", '"{hello world}"', "{hello world}"),
    ("a big integer keeps its digits", "[12345678901234567890123]", [12345678901234567890123]),
    ("an integer stays an integer, a float a float", '{"i": 5, "f": 5.0}', {"i": 5, "f": 5.0}),
    ("what looks like nesting in a string is text", json.dumps({"a": "[" * 500}), {"a": "[" * 500}),
    ("brackets beside each other", "[" + "[]," * 200 + "[]]", None),
    ("as deep as the limit", "[" * 128 + "]" * 128, None),
    ("a pair of escapes is one character", '{"t": "hi \\ud83d\\ude00!"}', {"t": "hi 😀!"}),
    # Each half was decoded with its own chunk of the stream.
    ("a pair of raw halves is one character", '{"t": "\ud83d\ude00"}', {"t": "😀"}),
    ("an escaped backslash begins no escape", '{"t": "\\\\ud800"}', {"t": "\\ud800"}),
    # https://github.com/sgl-project/sglang/pull/39493
    ("escapes", '{"text":"\\u00e9\\n\\"q\\""}', {"text": 'é\n"q"'}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), [r[1:] for r in VALUES], ids=[r[0] for r in VALUES])
def test_strict_json_is_parsed_as_it_is(text: str, value: Any) -> None:
    parsed = parse(text)

    assert isinstance(parsed, Parsed)
    assert not parsed.changes
    assert not parsed.duplicates
    if value is not None:
        assert parsed.value == value
        assert repr(parsed.value) == repr(value)  # 5 is not 5.0


# what holds, text, reason, position, found
FLAWS = [
    ("nothing is cut", "", CUT, 0, ""),
    ("a brace is cut", "{", CUT, 1, ""),
    ("a word is cut", '{"a": tr', CUT, 8, ""),
    ("a number without its end is cut", '{"a": 12', CUT, 8, ""),
    ("an escape is cut", '{"a":"\\u00', CUT, 10, ""),
    ("a string is cut", '{"a":"x', CUT, 7, ""),
    ("a comma is cut", '{"a":1,', CUT, 7, ""),
    ("a key twice does not hide a cut", '{"a":1,"a":2,', CUT, 13, ""),
    # https://github.com/BerriAI/litellm/pull/22503
    ("a missing closer is cut", '{"command": ["bash","-lc","ls"]', CUT, 31, ""),
    ("a missing colon is broken", '{"a" 1}', BAD, 5, "1}"),
    # https://github.com/sgl-project/sglang/pull/36339
    ("bytes missing in the middle", '{"d": "tune it"medium", "m": 5}', BAD, 15, 'medium", "m": 5}'),
    # https://github.com/GeniePod/genie-claw/pull/469
    ("an expression is no value", '{"s": 60*60}', BAD, 8, "*60}"),
    ("a number is written as in JSON", '{"zip": 00501}', BAD, 8, "00501}"),
    # https://github.com/modelcontextprotocol/python-sdk/issues/3385
    ("NaN", '{"scale": NaN}', BAD, 10, "NaN}"),
    ("Infinity", '{"scale": -Infinity}', BAD, 10, "-Infinity}"),
    # https://github.com/NousResearch/hermes-agent/pull/68612
    ("thousands of digits", '{"n": ' + "9" * 5000 + "}", BAD, 6, "9" * 39 + "…"),
    ("a float that is infinite", '{"n": 1e999}', BAD, 6, "1e999}"),
    ("a key twice does not hide a number", '{"a":1,"a":1e999}', BAD, 11, "1e999}"),
    ("text after the value", "{} {}", BAD, 3, "{}"),
    ("too deep", "[" * 1000, LIMIT, 128, "[" * 39 + "…"),
    ("too deep behind keys", '{"a":' * 200 + "1" + "}" * 200, LIMIT, 640, ('{"a":' * 9)[:39] + "…"),
    ("brackets in Python's strings", "{'': '" + "[" * 200 + "'}", BAD, 1, "'': '" + "[" * 34 + "…"),
    ("many brackets, not deep, but broken", "[" + "[]," * 200 + "]", BAD, 601, "]"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason", "position", "found"), [r[1:] for r in FLAWS], ids=[r[0] for r in FLAWS]
)
def test_what_is_not_strict_json_is_told_with_its_place(
    text: str, reason: Reason, *, position: int, found: str
) -> None:
    unparsed = parse(text)

    assert isinstance(unparsed, Unparsed)
    assert (unparsed.reason, unparsed.position, unparsed.found) == (reason, position, found)
    assert unparsed.cut is (reason is CUT)
    assert unparsed.message


# what holds, text, value, what stood there
SURROGATES = [
    ("the first half alone", r'{"t": "a\ud83db"}', {"t": "a\ufffdb"}, r"\ud83d"),
    ("the second half alone", r'{"t": "\uDE00"}', {"t": "\ufffd"}, r"\uDE00"),
    ("two first halves", r'{"t": "\ud83d\ud83d\ude00"}', {"t": "\ufffd😀"}, r"\ud83d"),
    ("a raw half", '{"t": "\udc80"}', {"t": "\ufffd"}, r"\udc80"),
    ("in a key", r'{"\ud800": 1}', {"\ufffd": 1}, r"\ud800"),
]


@pytest.mark.parametrize(
    ("text", "value", "before"), [r[1:] for r in SURROGATES], ids=[r[0] for r in SURROGATES]
)
def test_half_a_pair_becomes_the_replacement_character_and_is_recorded(
    text: str, value: Any, *, before: str
) -> None:
    parsed = parse(text)

    assert parsed == Parsed(value, (Repair("lone_surrogate", before, "\ufffd"),))


def test_keys_that_differ_only_in_half_a_pair_are_the_same_key() -> None:
    parsed = parse(r'{"\ud800": 1, "\ud801": 2}')

    assert isinstance(parsed, Parsed)
    assert parsed.duplicates == ('$["\ufffd"]',)


# what holds, text, paths
DUPLICATES = [
    ("at the root", '{"a": 1, "b": 2, "a": 3}', ("$.a",)),
    ("three times is reported once", '{"a": 1, "a": 2, "a": 3}', ("$.a",)),
    ("even if both say the same", '{"a": 1, "a": 1}', ("$.a",)),
    ("below", '{"a": {"b": [{"c": 1, "c": 2}]}}', ("$.a.b[0].c",)),
    ("odd keys are quoted", '{"a b": {"": 1, "": 2}}', ('$["a b"][""]',)),
    ("all of them", '{"a": {"b": 1, "b": 2}, "c": 1, "c": 2}', ("$.c", "$.a.b")),
    (
        "a very long key is cut in the path",
        '{"' + "k" * 500 + '": {"b": 1, "b": 2}}',
        (f'$["{"k" * 127}…"].b',),
    ),
    (
        "a very long path ends before the value",
        ('{"' + "k" * 120 + '": ') * 20 + '{"b": 1, "b": 2}' + "}" * 20,
        ("$" + ("." + "k" * 120) * 9,),
    ),
    ("a scalar holds no keys", '{"a": [1, "x"], "a": [2]}', ("$.a",)),
]


@pytest.mark.parametrize(
    ("text", "paths"), [r[1:] for r in DUPLICATES], ids=[r[0] for r in DUPLICATES]
)
def test_keys_given_twice_are_told_by_their_path(text: str, paths: tuple[str, ...]) -> None:
    parsed = parse(text)

    assert isinstance(parsed, Parsed)
    assert parsed.duplicates == paths
    assert parsed.value == json.loads(text)


def test_of_very_many_keys_given_twice_some_are_told() -> None:
    parsed = parse("{" + ", ".join(f'"k{i}": 1, "k{i}": 2' for i in range(1000)) + "}")

    assert isinstance(parsed, Parsed)
    assert parsed.duplicates == tuple(f"$.k{i}" for i in range(32))


@pytest.mark.parametrize("count", [10, 5000])
def test_many_numbers_are_read_as_few_are(count: int) -> None:
    numbers = [12, -(10**300), 0, 1.5] * count
    longest, longer = "9" * 640, "9" * 641

    assert parse(json.dumps(numbers)) == Parsed(numbers)
    assert parse(json.dumps([*numbers, int(longest)])) == Parsed([*numbers, int(longest)])
    unparsed = parse(json.dumps(numbers)[:-1] + f",{longer}]")
    assert isinstance(unparsed, Unparsed)
    assert unparsed.found.startswith("999")
    assert parse("{" + '"k":1,' * count + '"k":2}') == Parsed({"k": 2}, (), ("$.k",))


def test_the_caller_may_set_the_depth() -> None:
    assert isinstance(parse("[[1]]", limits=Limits(depth=2)), Parsed)
    assert isinstance(parse("[[1]]", limits=Limits(depth=1)), Unparsed)


# what there is too much of, text, the detail
EXCESS = [
    ("values", "[" + "1," * 9 + "1]", "the arguments are too many: more than 5 values"),
    ("arrays", "[[[[1]]]]", "the arguments are too many: more than 3 objects and arrays"),
    (
        "halves",
        '"' + r"\ud83d" * 10_001 + '"',
        "the arguments are garbled: more than 10000 halves of surrogate pairs",
    ),
]


@pytest.mark.parametrize(("text", "detail"), [r[1:] for r in EXCESS], ids=[r[0] for r in EXCESS])
def test_what_is_too_much_is_not_parsed(text: str, detail: str) -> None:
    unparsed = parse(text, limits=Limits(values=5, containers=3, depth=2))

    assert isinstance(unparsed, Unparsed)
    assert unparsed.reason is LIMIT
    assert unparsed.detail == detail


def test_excerpts_and_paths() -> None:
    assert excerpt("x" * EXCERPT) == "x" * EXCERPT
    assert excerpt("x" * 99) == "x" * (EXCERPT - 1) + "…"
    assert join_path("$", "days") == "$.days"
    assert join_path("$", 0) == "$[0]"


# ── The laws ────────────────────────────────────────────────────────────────────────


@given(OBJECTS, st.booleans())
def test_what_was_written_is_read(value: dict[str, Any], ascii_only: bool) -> None:
    assert parse(json.dumps(value, ensure_ascii=ascii_only)) == Parsed(value)


@given(value=OBJECTS, ascii_only=st.booleans(), data=st.data())
def test_every_proper_prefix_of_an_object_is_cut(
    value: dict[str, Any], ascii_only: bool, *, data: st.DataObject
) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    for end in {data.draw(st.integers(0, len(text) - 1)) for _ in range(4)}:
        unparsed = parse(text[:end])

        assert isinstance(unparsed, Unparsed)
        assert unparsed.cut


@given(OBJECTS, st.data())
def test_a_corrupted_object_is_never_taken_for_whole_and_cut(
    value: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(value, ensure_ascii=False)
    at = data.draw(st.integers(0, len(text) - 1))
    corrupted = text[:at] + data.draw(st.sampled_from("\x00'}]:,xN")) + text[at:]
    result = parse(corrupted)

    # Inside a string most of these are text. Elsewhere nothing makes them right again.
    if isinstance(result, Unparsed):
        assert not result.cut
    else:
        assert json.loads(corrupted) == result.value


@given(st.text(alphabet=st.characters(categories=["Cs"]) | st.sampled_from('a\\"u{d8')))
@example("\ud800\\")
def test_no_value_ever_holds_half_a_pair(content: str) -> None:
    escaped = json.dumps(content)
    for text in (escaped, f'"{content}"'):
        parsed = parse(text)
        assume(isinstance(parsed, Parsed))
        assert isinstance(parsed, Parsed)
        assert isinstance(parsed.value, str)
        parsed.value.encode()
        for change in parsed.changes:
            change.before.encode()

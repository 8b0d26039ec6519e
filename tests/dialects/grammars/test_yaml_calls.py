"""A block of YAML in a tag."""

# ruff: noqa: E501 - a row is one line, and its text stands there as a model writes it

from __future__ import annotations

from collections.abc import Callable

import pytest

from wholecall.arguments.limits import Limits
from wholecall.dialects.dialect import Dialect, Named
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.dialects.engine import Engine
from wholecall.dialects.parser_context import Found
from wholecall.events import CallDelta, CallSealed, Text
from wholecall.messages import read_offer

TOOLS = [
    {
        "name": "f",
        "parameters": {
            "type": "object",
            "properties": {
                "s": {"type": "string"},
                "n": {"type": "integer"},
                "l": {"type": "array", "items": {"type": "string"}},
                "o": {"type": "object", "properties": {"s": {"type": "string"}}},
                "a": {},
                "m": {"type": ["string", "null"]},
            },
        },
    }
]

ROWS = [
    ("scalars", "s: x y\nn: 3\n", '{"s": "x y", "n": 3}'),
    ("in one line", "s: x", '{"s": "x"}'),
    ("nothing", "", "{}"),
    ("blank lines and comments", "\n# why\n  \ns: x # so\n\nn: 3\n#\n", '{"s": "x", "n": 3}'),
    ("a mark that is no comment", "s: a#b\n", '{"s": "a#b"}'),
    ("text that looks like more", "s: 007\na: 1.50\n", '{"s": "007", "a": 1.5}'),
    ("words", "a: [true, null, ~, yes]\nm: ~\n", '{"a": [true, null, null, "yes"], "m": "~"}'),
    ("no value", "s:\na:\n", '{"s": "", "a": null}'),
    ("a comment instead of a value", "a: # none\nn: 1\n", '{"a": null, "n": 1}'),
    ("an address", "s: http://x.y/z?q=1\n", '{"s": "http://x.y/z?q=1"}'),
    ("keys in quotes", "\"s\": x\n'n': 2\n", '{"s": "x", "n": 2}'),
    ("any keys in quotes", "s: x\no: {'{a': 1, \"\": 2}\n", '{"s": "x", "o": {"{a": 1, "": 2}}'),
    ("single quotes", "s: 'it''s: # {x}'\n", '{"s": "it\'s: # {x}"}'),
    ("double quotes", 's: "a\\n\\u00e9 # b" # c\n', '{"s": "a\\né # b"}'),
    ("carriage returns", "s: x\r\nn: 1\r\n", '{"s": "x", "n": 1}'),
    ("a list", "l:\n- 1\n- a b\n", '{"l": ["1", "a b"]}'),
    ("a list with an indent", "l:\n  - a\n  - 'b'\ns: x\n", '{"l": ["a", "b"], "s": "x"}'),
    ("lists in lists", "a:\n  - - 1\n    - 2\n  -\n    - 3\n  -\n", '{"a": [[1, 2], [3], null]}'),
    ("mappings in lists", "a:\n  - k: 1\n    l: 2\n  - k: 3\n", '{"a": [{"k": 1, "l": 2}, {"k": 3}]}'),
    ("mappings in mappings", "o:\n  s: 1\n  p:\n    q: 1\n", '{"o": {"s": "1", "p": {"q": 1}}}'),
    ("flow collections", "l: [a, 'b, c', \"d\",]\no: {s: 1, q: {}, r: [[]]}\n", '{"l": ["a", "b, c", "d"], "o": {"s": "1", "q": {}, "r": [[]]}}'),
    ("a flow over lines", "l: [a,\n b]\n", '{"l": ["a", "b"]}'),
    ("a literal block", "s: |\n  a\n\n    b\n  c\nn: 1\n", '{"s": "a\\n\\n  b\\nc\\n", "n": 1}'),
    ("a literal block without its last end", "s: |-\n  a\n  b\n\n\n", '{"s": "a\\nb"}'),
    ("a literal block with all its ends", "s: |+\n  a\n\n\n", '{"s": "a\\n\\n\\n"}'),
    ("a literal block in a list", "l:\n  - |-\n    a\n    b\n  - c\n", '{"l": ["a\\nb", "c"]}'),
    ("a block with a comment", "s: |- # text\n  a\n", '{"s": "a"}'),
    ("a block that begins with an empty line", "s: |-\n\n  a\n", '{"s": "\\na"}'),
    ("an empty block", "s: |\nn: 1\n", '{"s": "", "n": 1}'),
    ("an empty block at the end", "s: |\n", '{"s": ""}'),
    ("an empty block that keeps its ends", "s: |+\n\n\nn: 1\n", '{"s": "\\n\\n", "n": 1}'),
    ("a folded block", "s: >\n  a\n  b\n\n  c\n", '{"s": "a b\\nc\\n"}'),
    ("a folded block with deeper lines", "s: >-\n  a\n    b\n  c\n", '{"s": "a\\n  b\\nc"}'),
    ("the closing tag in a block", "s: |-\n  a\n  </f>\n  b\n", '{"s": "a\\n</f>\\nb"}'),
    ("a quote in a block", "s: |-\n  say \"a\\b\"\n", '{"s": "say \\"a\\\\b\\""}'),
]  # fmt: skip


@pytest.mark.parametrize(("block", "read"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_is_read(say: Callable[..., str], block: str, *, read: str) -> None:
    newline = "\n" if "\n" in block else ""
    assert say("yaml_xml", f"<f>{newline}{block}</f>", tools=TOOLS) == f"f {read}"


BROKEN = [
    ("an empty key", "s: x\n: 3\n"),
    ("an empty key in a flow", "o: {: 1}\n"),
    ("a colon before a value", "s: : x\nn: 1\n"),
    ("a colon twice", "s:: x\nn: 1\n"),
    ("a key that begins a flow", "s: x\n{n: 1\n"),
    ("a key that lost a quote", 'o: {"s: 1}\n'),
    ("a tab", "s: x\n\tn: 1\n"),
    ("a line that is indented more", "s: x\n  y\n"),
    ("a line that is indented less", "a:\n    b: 1\n  c: 2\n"),
    ("a line without a colon", "s: x\nso what\n"),
    ("a colon without a blank", "s: x\nn:1\n"),
    ("text behind quotes", 's: "a" b\n'),
    ("text behind a key in quotes", 's: x\n"n" b: 1\n'),
    ("text behind a list", "l: [a] b\n"),
    ("no comma", "l: [a 'b']\nn: ['x' 'y']\n"),
    ("an element that is none", "l: [a, , b]\n"),
    ("a key without an end in a flow", "o: {" + "k" * 300 + ": 1}\n"),
    ("a word without an end in a flow", "l: [" + "k" * 5000 + "]\n"),
    ("a block with a width", "s: |2\n  a\n"),
    ("a block with much behind it", "s: | " + "x" * 40 + "\n  a\n"),
    ("a block in a line", "s: | a\n"),
]


@pytest.mark.parametrize("block", [row[1] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_what_is_broken(say: Callable[..., str], block: str) -> None:
    assert say("yaml_xml", f"<f>\n{block}</f>so", tools=TOOLS) == "!bad_markup f | 'so'"


WHOLE = "<f>\ns: 'x'\nl: [a, 'b']\na:\n  - k: \"1\"\n  - |\n    t\nn: 3\n</f>"


@pytest.mark.parametrize("end", range(len("<f>\ns: "), len(WHOLE)))
def test_what_is_cut_is_never_a_call(say: Callable[..., str], end: int) -> None:
    assert say("yaml_xml", WHOLE[:end], tools=TOOLS) == "!truncated f"


@pytest.mark.parametrize(
    "text", ["<f> is a tag", "<f>", "<f>\n", "<f>\n\ts: x\n</f>", "<f>\n" + "k" * 300 + ": 1\n</f>"]
)
def test_prose_stays_text(say: Callable[..., str], text: str) -> None:
    assert say("yaml_xml", text, tools=TOOLS) == f"'{text}'"


def test_only_known_parameters_are_rescued(say: Callable[..., str]) -> None:
    rescuing = Dialect(name="mine", named=(Named.YAML,), rescues=True)
    assert say(rescuing, "<f>\ns: x\n</f>", tools=TOOLS) == 'f {"s": "x"}'
    assert say(rescuing, "<f>\nz: x\n</f>", tools=TOOLS) == "'<f>\nz: x\n</f>'"


@pytest.mark.parametrize("text", ["a:\n- - - - 1\n", "a: [[[[1]]]]\n", "a: {b: {c: {d: 1}}}\n"])
def test_depth_has_a_limit(text: str) -> None:
    engine = Engine(DIALECTS["yaml_xml"], read_offer(TOOLS), limits=Limits(depth=2))
    flaws = [each for each in engine.feed(f"<f>\n{text}</f>") if getattr(each, "flaw", "")]
    assert len(flaws) == 1


def test_a_call_is_held_back_to_its_end() -> None:
    engine = Engine(DIALECTS["yaml_xml"], read_offer(TOOLS))
    assert engine.feed("so <f>\ns: |\n  ") == [Text("so ")]
    assert [engine.feed("lorem ipsum ") for _ in range(2_000)] == [[]] * 2_000
    assert len(engine._source.text) < 100
    opened, sealed, found, more = engine.feed("\n</f>more")
    assert isinstance(opened, CallDelta)
    assert len(str(opened.arguments)) > 24_000
    assert (type(sealed), type(found), more) == (CallSealed, Found, Text("more"))

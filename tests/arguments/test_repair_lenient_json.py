"""One value in another syntax, rewritten to strict JSON: one reading, or none."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from json_texts import OBJECTS, STYLES, Style, write
from wholecall.arguments.repair import Rewriter
from wholecall.events import Repair

# what holds, text, strict JSON, the repairs
REWRITTEN = [
    ("strict JSON is what it is", ' {"a": [1, -2.5e3, true], "b": "x\\"y"}',
     '{"a":[1,-2.5e3,true],"b":"x\\"y"}', []),
    ("a comma before a brace", '{"a": 1, }', '{"a":1}', [("trailing_comma", ",}", "}")]),
    ("a comma before a bracket", "[1,2 ,]", "[1,2]", [("trailing_comma", ",]", "]")]),
    ("each kind is noted once", '{"a": [1,], "b": [2,],}', '{"a":[1],"b":[2]}',
     [("trailing_comma", ",]", "]")]),
    ("Python's words", "[True, False, None]", "[true,false,null]",
     [("python_literal", "True", "true")]),
    ("JSON's words among Python's", "[None, null]", "[null,null]",
     [("python_literal", "None", "null")]),
    ("Python's quotes", "{'a': 'x'}", '{"a":"x"}', [("python_literal", "'a'", '"a"')]),
    ("a quote needs an escape in JSON", """['say "hi"']""", '["say \\"hi\\""]',
     [("python_literal", "'say \"hi\"'", '"say \\"hi\\""')]),
    ("an apostrophe needs none", r"""['it\'s', "it's"]""", '["it\'s","it\'s"]',
     [("python_literal", r"'it\'s'", '"it\'s"')]),
    ("Python's escapes", r"""['\n\\\u00e9\xe9\"']""", r'["\n\\\u00e9\u00e9\""]',
     [("python_literal", r"""'\n\\\u00e9\xe9\"'""", r'"\n\\\u00e9\u00e9\""')]),
    ("a raw line break", '["a\nb\tc"]', '["a\\nb\\tc"]', [("escape_control", "\n", "\\n")]),
    ("any raw control character", '["\x00\x1f"]', '["\\u0000\\u001f"]',
     [("escape_control", "\x00", "\\u0000")]),
    ("a Windows path", r'["C:\Projects\app"]', r'["C:\\Projects\\app"]',
     [("escape_backslash", r"\P", r"\\P")]),
    ("a regular expression", r'["\d+\s(\"|$)"]', r'["\\d+\\s(\"|$)"]',
     [("escape_backslash", r"\d", r"\\d")]),
    ("a user's folder is no long escape", r'["C:\Users\x"]', r'["C:\\Users\\x"]',
     [("escape_backslash", r"\U", r"\\U")]),
    ("escaped white space between values", '{"v": \\n[1,\\t2]\\r\\n}', '{"v":[1,2]}',
     [("escaped_whitespace_outside_strings", "\\n", "")]),
    ("a name as a key", '{name: "x", $b_2: 1}', '{"name":"x","$b_2":1}',
     [("quote_key", "name", '"name"')]),
    ("what follows the value is left alone", '{"a": 1} rest', '{"a":1}', []),
    ("a value that is no object", "'a'", '"a"', [("python_literal", "'a'", '"a"')]),
    ("long places are cut", "['" + "x" * 50 + "']", '["' + "x" * 50 + '"]',
     [("python_literal", "'" + "x" * 38 + "…", '"' + "x" * 38 + "…")]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "strict", "repairs"), [r[1:] for r in REWRITTEN], ids=[r[0] for r in REWRITTEN]
)
def test_what_has_one_reading_is_rewritten(
    text: str, strict: str, *, repairs: list[tuple[str, str, str]]
) -> None:
    rewriter = Rewriter(text)

    assert rewriter.rewrite() == strict
    assert list(rewriter.repairs.values()) == [Repair(*repair) for repair in repairs]
    json.loads(strict)


# what holds, text
REFUSED = [
    ("nothing is no value", ""),
    ("nothing that is open is closed", '{"a": 1'),
    ("no string is closed", '{"a": "x'),
    ("no string is closed before an escape", '{"a": "x\\'),
    ("no Python string is closed", "{'a': 'x"),
    ("no closer is exchanged", '{"a": [1}'),
    ("no closer is exchanged behind a comma", '{"a": [1,}'),
    ("no comma is put in", '{"a": 1 "b": 2}'),
    ("no colon is put in", '{"a" 1}'),
    ("no value is put in", '{"a": }'),
    ("no value is put in before a comma", '{"a": , "b": 1}'),
    ("no item is put in", "[1,,2]"),
    ("a comma alone is nothing", "{,}"),
    ("a comma alone is no item", "[,]"),
    ("no key is put in", "{: 1}"),
    ("no quote is put in", '{"a": x}'),
    ("no quote is put into a list", "[a, b]"),
    ("an inner quote is not escaped", '{"d": "tune it"medium", "m": 5}'),
    ("an inner apostrophe is not escaped", "{'a': 'it's'}"),
    ("a word is no key", "{true: 1}"),
    ("a number is no key", "{1: 2}"),
    ("a key is one name", "{hello world}"),
    ("an expression is not worked out", '{"seconds": 60*60}'),
    ("an assignment is no object", "file_path=foo"),
    ("a comment may stand for what was left out", '{"files": ["a.py" /* and the others */]}'),
    ("so may a comment at the end of a line", '{"files": ["a.py" // and the others\n]}'),
    ("dots stand for what was left out", '{"files": ["a.py", ...]}'),
    ("NaN is no value", '{"a": NaN}'),
    ("Infinity is no value", '{"a": -Infinity}'),
    ("a tuple is no array", "{'a': (1, 2)}"),
    ("bytes are no string", "{'a': b'x'}"),
    ("a number is written as in JSON", '{"a": .5}'),
    ("a number has no leading zero", '{"a": 00501}'),
    ("a path or a line break", r'{"path": "C:\Projects\new"}'),
    # Who does not escape one backslash may not have escaped the other.
    ("a path or a tab, in another string", r'{"from": "C:\temp", "to": "C:\Projects"}'),
    ("one backslash or two", r'{"path": "\\server\Share"}'),
    ("a slash or a backslash and a slash", r'{"pattern": "\/\d+"}'),
    ("a folder or half an escape", r'{"path": "C:\Projects\users"}'),
    ("an apostrophe or a backslash, too", r'{"a": "it\'s"}'),
    ("a byte or a backslash", r'{"a": "\x1b[0m"}'),
    ("a character or a backslash", r'{"a": "\U0001F600"}'),
    ("a line that goes on or a backslash", '{"a": "x\\\ny"}'),
    ("Python may mean a bell", r"{'path': 'C:\app'}"),
    ("Python does not know this escape", r"{'a': '\/'}"),
    ("a backslash outside strings is nothing", '{"a": \\x1}'),
    ("an escaped quote outside strings is none", '{"a": \\"x\\"}'),
    ("triple quotes are not read", "{'a': '''x'''}"),
]  # fmt: skip


@pytest.mark.parametrize("text", [r[1] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_what_lacks_something_or_has_two_readings_is_refused(text: str) -> None:
    assert Rewriter(text).rewrite() is None


def test_a_value_in_the_middle_is_read_to_its_end() -> None:
    rewriter = Rewriter("see {'a': 1}, or not", 4)

    assert rewriter.rewrite() == '{"a":1}'
    assert rewriter.at == 12


@given(OBJECTS, STYLES)
def test_a_rewritten_text_means_what_the_strict_text_means(
    value: dict[str, Any], style: Style
) -> None:
    strict = Rewriter(write(value, style)).rewrite()

    assert strict is not None
    assert json.loads(strict) == value


@given(value=OBJECTS, style=STYLES, data=st.data())
def test_no_proper_prefix_of_an_object_is_ever_an_object(
    value: dict[str, Any], style: Style, *, data: st.DataObject
) -> None:
    text = write(value, style)
    for end in {data.draw(st.integers(0, len(text) - 1)) for _ in range(4)}:
        assert Rewriter(text[:end]).rewrite() is None


@given(st.text(alphabet="PQZ 019.:_", max_size=8).map(lambda path: path.replace("P", "\\P")))
def test_backslashes_that_are_no_escapes_are_kept_as_they_are(path: str) -> None:
    strict = Rewriter(f'["{path}"]').rewrite()

    assert strict is not None
    assert json.loads(strict) == [path]


@given(OBJECTS)
def test_strict_json_is_never_changed(value: dict[str, Any]) -> None:
    rewriter = Rewriter(json.dumps(value))
    strict = rewriter.rewrite()

    assert strict is not None
    assert json.loads(strict) == value
    assert not rewriter.repairs

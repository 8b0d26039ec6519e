"""Answers that are one object: calls or a reply."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recut import cut_text, every_cutting
from wholecall.dialects.grammars.json_calls import StringDecoder
from wholecall.dialects.rescue import TextReader, parse_text
from wholecall.events import Grew

CALL = '{"name": "find", "arguments": {"query": "x"}}'
ANSWERS: list[tuple[str, str, str]] = [
    ("a call", f'{{"calls": [{CALL}]}}', 'find {"query": "x"}'),
    ("calls", f'{{"calls":[{CALL},{CALL}]}}', 'find {"query": "x"} | find {"query": "x"}'),
    ("a reply", '{"reply": "It \\"rains\\"\\n."}', '\'It "rains"\n.\''),
    ("white space around it is no text", ' \n{ "reply" : "a" }\n\n', "' \na'"),
    ("a reply that is an object", '{"reply": {"a": [1, "}"]}}', '\'{"a": [1, "}"]}\''),
    ("a reply that is a number", '{"reply": 12}', "'12'"),
    ("an empty reply", '{"reply": ""}', ""),
    ("no calls", '{"calls": []}', ""),
    ("both", f'{{"reply": "a", "calls": [{CALL}]}}', "find {\"query\": \"x\"} | 'a'"),
    ("something else beside", '{"reply": "a", "why": {"b": 1}, "c": 2}', "'a'"),
    ("another object is text", '{"a": 1}', '\'{"a": 1}\''),
    ("a list is text", "[1]", "'[1]'"),
    ("text is text", "It rains.", "'It rains.'"),
    ("an unknown tool", '{"calls": [{"name": "f", "arguments": {}}]}', "!unknown_tool f"),
    ("cut before the name", '{"calls": [{"na', "!truncated -"),
    ("cut behind the key", '{"calls":', "!truncated -"),
    ("cut in the arguments", f'{{"calls": [{CALL[:-4]}', "!truncated find"),
    ("cut between two calls", f'{{"calls": [{CALL}, {{"na', 'find {"query": "x"} | !truncated -'),
    ("cut in a reply", '{"reply": "It ra', "'It ra'"),
    ("cut in an escape", '{"reply": "It \\u00', "'It '"),
    ("broken calls are not shown", '{"calls": "find"} and more', "!bad_markup -"),
    ("nothing behind a broken object is shown", f'{{"calls": [{CALL}] oops', 'find {"query": "x"}'),
    ("nor behind a key without a value", '{"reply" "a"}', ""),
    ("in a fence", f'```json\n{{"calls": [{CALL}]}}\n```', 'find {"query": "x"}'),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS]
)
def test_an_answer_is_calls_or_a_reply(*, text: str, said: str, say: Callable[..., str]) -> None:
    assert say("constrained", text) == said


def test_a_reply_streams() -> None:
    reader = TextReader("constrained")
    pieces = [reader.feed(piece) for piece in ['{"reply": "It', " rai", "ns\\", 'n."', "}"]]
    texts = [[event.text for event in events if hasattr(event, "text")] for events in pieces]
    assert texts == [["It"], [" rai"], ["ns"], ["\n", "."], []]


def test_arguments_stream() -> None:
    reader = TextReader("constrained")
    reader.feed('{"calls": [{"name": "find", "arguments": {"que')
    assert [event for event in reader.feed('ry": "x') if isinstance(event, Grew)]


STRINGS: list[tuple[str, str]] = [
    (r"\ud83d\ude00", "😀"),
    (r"\ud83d", "\ufffd"),
    (r"\ud83dx", "\ufffdx"),
    (r"\ud83d\n", "\ufffd\n"),
    (r"\ud83d\u0041", "\ufffdA"),
    (r"\ud83d\ud83d\ude00", "\ufffd😀"),
    (r"\ude00", "\ufffd"),
    (r"\\u0041", "\\u0041"),
    (r"\/\b\f\n\r\t\"\\", '/\b\f\n\r\t"\\'),
    (r"\x \u12G4", r"\x \u12G4"),
    ("a\nb", "a\nb"),
]


def decode(pieces: list[str]) -> str:
    decoded: list[str] = []
    decoder = StringDecoder(decoded.append)
    for piece in pieces:
        decoder.put(piece)
    return "".join(decoded)


@pytest.mark.parametrize(("inside", "text"), STRINGS)
def test_a_string_is_decoded_however_it_is_cut(inside: str, text: str) -> None:
    for pieces in every_cutting(f'"{inside}"'):
        assert decode(pieces) == text


@given(
    text=st.text(st.characters(exclude_categories=["Cs"])),
    escaped=st.booleans(),
    seed=st.integers(0, 9),
)
def test_every_string_comes_back(*, text: str, escaped: bool, seed: int) -> None:
    written = json.dumps(text, ensure_ascii=escaped)
    assert decode(cut_text(written, seed or None)) == text
    assert parse_text("constrained", f'{{"reply": {written}}}').text == text

"""Gemini's calls without ids that a chunk brings again."""

from __future__ import annotations

from typing import Any

import pytest

from protocols.forms import decode
from wholecall.events import CallDelta
from wholecall.protocols.gemini.stream import Decoder

SIGNATURE = "c2lnbmF0dXJl" * 8


def call(name: str, signature: str = "", **fields: Any) -> dict[str, Any]:
    part = {"functionCall": {"name": name, "args": {"a": 1}, **fields}}
    return {**part, "thoughtSignature": signature} if signature else part


def chunk(*parts: Any, tokens: Any = None, index: int = 0) -> dict[str, Any]:
    usage = {} if tokens is None else {"usageMetadata": {"candidatesTokenCount": tokens}}
    return {"candidates": [{"content": {"parts": list(parts)}, "index": index}], **usage}


A, B, C = call("a"), call("b"), call("c")
SIGNED = call("a", SIGNATURE)
OTHER = call("a", SIGNATURE.swapcase())

# what holds, the chunks, the names of the calls that are read
ROWS = [
    ("two equal calls", [chunk(A), chunk(A)], "aa"),
    ("two equal calls in a chunk", [chunk(A, A)], "aa"),
    ("all parts so far, and nothing that tells", [chunk(A), chunk(A, B)], "aab"),
    ("the signature again", [chunk(SIGNED), chunk(SIGNED)], "a"),
    ("the signature again, on and on", [chunk(SIGNED)] * 5, "a"),
    ("all parts so far", [chunk(SIGNED), chunk(SIGNED, B), chunk(SIGNED, B, C)], "abc"),
    ("the first ones of them", [chunk(SIGNED, B), chunk(SIGNED)], "ab"),
    ("the signature, and an equal call without one", [chunk(SIGNED), chunk(SIGNED, A)], "aa"),
    ("another signature", [chunk(SIGNED), chunk(OTHER)], "aa"),
    ("a word for a signature", [chunk(call("a", "skip")), chunk(call("a", "skip"))], "aa"),
    ("no more tokens", [chunk(A, tokens=9), chunk(A, tokens=9)], "a"),
    ("no more tokens, the last ones", [chunk(A, B, tokens=9), chunk(B, tokens=9)], "ab"),
    ("more tokens", [chunk(A, tokens=9), chunk(A, tokens=18)], "aa"),
    ("no tokens", [chunk(A, tokens=0), chunk(A, tokens=0)], "aa"),
    ("tokens that are none", [chunk(A, tokens="9"), chunk(A, tokens="9")], "aa"),
    ("another call with as many tokens", [chunk(A, tokens=9), chunk(A, B, tokens=9)], "aab"),
    ("text between them", [chunk(SIGNED), chunk({"text": "so"}), chunk(None, SIGNED)], "a"),
    ("other candidates", [chunk(SIGNED), chunk(SIGNED, index=1)], "aa"),
    ("ids", [chunk(call("a", id="1"), tokens=9), chunk(call("a", id="2"), tokens=9)], "aa"),
    ("ids that are null", [chunk(call("a", id=None), tokens=9)] * 2, "a"),
    ("a call without a name", [chunk({"functionCall": {"args": {"a": 1}}}, tokens=9)] * 2, "??"),
    ("very many of them", [chunk(*[A] * 65, tokens=9), chunk(A, tokens=9)], "a" * 66),
]


@pytest.mark.parametrize(("chunks", "names"), [row[1:] for row in ROWS], ids=[r[0] for r in ROWS])
def test_a_call_is_read_once(chunks: list[Any], names: str) -> None:
    deltas = [getattr(each, "value", each) for each in decode(Decoder(), chunks)]
    calls = [each for each in deltas if isinstance(each, CallDelta)]
    assert "".join(each.name or "?" for each in calls) == names


def test_objects_in_snake_case_are_known() -> None:
    part = {"function_call": {"name": "a", "args": {}}, "thought_signature": SIGNATURE.encode()}
    again = {"candidates": [{"content": {"parts": [part]}}]}
    assert (
        len([each for each in decode(Decoder(), [again, again]) if isinstance(each, CallDelta)])
        == 1
    )

"""Large calls that are meant honestly pass, in full: the limits are for others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wholecall.arguments.compiled_schema import SCHEMA_BYTES, Compiled, prepare
from wholecall.assembly.assembler import Assembler
from wholecall.events import Call, CallDelta, Hint, HintGiven, Released, Repeated, Terminated
from wholecall.messages import ToolSpec

STRING: dict[str, Any] = {"type": "string"}
PAGE = 4096


def release(arguments: Any, schema: dict[str, Any], *, piece: int = 10**9) -> Call:
    """Send arguments in pieces; return the call that they become."""
    assembler = Assembler([ToolSpec("tool", schema)])
    text = json.dumps(arguments)
    assembler.feed(CallDelta(slot=0, id="1", name="tool", opens=True))
    for at in range(0, len(text), piece):
        assembler.feed(CallDelta(slot=0, arguments=text[at : at + piece]))
    assembler.feed(HintGiven(Hint.TOOL_CALLS, "tool_calls"))
    assembler.feed(Terminated())
    [released] = [event for event in assembler.end() if isinstance(event, Released)]
    return released.call


# ── Files ───────────────────────────────────────────────────────────────────────────

WRITE_FILE = {
    "type": "object",
    "properties": {"path": STRING, "content": STRING},
    "required": ["path", "content"],
}
CODE = 'def show(x):\n    print({"a": [x, "y"], "b": x})\n'

# what holds, content
FILES = [
    ("code", CODE * 65_000),
    ("plain text", "x" * 4_100_000),
    ("a table of numbers", "1,2,3,[4],{5}\n" * 270_000),
    ("letters that are escaped", "é" * 690_000),
    ("pictures that are escaped as pairs", "😀" * 340_000),
    ("paths with backslashes", "C:\\new\\" * 400_000),
]


@pytest.mark.parametrize("piece", [PAGE, 10**9])
@pytest.mark.parametrize("content", [r[1] for r in FILES], ids=[r[0] for r in FILES])
def test_a_file_of_four_megabytes_is_written(content: str, *, piece: int) -> None:
    call = release({"path": "a.txt", "content": content}, WRITE_FILE, piece=piece)

    assert call.arguments["content"] == content


# ── Tables ──────────────────────────────────────────────────────────────────────────

ROW: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "name": STRING,
        "price": {"type": "number", "minimum": 0},
        "kind": {"anyOf": [{"const": word} for word in "abcdefghij"]},
        "note": {"anyOf": [STRING, {"type": "null"}]},
    },
    "required": ["id", "name"],
    "additionalProperties": False,
}
TABLE = {"type": "object", "properties": {"rows": {"type": "array", "items": ROW}}}


def make_rows(*, wrong: int) -> list[dict[str, Any]]:
    """Ten thousand rows, of which so many have an id that is a text."""
    rows: list[dict[str, Any]] = [
        {"id": n, "name": f"n{n}", "price": n / 4, "kind": "j", "note": None} for n in range(10_000)
    ]
    for row in rows[:: 10_000 // wrong] if wrong else ():
        row["id"] = str(row["id"])
    return rows


@pytest.mark.parametrize("wrong", [0, 10, 1000])
def test_a_table_of_ten_thousand_rows_is_read_in_full(*, wrong: int) -> None:
    call = release({"rows": make_rows(wrong=wrong)}, TABLE)

    assert call.arguments == {"rows": make_rows(wrong=0)}
    assert len(call.coercions) >= wrong


def test_a_table_that_is_sent_as_a_text_is_read_too() -> None:
    rows = make_rows(wrong=0)[:2000]

    assert release({"rows": json.dumps(rows)}, TABLE).arguments == {"rows": rows}


# ── Schemas ─────────────────────────────────────────────────────────────────────────


def test_a_tool_with_three_hundred_parameters_is_used() -> None:
    remark = "What this parameter means, and when it should be given. " * 3
    kinds = [{"type": "integer"}, STRING, {**STRING, "pattern": "^[a-z0-9-]{1,40}$"}]
    schema = {
        "type": "object",
        "properties": {
            f"parameter_{n}": {**kinds[n % 3], "description": remark[:140]} for n in range(300)
        },
        "required": [f"parameter_{n}" for n in range(100)],
    }
    arguments: dict[str, Any] = {f"parameter_{n}": (n, "x", "y")[n % 3] for n in range(300)}

    assert 0.9 * SCHEMA_BYTES < len(json.dumps(schema)) < SCHEMA_BYTES
    assert isinstance(prepare(schema), Compiled)
    assert release(arguments, schema).arguments == arguments
    assert release({**arguments, "parameter_0": "0"}, schema).arguments == arguments


# ── Calls of one id ─────────────────────────────────────────────────────────────────


def test_many_large_calls_that_share_an_id_are_told_apart() -> None:
    assembler = Assembler()
    row = ",".join(["1"] * 20_000)
    calls = [f'{{"row":[{row}],"last":{number % 48}}}' for number in range(64)]
    for slot, arguments in enumerate(calls):
        assembler.feed(CallDelta(slot=slot, id="x", name="tool", opens=True, arguments=arguments))
    assembler.feed(HintGiven(Hint.TOOL_CALLS, "tool_calls"))
    assembler.feed(Terminated())
    events = assembler.end()
    released = [event.call for event in events if isinstance(event, Released)]
    repeated = [(event.number, event.of) for event in events if isinstance(event, Repeated)]
    assert [call.arguments["last"] for call in released] == list(range(48))
    assert repeated == [(number + 48, number) for number in range(16)]

"""Tools that are not plain functions are functions elsewhere, and keep their form at home."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from tool_rows import (
    ANSWERS,
    CHAT,
    MESSAGES,
    PROTOCOLS,
    RESPONSES,
    ROWS,
    Row,
    ask,
    check_answers,
    function_call,
    history_of,
    offered,
    told,
)
from wholecall.events import Event
from wholecall.messages import Choice, Mode, Request, Special, ToolKind, ToolSpec
from wholecall.protocols.reader import Reader
from wholecall.protocols.registry import (
    decode_request,
    encode_answer,
    encode_request,
    make_encoder,
)
from wholecall.protocols.response_base import ResponseHead, ResponseStyle
from wholecall.protocols.tool_kinds import (
    WireNames,
    express_choice,
    kinds_of,
    name_tools,
    read_input,
    settle_choice,
    text_tool,
)

EVERY = [
    pytest.param(row, other, id=f"{row.says} on {other}") for row in ROWS for other in PROTOCOLS
]


def read(row: Row, **more: Any) -> Request:
    return decode_request(PROTOCOLS[row.client], ask(row.client, row.tool, **more))


def answers(row: Row, events: Iterable[Event], *, request: Request, live: bool) -> list[Any]:
    """The events as the client gets them: whole, and as a stream."""
    protocol, events = PROTOCOLS[row.client], list(events)
    head = ResponseHead(id="r", model="m", kinds=kinds_of(request.tools, protocol))
    encoder = make_encoder(protocol, head, style=ResponseStyle(live=live))
    frames = [encoder.begin(), *map(encoder.encode, events), encoder.finish()]
    whole = encode_answer(protocol, events, head=head)
    return [(200, whole, None), (200, b"".join(frames).decode(), None)]


@pytest.mark.parametrize("live", [False, True])
@pytest.mark.parametrize(("row", "upstream"), EVERY)
def test_a_call_comes_back_in_its_own_form(row: Row, upstream: str, *, live: bool) -> None:
    request = read(row)
    home = upstream == row.client
    entry = row.call if home else function_call(upstream, row.name, arguments=row.arguments)
    whole, events = ANSWERS[upstream](entry)
    reader = Reader(PROTOCOLS[upstream], request.tools)
    whole_events = [*reader.feed_response(whole), *reader.end()]
    check_answers(row, answers(row, whole_events, request=request, live=live))
    reader = Reader(PROTOCOLS[upstream], request.tools)
    lines = [each if isinstance(each, str) else json.dumps(each) for _, each in events]
    fed = [event for line in lines for event in reader.feed(f"data: {line}\n\n")]
    check_answers(row, answers(row, [*fed, *reader.end()], request=request, live=live))


@pytest.mark.parametrize(("row", "upstream"), EVERY)
def test_a_history_goes_out(row: Row, upstream: str) -> None:
    body = ask(row.client, row.tool, *history_of(row))
    request = decode_request(PROTOCOLS[row.client], body)
    sent = encode_request(PROTOCOLS[upstream], request)
    if upstream == row.client:
        key = "input" if row.client == RESPONSES else "messages"
        assert (sent["tools"], sent[key]) == (body["tools"], body[key])
        return
    name, arguments, text = told(upstream, sent)
    assert (name, {**row.arguments, **arguments}) == (row.name, arguments)
    assert row.told in json.dumps(text).replace("\\n", "\n")
    assert offered(upstream, sent)[0][0] == row.name


@pytest.mark.parametrize("row", ROWS, ids=[row.says for row in ROWS])
def test_a_history_of_ours_is_written_in_the_form_of_its_tools(row: Row) -> None:
    body = ask(row.client, row.tool, *history_of(row))
    request = decode_request(PROTOCOLS[row.client], body)
    messages = tuple(replace(each, native=None) for each in request.messages)
    sent = encode_request(PROTOCOLS[row.client], replace(request, messages=messages))
    _, called, result = sent["input" if row.client == RESPONSES else "messages"]
    wire = {
        CHAT: lambda: called["tool_calls"][0],
        RESPONSES: lambda: called,
        MESSAGES: lambda: called["content"][0],
    }[row.client]()
    assert {name: wire[name] for name in row.call} == row.call
    if row.client == RESPONSES:
        assert result["type"] == row.result["type"]
        assert "call_1" in (result.get("call_id"), result.get("id"))


# ── Names ───────────────────────────────────────────────────────────────────────────


def in_space(namespace: str, name: str, *, kind: str = "function") -> ToolSpec:
    return ToolSpec(name, kind=ToolKind("p", kind, name, namespace))


NAMES: list[tuple[str, list[ToolSpec], list[str]]] = [
    ("plain functions keep theirs", [ToolSpec("f"), ToolSpec("a.b")], ["f", "a.b"]),
    ("a namespace comes first", [in_space("a", "f"), in_space("b", "f")], ["a__f", "b__f"]),
    (
        "a plain function has the right of way, wherever it stands",
        [in_space("a", "f"), ToolSpec("a__f")],
        ["a__f_7990965a", "a__f"],
    ),
    (
        "two pairs may join to one name",
        [in_space("a", "b__c"), in_space("a__b", "c")],
        ["a__b__c", "a__b__c_32ce683c"],
    ),
    ("what no upstream accepts is replaced", [in_space("a.b", "f g")], ["a_b__f_g"]),
    (
        "a long name is cut",
        [in_space("n" * 60, "first"), in_space("n" * 60, "second")],
        ["n" * 55 + "_abc89265", "n" * 55 + "_838c201d"],
    ),
    ("what comes twice is one tool", [in_space("a", "f"), in_space("a", "f")], ["a__f"]),
    ("also beside a plain function", [ToolSpec("f"), in_space("", "f")], ["f"]),
    ("a tool without a name has its type", [in_space("", "", kind="shell")], ["shell"]),
    (
        "or another, if that is taken",
        [ToolSpec("shell"), in_space("", "", kind="shell")],
        ["shell", "shell_0011d4a1"],
    ),
]


@pytest.mark.parametrize(("specs", "names"), [row[1:] for row in NAMES], ids=[r[0] for r in NAMES])
def test_names(specs: list[ToolSpec], names: list[str]) -> None:
    named = name_tools(specs)
    assert [spec.name for spec in named] == names
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 64
    assert name_tools(named) == named


FOUND: list[tuple[str, tuple[str, str, str], str]] = [
    ("a tool by namespace and name", ("function", "f", "a"), "a__f"),
    ("a plain function", ("function", "f", ""), "f"),
    ("not a plain function for one of a namespace", ("function", "f", "b"), "b.f"),
    ("but for one of a namespace that the request does not have", ("function", "f", "x"), "f"),
    ("an unknown one there", ("function", "g", "x"), "x.g"),
    ("a name that is unique without its namespace", ("function", "only", ""), "a__only"),
    ("not one that is not", ("function", "twice", ""), "twice"),
    ("an unknown one", ("function", "x", ""), "x"),
    ("a tool by its type", ("shell", "", ""), "shell"),
    ("an unknown type", ("local_shell", "", ""), "local_shell"),
]


@pytest.mark.parametrize(("key", "name"), [row[1:] for row in FOUND], ids=[r[0] for r in FOUND])
def test_a_called_tool_is_found(key: tuple[str, str, str], name: str) -> None:
    pairs = [("a", "f"), ("a", "only"), ("a", "twice"), ("b", "twice")]
    specs = [ToolSpec("f"), *(in_space(*pair) for pair in pairs), in_space("", "", kind="shell")]
    names = WireNames(name_tools(specs), "p")
    kind, wire, namespace = key
    assert names.find(kind, wire, namespace=namespace) == name
    assert [names.is_shared(each) for each in ("f", "twice", "only", None)] == [1, 1, 0, 0]
    assert (names.has("shell"), names.has("custom")) == (True, False)


def test_where_no_tools_are_known_a_name_stays_as_it_is() -> None:
    assert WireNames().find("function", "f", namespace="a") == "f"


# ── Free text ───────────────────────────────────────────────────────────────────────

KIND = ToolKind("p", "custom", "t")
GRAMMARS: list[tuple[str, str, str, str | None]] = [
    ("any text", "", "", None),
    ("a grammar that only the model reads", "lark", "start: /x/", None),
    ("an expression in linear time", "regex", "a+|b", "^(?:a+|b)$"),
    ("an expression that looks back", "regex", r"(a)\1", None),
    ("an expression that is none", "regex", "(", None),
]


@pytest.mark.parametrize(
    ("syntax", "grammar", "pattern"), [row[1:] for row in GRAMMARS], ids=[r[0] for r in GRAMMARS]
)
def test_grammars(syntax: str, grammar: str, *, pattern: str | None) -> None:
    spec = text_tool(KIND, description="Says it.", syntax=syntax, grammar=grammar)
    assert spec.parameters["properties"]["input"].get("pattern") == pattern
    assert spec.description.startswith("Says it.")
    assert grammar in spec.description
    assert (f"({syntax})" in spec.description) == bool(grammar)


@pytest.mark.parametrize(
    ("arguments", "text"), [({"input": "a"}, "a"), ({}, ""), ({"input": ["é"]}, '["é"]')]
)
def test_the_text_of_a_call(arguments: Any, text: str) -> None:
    assert read_input(arguments) == text


# ── The choice ──────────────────────────────────────────────────────────────────────

TOOLS = name_tools([ToolSpec("f"), in_space("a", "g"), in_space("", "", kind="shell")])
CHOICES: list[tuple[str, Choice, Choice]] = [
    ("all", Choice(Mode.NONE), Choice(Mode.NONE)),
    ("a function", Choice(Mode.REQUIRED, ("f",)), Choice(Mode.REQUIRED, ("f",))),
    (
        "one in a namespace",
        Choice(Mode.REQUIRED, (), False, (Special("function", "g", "a"),)),
        Choice(Mode.REQUIRED, ("a__g",), False),
    ),
    (
        "one that goes by its type, and one of the provider's",
        Choice(Mode.AUTO, (), True, (Special("shell"), Special("web_search"))),
        Choice(Mode.AUTO, ("shell",), True, (Special("web_search"),)),
    ),
]


@pytest.mark.parametrize(
    ("wire", "choice"), [row[1:] for row in CHOICES], ids=[row[0] for row in CHOICES]
)
def test_choices(wire: Choice, choice: Choice) -> None:
    assert settle_choice(wire, TOOLS, protocol="p") == choice
    expressed = express_choice(choice, kinds_of(TOOLS, "p"))
    assert set(expressed.tools) == set(wire.tools)
    assert express_choice(choice, kinds_of(TOOLS, "q")) == choice

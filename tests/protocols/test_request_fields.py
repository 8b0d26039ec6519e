from dataclasses import replace
from typing import Any

import pytest

from wholecall.errors import UnreadableRequest
from wholecall.events import Text
from wholecall.messages import Message, Native, PastCall, Request, Role, ToolSpec
from wholecall.protocols.openai_chat.request import write_tool
from wholecall.protocols.registry import decode_request
from wholecall.protocols.request_fields import (
    define_tool,
    find_foreign,
    list_tools,
    name_calls,
    omit_foreign,
    read_tools,
    tool_names,
)

CHAT = "openai-chat"
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
SPEC = ToolSpec("f", SCHEMA, "does f")
PLAIN = write_tool(SPEC)
STRICT = {"type": "function", "function": {**PLAIN["function"], "strict": True}}
FUNCTIONS = (None, "function")
SEARCH = {"type": "web_search"}


def ask(*tools: ToolSpec, **fields: Any) -> Request:
    return Request(model="m", messages=(), tools=tools, **fields)


@pytest.mark.parametrize(
    ("parameters", "schema"),
    [
        ({}, {"type": "object", "properties": {}}),
        ({"properties": {}}, {"type": "object", "properties": {}}),
        (SCHEMA, SCHEMA),
    ],
)
def test_a_schema_speaks_of_an_object(parameters: Any, schema: Any) -> None:
    assert define_tool(ToolSpec("f", parameters), "schema") == {"name": "f", "schema": schema}


def test_a_tool_goes_out_as_the_client_defined_it() -> None:
    read = read_tools([PLAIN, STRICT, SEARCH], CHAT, functions=FUNCTIONS, write=write_tool)
    assert read.specs == (SPEC, replace(SPEC, strict=True))
    assert read.natives == (Native(CHAT, SEARCH),)
    assert read.said == (PLAIN, STRICT, SEARCH)
    request = ask(SPEC, native_tools=read.natives, rest=Native(CHAT, {"tools": [STRICT]}))
    assert list_tools(request, CHAT, write=write_tool) == [STRICT, SEARCH]
    assert list_tools(request, "anthropic", write=write_tool) == [PLAIN]


@pytest.mark.parametrize(
    "changed", [ToolSpec("f", SCHEMA, "does g"), ToolSpec("f", {}, "does f"), ToolSpec("g", SCHEMA)]
)
def test_but_not_if_it_is_another_tool_by_now(changed: ToolSpec) -> None:
    request = ask(changed, rest=Native(CHAT, {"tools": [STRICT]}))
    assert list_tools(request, CHAT, write=write_tool) == [write_tool(changed)]


def test_only_some_may_be_offered() -> None:
    request = ask(SPEC, ToolSpec("g"))
    assert list_tools(request, CHAT, write=write_tool, only=["f"]) == [PLAIN]
    assert list_tools(request, CHAT, write=write_tool, only=[]) == []


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("weird.tool", "weird.tool"),
        ("weird.tool:0", "weird_tool_0"),
        ("", "unknown"),
        ("ü" * 70, "_" * 64),
        ("a-b_c", "a-b_c"),
    ],
)
def test_the_name_of_a_call_is_legal_unless_it_was_offered(name: str, written: str) -> None:
    offer = (ToolSpec("weird.tool"),)
    said = Message(Role.ASSISTANT, (Text("t"), PastCall(id="a", name=name, arguments={})))
    request = Request(model="m", tools=offer, messages=(said,))
    [message] = name_calls(request).messages
    assert message.parts == (Text("t"), PastCall(id="a", name=written, arguments={}))
    assert request.messages == (said,)


@pytest.mark.parametrize(
    ("definition", "param"),
    [
        (5, "tools[1]"),
        ({"type": "function", "function": {"name": 5}}, "tools[1].function.name"),
        ({"type": "function", "function": 5}, "tools[1].function"),
        ({"type": "function", "function": {"description": "d"}}, "tools[1].function.name"),
        (
            {"type": "function", "function": {"name": "f", "parameters": 5}},
            "tools[1].function.parameters",
        ),
        ({}, "tools[1].name"),
    ],
)
def test_a_definition_that_cannot_be_read_is_named(definition: Any, param: str) -> None:
    with pytest.raises(UnreadableRequest) as caught:
        read_tools([PLAIN, definition], CHAT, functions=FUNCTIONS, write=write_tool)
    assert caught.value.param == param
    assert "tools[0]" not in str(caught.value)


def test_no_tools_are_none() -> None:
    read = read_tools(None, CHAT, functions=FUNCTIONS, write=write_tool)
    assert (read.specs, read.natives, read.said, read.names) == ((), (), (), frozenset())


def test_every_tool_has_a_name_to_choose_it_by() -> None:
    natives = (
        Native("anthropic", {"type": "bash_20250124", "name": "bash"}),
        Native(CHAT, {"type": "custom", "custom": {"name": "shout"}}),
        Native(CHAT, SEARCH),
    )
    assert tool_names(ask(SPEC, native_tools=natives)) == {"f", "bash", "shout", "web_search"}


def test_items_that_only_their_provider_knows_are_named() -> None:
    body = {
        "model": "m",
        "input": [
            {"role": "user", "content": "hi"},
            {"type": "compaction", "id": "cmp_1", "encrypted_content": "x"},
            {"id": "msg_1"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        ],
    }
    request = decode_request("openai-responses", body)
    expected = [("compaction", "cmp_1"), ("item_reference", "msg_1")]
    assert list(find_foreign(request, "anthropic", media={}).items) == expected
    assert find_foreign(request, "openai-responses", media={}).items == ()


def test_what_only_another_provider_can_read_is_named_and_omitted() -> None:
    file = {"type": "input_file", "file_id": "f"}
    approval = {"type": "mcp_approval_response", "approve": True}
    said = {"role": "user", "content": [{"type": "input_text", "text": "hi"}, file]}
    body = {"model": "m", "input": [said, approval, {"role": "user", "content": [{"a": 1}]}]}
    request = decode_request("openai-responses", body)
    assert find_foreign(request, "openai-responses", media={}).said == ()
    foreign = find_foreign(request, "gemini", media={})
    assert foreign.said == ("input_file", "mcp_approval_response", "content")
    [message] = omit_foreign(request, "gemini", media={}).messages
    assert message.parts == (Text("hi"),)
    assert omit_foreign(request, "openai-responses", media={}) == request

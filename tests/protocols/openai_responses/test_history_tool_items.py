"""Tools of Responses with forms of their own: definitions, items of the input, calls and ends."""

from __future__ import annotations

from typing import Any

import pytest

from tool_rows import AGENTS, DIGITS, PATCH, SEARCH, SPAWN
from wholecall.errors import InvalidChoice, UnreadableRequest
from wholecall.events import Event, ProviderBlock, Reason, Rejected, Released
from wholecall.messages import CallResult, Native, PastCall, Request, Role
from wholecall.protocols.openai_responses.history import BY_RESULT, BY_TYPE
from wholecall.protocols.openai_responses.request import decode, encode
from wholecall.protocols.reader import Reader
from wholecall.protocols.registry import encode_request
from wholecall.protocols.request_fields import find_foreign, speak

PROTOCOL = "openai-responses"
USER = {"type": "message", "role": "user", "content": "hi"}
PLAIN = {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False}
HOSTED = {"type": "web_search"}


def read(*items: Any, **fields: Any) -> Request:
    return decode({"model": "m", "input": [USER, *items], **fields})


def more_tools(*tools: Any) -> dict[str, Any]:
    return {"type": "additional_tools", "role": "developer", "tools": list(tools)}


# ── Definitions ─────────────────────────────────────────────────────────────────────

CLIENT_RUN: list[tuple[str, Any, list[str]]] = [
    (
        "a namespace holds tools",
        {**AGENTS, "tools": [SPAWN, DIGITS]},
        ["agents__spawn", "agents__dial"],
    ),
    ("or none", {"type": "namespace", "name": "n"}, []),
    ("a shell without an environment is the client's", {"type": "shell"}, ["shell"]),
    ("and so is a local one", {"type": "shell", "environment": {"type": "local"}}, ["shell"]),
    ("a search may be the client's", SEARCH, ["tool_search"]),
    ("it may say nothing of its arguments", {**SEARCH, "parameters": None}, ["tool_search"]),
    ("a text is not a grammar", {**PATCH, "format": {"type": "text"}}, ["apply"]),
]


@pytest.mark.parametrize(
    ("tool", "names"), [r[1:] for r in CLIENT_RUN], ids=[r[0] for r in CLIENT_RUN]
)
def test_the_client_runs(tool: Any, names: list[str]) -> None:
    request = read(tools=[tool])
    assert [spec.name for spec in request.tools] == names
    assert request.native_tools == ()


def test_a_function_is_told_what_its_namespace_is_for() -> None:
    about = {"name": "agents", "description": "All agents."}
    spawn = {**SPAWN, "description": "Begin one."}
    tools = [spawn, {**SPAWN, "name": "end", "description": ""}, DIGITS]
    request = read(tools=[{"type": "namespace", **about, "tools": tools}])
    began, ended, dialled = (spec.description for spec in request.tools)
    assert (began, ended) == ("Begin one.\nAll agents.", "All agents.")
    assert dialled.endswith("\nAll agents.")
    written = encode_request("openai-responses", request)
    assert written["tools"] == [{"type": "namespace", **about, "tools": tools}]


PROVIDER_RUN: list[tuple[str, Any, tuple[str, ...]]] = [
    ("a web search", HOSTED, ("web_search",)),
    (
        "a shell in a container",
        {"type": "shell", "environment": {"type": "container_auto"}},
        ("shell",),
    ),
    ("its own search, which is not missed elsewhere", {"type": "tool_search"}, ()),
]


@pytest.mark.parametrize(
    ("tool", "missed"), [r[1:] for r in PROVIDER_RUN], ids=[r[0] for r in PROVIDER_RUN]
)
def test_the_provider_runs(tool: Any, missed: tuple[str, ...]) -> None:
    request = read(tools=[tool])
    assert request.tools == ()
    assert request.native_tools == (Native(PROTOCOL, tool),)
    assert find_foreign(request, PROTOCOL, media={}).tools == ()
    assert find_foreign(request, "anthropic", media={}).tools == missed


REFUSED: list[tuple[Any, str]] = [
    ({"type": "custom"}, "tools[0].name"),
    ({"type": "namespace", "tools": []}, "tools[0].name"),
    ({"type": "namespace", "name": "n", "tools": 1}, "tools[0].tools"),
    ({"type": "namespace", "name": "n", "tools": [1]}, "tools[0].tools[0]"),
    ({"type": "namespace", "name": "n", "tools": [{"name": 1}]}, "tools[0].tools[0].name"),
    ({**SEARCH, "parameters": 1}, "tools[0].parameters"),
]


@pytest.mark.parametrize(("tool", "param"), REFUSED)
def test_what_cannot_be_read_is_named(tool: Any, param: str) -> None:
    with pytest.raises(UnreadableRequest) as caught:
        read(tools=[tool])
    assert caught.value.param == param


def test_tools_keep_their_order() -> None:
    tools = [PATCH, HOSTED, PLAIN, AGENTS, {"type": "image_generation"}, SPAWN]
    assert encode(read(tools=tools))["tools"] == tools


def test_a_namespace_is_named_by_a_name() -> None:
    choice = {"type": "function", "name": "spawn", "namespace": 1}
    with pytest.raises(InvalidChoice, match="namespace"):
        read(tools=[AGENTS], tool_choice=choice)


# ── Tools in the input ──────────────────────────────────────────────────────────────


def test_items_bring_tools_along() -> None:
    found = {"type": "tool_search_output", "execution": "client", "call_id": "s", "tools": [PATCH]}
    brought = more_tools(SPAWN, AGENTS, HOSTED, PLAIN)
    request = read(brought, found, tools=[PLAIN])
    assert [spec.name for spec in request.tools] == ["f", "spawn", "agents__spawn", "apply"]
    assert find_foreign(request, "openai-chat", media={}).tools == ("web_search",)
    # At home they stay where they are, and are not listed twice.
    same = encode(request)
    assert (same["tools"], same["input"][1]) == ([PLAIN], brought)


def test_elsewhere_they_are_offered_and_nobody_says_anything() -> None:
    request = read(more_tools(SPAWN), tool_choice={"type": "function", "name": "spawn"})
    sent = encode_request("openai-chat", request)
    assert [tool["function"]["name"] for tool in sent["tools"]] == ["spawn"]
    assert sent["messages"] == [{"role": "user", "content": "hi"}]
    same = encode(request)
    assert "tools" not in same
    assert same["tool_choice"] == {"type": "function", "name": "spawn"}


# ── History ─────────────────────────────────────────────────────────────────────────

HISTORY: list[tuple[str, Any, Role, Any]] = [
    (
        "a call of a tool that is not offered any more",
        {"type": "function_call", "call_id": "a", "namespace": "n", "name": "g", "arguments": "{}"},
        Role.ASSISTANT,
        PastCall(id="a", name="n.g", arguments={}, extras={"namespace": "n"}),
    ),
    (
        "free text that is none",
        {"type": "custom_tool_call", "call_id": "a", "name": "c", "input": None},
        Role.ASSISTANT,
        PastCall(id="a", name="c", arguments={"input": ""}),
    ),
    (
        "an action that is none",
        {"type": "shell_call", "call_id": "a", "id": "sh", "action": "ls"},
        Role.ASSISTANT,
        PastCall(id="a", name="shell", arguments={}, extras={"item_id": "sh"}),
    ),
    (
        "what the provider searched",
        {"type": "tool_search_call", "execution": "server"},
        Role.ASSISTANT,
        Native(PROTOCOL, {"type": "tool_search_call", "execution": "server"}),
    ),
    (
        "and found",
        {"type": "tool_search_output", "tools": []},
        Role.ASSISTANT,
        Native(PROTOCOL, {"type": "tool_search_output", "tools": []}),
    ),
]


@pytest.mark.parametrize(
    ("item", "role", "part"), [row[1:] for row in HISTORY], ids=[row[0] for row in HISTORY]
)
def test_past_items(item: Any, role: Role, *, part: Any) -> None:
    message = read(item, tools=[PLAIN]).messages[-1]
    assert (message.role, message.parts) == (role, (part,))


RESULTS: list[tuple[str, Any, str]] = [
    ("text of a shell", {"type": "shell_call_output", "output": "ok"}, "ok"),
    ("odd parts of one", {"type": "shell_call_output", "output": [1, {"stdout": "a"}]}, "a"),
    ("a good end has no words", {"type": "shell_call_output", "output": []}, ""),
    ("a patch that went well", {"type": "apply_patch_call_output"}, "completed"),
    (
        "one that did not",
        {"type": "apply_patch_call_output", "status": "failed", "output": "no"},
        "Error: no",
    ),
    (
        "no tools found",
        {"type": "tool_search_output", "execution": "client", "tools": [1]},
        "Tools that can be called now: no others.",
    ),
    (
        "nothing at all",
        {"type": "tool_search_output", "execution": "client"},
        "Tools that can be called now: no others.",
    ),
]


@pytest.mark.parametrize(
    ("item", "text"), [row[1:] for row in RESULTS], ids=[r[0] for r in RESULTS]
)
def test_past_results(item: Any, text: str) -> None:
    form = BY_RESULT[item["type"]]
    assert form.read_result is not None
    result = form.read_result(item)
    assert speak(result) == text


def test_results_are_written_in_the_form_of_the_tool() -> None:
    call = {"type": "shell_call", "call_id": "a", "action": {"commands": ["x"]}}
    output = {"type": "shell_call_output", "call_id": "a", "output": "bad"}
    [part] = read(call, output, tools=[{"type": "shell"}]).messages[-1].parts
    assert isinstance(part, CallResult)
    assert part.name == "shell"
    assert BY_TYPE["shell"].write_result(part.result)["output"][0]["stdout"] == "bad"


# ── Answers ─────────────────────────────────────────────────────────────────────────

CUSTOM_CALL = {"type": "custom_tool_call", "id": "i", "call_id": "c", "name": "dial", "input": "11"}
SAID = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "ok"}]}
SHELL_CALL = {"type": "shell_call", "id": "s", "call_id": "d", "action": {"commands": ["ls"]}}
OFFER = [
    DIGITS,
    {"type": "shell"},
    AGENTS,
    {**AGENTS, "name": "others"},
    {**PLAIN, "name": "spawn"},
]


def done(*items: Any, status: str = "completed", repeated: Any = None) -> list[Any]:
    reason = (
        {"incomplete_details": {"reason": "max_output_tokens"}} if status != "completed" else {}
    )
    events: list[Any] = []
    for at, item in enumerate(items):
        events += [
            {"type": "response.output_item.added", "output_index": at, "item": item},
            {"type": "response.output_item.done", "output_index": at, "item": item},
        ]
    output = list(items) if repeated is None else repeated
    response = {"status": status, "output": output, **reason}
    return [*events, {"type": f"response.{status}", "response": response}]


def feed(events: list[Any], tools: list[Any] | None = None) -> list[Event]:
    reader = Reader(PROTOCOL, read(tools=OFFER if tools is None else tools).tools)
    return [*(event for chunk in events for event in reader.feed(chunk)), *reader.end()]


def whole(*items: Any, status: str = "completed") -> list[Event]:
    reader = Reader(PROTOCOL, read(tools=OFFER).tools)
    return [*reader.feed_response(done(*items, status=status)[-1]["response"]), *reader.end()]


def called(events: list[Event]) -> list[tuple[str, Any]]:
    return [(e.call.name, dict(e.call.arguments)) for e in events if isinstance(e, Released)]


def refused(events: list[Event]) -> list[tuple[str | None, Reason]]:
    return [(e.name, e.reason) for e in events if isinstance(e, Rejected)]


DIALLED = ("dial", {"input": "11"})
LISTED = ("shell", {"commands": ["ls"]})


@pytest.mark.parametrize("status", ["completed", "incomplete"])
def test_what_something_follows_is_whole(status: str) -> None:
    for events in (
        feed(done(CUSTOM_CALL, SHELL_CALL, SAID, status=status)),
        whole(CUSTOM_CALL, SHELL_CALL, {"type": "web_search_call"}, status=status),
    ):
        assert called(events) == [DIALLED, LISTED]


def test_the_last_one_of_an_answer_that_was_cut_is_not_run() -> None:
    for events in (
        feed(done(SHELL_CALL, CUSTOM_CALL, status="incomplete")),
        whole(SHELL_CALL, CUSTOM_CALL, status="incomplete"),
    ):
        assert called(events) == [LISTED]
        assert refused(events) == [("dial", Reason.TRUNCATED)]


def test_one_that_says_it_is_incomplete_is_not_run() -> None:
    events = feed(done({**CUSTOM_CALL, "status": "incomplete"}, SAID))
    assert called(events) == []
    assert len(refused(events)) == 1


def test_what_only_the_end_lists_is_run_once() -> None:
    late = [SAID, CUSTOM_CALL, CUSTOM_CALL]
    assert called(feed(done(SAID, repeated=late))) == [DIALLED]
    nameless = {"type": "shell_call", "action": {"commands": ["ls"]}}
    assert called(whole(nameless, SAID)) == [LISTED]


def test_what_is_not_offered_is_passed_on() -> None:
    patch = {"type": "apply_patch_call", "call_id": "p", "operation": {}}
    events = feed(done(patch, {"type": "tool_search_call", "execution": "server"}))
    assert [type(e) for e in events if isinstance(e, ProviderBlock)] == [ProviderBlock] * 2
    assert called(events) == []


def arguments_done(**more: Any) -> dict[str, Any]:
    event = {"type": "response.function_call_arguments.done", "output_index": 0, "item_id": "i"}
    return {**event, "arguments": '{"task":"x"}', **more}


def test_a_name_alone_does_not_choose_among_namespaces() -> None:
    item = {"type": "function_call", "id": "i", "call_id": "c", "arguments": '{"task":"x"}'}
    ending = done({**item, "name": "spawn", "namespace": "others"})
    events = feed([arguments_done(name="spawn"), *ending[1:]])
    assert called(events) == [("others__spawn", {"task": "x"})]
    alone = feed([arguments_done(name="spawn"), *done(repeated=[])], [AGENTS])
    assert called(alone) == [("agents__spawn", {"task": "x"})]


def test_a_call_without_a_name_stays_without_one() -> None:
    item = {"type": "function_call", "id": "i", "call_id": "c", "arguments": "{}"}
    assert refused(feed(done(item))) == [(None, Reason.NO_NAME)]

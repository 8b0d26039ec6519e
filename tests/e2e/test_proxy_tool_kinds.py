"""Tools that are not plain functions, through the real proxy: each is a function elsewhere, and
comes back in its own form; in its own protocol it is checked like any other."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from proxy_server import Offer, in_loop, proxying, upstream
from tool_rows import (
    AGENTS,
    ANSWERS,
    CHAT,
    DIGITS,
    EDITOR,
    MESSAGES,
    PATCH,
    PATHS,
    RESPONSES,
    ROWS,
    Row,
    ask,
    check_answers,
    function_call,
    history_of,
    offered,
    told,
    tool_use,
)
from upstreams.fake_endpoint import Handler, Server, serving

CROSS = [
    pytest.param(row, other, id=f"{row.says} on {other}")
    for row in ROWS
    for other in PATHS
    if other != row.client
]


def answering(protocol: str, entry: dict[str, Any], *, server: list[Server]) -> Handler:
    whole, events = ANSWERS[protocol](entry)

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if not json.loads(server[0].bodies[-1]).get("stream"):
            return web.json_response(whole)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for name, event in events:
            head = f"event: {name}\n" if name else ""
            text = event if isinstance(event, str) else json.dumps(event)
            await response.write(f"{head}data: {text}\n\n".encode())
        return response

    return handler


async def through(
    row_client: str, protocol: str, *, entry: dict[str, Any], bodies: list[Any], **settings: Any
) -> tuple[list[tuple[int, Any, Any]], list[Any]]:
    """Send bodies through a proxy; return the answers, and what the upstream was sent."""
    box: list[Server] = []
    async with serving(answering(protocol, entry, server=box)) as behind:
        box.append(behind)
        base = behind.url if protocol == MESSAGES else f"{behind.url}/v1"
        models = {"m": upstream(f"{protocol}/m", base, **{"reask": 0, **settings})}
        async with proxying(Offer(models)) as served:
            answers = [await served.post(PATHS[row_client], body) for body in bodies]
        return answers, [json.loads(body) for body in behind.bodies]


# ── Across protocols ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("row", "protocol"), CROSS)
@in_loop
async def test_elsewhere_it_is_a_function(row: Row, protocol: str) -> None:
    entry = function_call(protocol, row.name, arguments=row.arguments)
    bodies = [
        ask(row.client, row.tool),
        ask(row.client, row.tool, stream=True),
        ask(row.client, row.tool, *history_of(row)),
    ]
    answers, sent = await through(row.client, protocol, entry=entry, bodies=bodies)
    check_answers(row, answers)
    assert {len(offered(protocol, body)) for body in sent[:2]} == {1}
    [name, schema] = offered(protocol, sent[0])[0]
    assert name == row.name
    assert schema["properties"].keys() >= row.arguments.keys()
    called, arguments, text = told(protocol, sent[2])
    assert (called, {**row.arguments, **arguments}) == (row.name, arguments)
    assert row.told in json.dumps(text).replace("\\n", "\n")
    assert "left out" not in json.dumps(sent)


CHOICES: dict[str, Callable[[str], Any]] = {
    CHAT: lambda name: {"type": "function", "function": {"name": name}},
    RESPONSES: lambda name: {"type": "function", "name": name},
    MESSAGES: lambda name: {"type": "tool", "name": name},
}
CHOSEN = [
    (ROWS[0], {"type": "function", "name": "spawn", "namespace": "agents"}),
    (ROWS[0], {"type": "function", "name": "spawn"}),
    (ROWS[1], {"type": "custom", "name": "apply"}),
    (ROWS[4], {"type": "shell"}),
    (ROWS[6], {"type": "apply_patch"}),
    (ROWS[8], {"type": "custom", "custom": {"name": "apply"}}),
    (ROWS[9], {"type": "tool", "name": "bash"}),
]


@pytest.mark.parametrize(("row", "choice"), CHOSEN)
@in_loop
async def test_it_can_be_demanded(row: Row, choice: Any) -> None:
    for protocol in PATHS:
        same = protocol == row.client
        entry = row.call if same else function_call(protocol, row.name, arguments=row.arguments)
        body = ask(row.client, row.tool, tool_choice=choice)
        [(status, answer, _)], [sent] = await through(
            row.client, protocol, entry=entry, bodies=[body]
        )
        assert status == 200, answer
        expected = choice if same else CHOICES[protocol](row.name)
        assert sent["tool_choice"] == expected or (same and "namespace" not in choice)


# ── In its own protocol ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("row", ROWS, ids=[row.says for row in ROWS])
@in_loop
async def test_at_home_it_goes_and_comes_as_it_is(row: Row) -> None:
    past = history_of(row)
    bodies = [ask(row.client, row.tool, *past, stream=stream) for stream in (False, True)]
    answers, sent = await through(row.client, row.client, entry=row.call, bodies=bodies)
    check_answers(row, answers)
    key = "input" if row.client == RESPONSES else "messages"
    for body in sent:
        assert body["tools"] == [row.tool]
        assert body[key][1:] == past


WRONG: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("arguments that break the schema", RESPONSES, AGENTS, {**ROWS[0].call, "arguments": "{}"}),
    ("a name of another namespace", RESPONSES, AGENTS, {**ROWS[0].call, "namespace": "others"}),
    ("text that the expression refuses", RESPONSES, DIGITS, {**ROWS[2].call, "input": "11x"}),
    ("an unknown tool of free text", RESPONSES, DIGITS, {**ROWS[2].call, "name": "other"}),
    (
        "no command",
        RESPONSES,
        {"type": "shell"},
        {"type": "shell_call", "action": {"timeout_ms": 1}},
    ),
    (
        "an unknown operation",
        RESPONSES,
        {"type": "apply_patch"},
        {"type": "apply_patch_call", "operation": {"type": "chmod", "path": "a"}},
    ),
    ("no path", MESSAGES, EDITOR, tool_use("str_replace_based_edit_tool", command="view")),
]


@pytest.mark.parametrize(
    ("client", "tool", "call"), [row[1:] for row in WRONG], ids=[r[0] for r in WRONG]
)
@in_loop
async def test_at_home_it_is_checked(client: str, tool: Any, *, call: dict[str, Any]) -> None:
    bodies = [ask(client, tool)]
    [(status, answer, _)], _ = await through(client, client, entry=call, bodies=bodies)
    assert status == 502
    assert "cannot be run" in json.dumps(answer)


@in_loop
async def test_a_wrong_one_is_asked_for_again_in_its_own_form() -> None:
    wrong = {**ROWS[2].call, "input": "11x"}
    [(status, _, _)], sent = await through(
        RESPONSES, RESPONSES, entry=wrong, bodies=[ask(RESPONSES, DIGITS)], reask=1
    )
    assert status == 502
    *_, called, result = sent[1]["input"]
    assert (called["type"], called["input"], called["name"]) == ("custom_tool_call", "11x", "dial")
    assert result["type"] == "custom_tool_call_output"
    assert "input" in result["output"]


# ── Tools in the conversation ───────────────────────────────────────────────────────

MORE_TOOLS = {"type": "additional_tools", "role": "developer", "tools": [AGENTS, PATCH]}


def bring(**more: Any) -> dict[str, Any]:
    """A request without a list of tools: an item brings them along."""
    user = {"role": "user", "content": "Do it."}
    return {"model": "m", "input": [MORE_TOOLS, user], **more}


@pytest.mark.parametrize("protocol", PATHS)
@in_loop
async def test_tools_in_an_item_are_tools(protocol: str) -> None:
    row = ROWS[0]
    home = protocol == RESPONSES
    entry = row.call if home else function_call(protocol, row.name, arguments=row.arguments)
    bodies = [bring(), bring(stream=True)]
    answers, sent = await through(RESPONSES, protocol, entry=entry, bodies=bodies)
    check_answers(row, answers)
    for body in sent:
        if home:
            assert (body["input"][0], body.get("tools")) == (MORE_TOOLS, None)
        else:
            assert [name for name, _ in offered(protocol, body)] == ["agents__spawn", "apply"]
            assert len(body.get("messages", body.get("input"))) == 1
        assert "left out" not in json.dumps(body)


@in_loop
async def test_at_home_they_are_checked() -> None:
    wrong = {**ROWS[0].call, "arguments": '{"tusk":"x"}'}
    [(status, _, _)], _ = await through(RESPONSES, RESPONSES, entry=wrong, bodies=[bring()])
    assert status == 502


# ── What only the provider runs ─────────────────────────────────────────────────────

HOSTED: list[tuple[str, str, dict[str, Any], str]] = [
    (RESPONSES, CHAT, {"type": "web_search"}, "web_search"),
    (RESPONSES, MESSAGES, {"type": "mcp", "server_label": "x", "server_url": "y"}, "mcp"),
    (
        MESSAGES,
        RESPONSES,
        {"type": "web_search_20250305", "name": "web_search"},
        "web_search_20250305",
    ),
]


@pytest.mark.parametrize(("client", "protocol", "tool", "name"), HOSTED)
@in_loop
async def test_what_the_upstream_cannot_run_is_refused_or_left_out(
    client: str, protocol: str, *, tool: dict[str, Any], name: str, caplog: Any
) -> None:
    row = next(row for row in ROWS if row.client == client)
    entry = function_call(protocol, row.name, arguments=row.arguments)
    body = ask(client, tool)
    body["tools"].append(row.tool)
    [(status, answer, _)], sent = await through(client, protocol, entry=entry, bodies=[body])
    assert (status, sent) == (400, [])
    assert repr(name) in json.dumps(answer)
    assert "models.m.unsupported_tools: drop" in json.dumps(answer)

    answers, sent = await through(
        client, protocol, entry=entry, bodies=[body], unsupported_tools="drop"
    )
    check_answers(row, answers)
    assert answers[0][2]["x-wholecall-unsupported-tools"] == name
    assert [each for each, _ in offered(protocol, sent[0])] == [row.name]
    assert f"cannot be given {name}" in caplog.text


@in_loop
async def test_what_is_left_out_cannot_be_demanded() -> None:
    body = ask(RESPONSES, {"type": "web_search"}, tool_choice={"type": "web_search"})
    [(status, answer, _)], _ = await through(
        RESPONSES, CHAT, entry={}, bodies=[body], unsupported_tools="drop"
    )
    assert (status, answer["error"]["param"]) == (400, "tool_choice")

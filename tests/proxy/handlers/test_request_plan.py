"""Which way a request takes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from starlette.datastructures import Headers

from proxy_server import in_loop
from wholecall.errors import UnknownModel, UnreadableRequest
from wholecall.proxy.config.schema import Mode, ModelConfig, ServerLimits
from wholecall.proxy.handlers.passthrough import UpstreamPipe
from wholecall.proxy.handlers.request_plan import (
    GatePlan,
    ModelRoute,
    ModelRoutes,
    PassthroughPlan,
    RequestPlan,
    RequestPlanner,
    RunPlan,
    read_name,
)
from wholecall.proxy.handlers.response_store import ResponseStore
from wholecall.proxy.handlers.response_writer import explain
from wholecall.proxy.handlers.run_mode import MixedTools
from wholecall.proxy.http.api_keys import ANONYMOUS, Key
from wholecall.proxy.http.client_request import ClientProtocol, ClientRequest
from wholecall.proxy.routes.client_route import CHAT_CLIENT, MESSAGES_CLIENT, RESPONSES_CLIENT
from wholecall.tools.function_tool import make_tool
from wholecall.upstreams.endpoint import Endpoint
from wholecall.upstreams.replay import ReplayUpstream


def look(what: str) -> str:
    """Look at something."""
    return what


def served(name: str = "m", *, mode: Mode = "gate", model: str = "theirs") -> ModelRoute:
    pipe = UpstreamPipe(Endpoint("openai-chat", "http://127.0.0.1:9"))
    return ModelRoute(
        name=name,
        upstream=ReplayUpstream([]),
        model=model,
        settings=ModelConfig(upstream="", mode=mode),
        pipe=pipe,
    )


PLANNER = RequestPlanner(
    routes=ModelRoutes(
        [served(), served("run", mode="run"), served("same", model="same")],
        tools=lambda: [make_tool(look)],
    ),
    responses=ResponseStore(),
    mixed_tools=MixedTools(lambda: None),
    limits=ServerLimits(),
)
BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
TOOLS = [{"type": "function", "function": {"name": "dig"}}]
MAY = Key(id="k", name="k", tools=("*",))


async def prepared(
    body: Any, *, client: ClientProtocol = CHAT_CLIENT, key: Key = MAY, raw: bytes | None = None
) -> RequestPlan:
    content = json.dumps(body).encode() if raw is None else raw
    asked = ClientRequest(client=client, body=content, headers=Headers({}), request_id="r", key=key)
    return await PLANNER.plan(asked)


@pytest.mark.parametrize(
    ("settings", "marks", "one_system"),
    [
        ({}, True, None),
        ({"cache": "off", "system": "keep"}, False, False),
        ({"system": "first"}, True, True),
    ],
)
@in_loop
async def test_the_operator_has_a_say_in_the_options(
    settings: dict[str, Any], *, marks: bool, one_system: bool | None
) -> None:
    route = replace(served(), settings=ModelConfig(upstream="", **settings))
    planner = replace(PLANNER, routes=ModelRoutes([route]))
    asked = {**BODY, "max_tokens": 9, "top_k": 5, "metadata": {"user_id": "u"}, "stream": True}
    came = ClientRequest(
        client=MESSAGES_CLIENT, body=json.dumps(asked).encode(), headers=Headers({}), request_id="r"
    )
    plan = await planner.plan(came)
    assert isinstance(plan.way, GatePlan)
    request = plan.way.request
    assert (request.marks_cache, request.one_system) == (marks, one_system)
    assert request.options.user == "u"
    assert plan.dropped == ("top_k",)


@pytest.mark.parametrize(
    ("name", "hidden", "shown"),
    [
        ("model", "secret", "same"),
        ("previous_response_id", "another's", None),
        ("tools", TOOLS, []),
    ],
)
@in_loop
async def test_an_upstream_reads_no_other_fields_than_those_that_were_checked(
    name: str, hidden: Any, *, shown: Any
) -> None:
    whole = json.dumps({**BODY, "model": "same", name: shown})
    raw = f"{{{json.dumps(name)}: {json.dumps(hidden)}, {whole[1:]}".encode()
    ready = await prepared(None, raw=raw)
    assert isinstance(ready.way, PassthroughPlan)
    fields = json.loads(ready.way.outgoing.content, object_pairs_hook=list)
    assert [value for each, value in fields if each == name] == [shown]


@in_loop
async def test_a_request_that_needs_nothing_passes_with_all_its_fields() -> None:
    offers: list[dict[str, Any]] = [{}, {"tools": []}, {"tools": None}, {"functions": []}]
    for more in offers:
        ready = await prepared({**BODY, **more, "stream": True, "odd": {"x": 1}})
        assert isinstance(ready.way, PassthroughPlan)
        outgoing = ready.way.outgoing
        assert (ready.stream, outgoing.stream, outgoing.model) == (True, True, "theirs")
        sent = json.loads(outgoing.content)
        assert sent == {**BODY, **more, "stream": True, "odd": {"x": 1}, "model": "theirs"}


@in_loop
async def test_a_model_of_the_same_name_gets_the_clients_own_bytes() -> None:
    raw = b'{ "model" : "same" , "messages":[] }'
    ready = await prepared(None, raw=raw, key=ANONYMOUS)
    assert isinstance(ready.way, PassthroughPlan)
    assert ready.way.outgoing.content is raw


@in_loop
async def test_tools_and_other_protocols_are_read() -> None:
    ready = await prepared({**BODY, "tools": TOOLS})
    assert isinstance(ready.way, GatePlan)
    assert ready.way.request.model == "theirs"
    ready = await prepared({**BODY, "max_tokens": 5}, client=MESSAGES_CLIENT)
    assert isinstance(ready.way, GatePlan)
    assert ready.style.upstream == "openai-chat"


@in_loop
async def test_tools_of_the_server_run_if_the_key_may_use_them() -> None:
    ready = await prepared({**BODY, "model": "run", "tools": TOOLS})
    assert isinstance(ready.way, RunPlan)
    assert [spec.name for spec in ready.way.request.tools] == ["look", "dig"]
    assert (ready.way.toolbox.runs("look"), ready.way.toolbox.runs("dig")) == (True, False)
    ready = await prepared({**BODY, "model": "run"}, key=Key(id="k", name="k"))
    assert isinstance(ready.way, GatePlan)


@in_loop
async def test_what_is_said_to_the_proxy_alone_goes_no_further() -> None:
    wish = {"wholecall": {"events": True}}
    for body, client in (
        ({**BODY, "model": "same"}, CHAT_CLIENT),
        (BODY, CHAT_CLIENT),
        ({**BODY, "tools": TOOLS}, CHAT_CLIENT),
        ({**BODY, "max_tokens": 5}, MESSAGES_CLIENT),
        ({"model": "m", "input": "hi"}, RESPONSES_CLIENT),
        ({**BODY, "model": "run"}, CHAT_CLIENT),
    ):
        ready = await prepared({**body, **wish}, client=client)
        assert ready.progress is not isinstance(ready.way, PassthroughPlan)
        if isinstance(ready.way, PassthroughPlan):
            assert b"wholecall" not in ready.way.outgoing.content
        else:
            assert "wholecall" not in str(ready.way.request)
        assert not (await prepared(body, client=client)).progress


WRONG: dict[str, tuple[Any, bytes | None, str]] = {
    "no JSON": (None, b"{", ""),
    "no object": (None, b"[]", ""),
    "no model": ({"messages": []}, None, "model"),
    "a wish that is none": ({**BODY, "wholecall": {"event": True}}, None, "wholecall"),
    "a model that is no name": ({**BODY, "model": 7}, None, "model"),
    "several answers of a run": ({**BODY, "model": "run", "n": 2}, None, "n"),
}


@pytest.mark.parametrize(("body", "raw", "param"), WRONG.values(), ids=WRONG)
@in_loop
async def test_what_is_wrong_is_named(body: Any, raw: bytes | None, *, param: str) -> None:
    with pytest.raises(UnreadableRequest) as caught:
        await prepared(body, raw=raw)
    assert caught.value.param == param


@in_loop
async def test_what_the_upstream_cannot_know_is_refused() -> None:
    body = {"model": "m", "input": "hi", "previous_response_id": "resp_1", "background": False}
    with pytest.raises(UnreadableRequest) as caught:
        await prepared(body, client=RESPONSES_CLIENT)
    assert caught.value.param == "previous_response_id"
    ready = await prepared({**body, "previous_response_id": None}, client=RESPONSES_CLIENT)
    assert isinstance(ready.way, GatePlan)


@in_loop
async def test_a_conversation_that_the_upstream_holds_is_refused() -> None:
    """Its tools are not in the request, so that its calls would pass unchecked."""
    body = {**BODY, "max_tokens": 9, "thread": {"type": "continue", "id": "t"}}
    with pytest.raises(UnreadableRequest) as caught:
        await prepared(body, client=MESSAGES_CLIENT)
    assert (caught.value.param, caught.value.code) == ("thread", "thread_unsupported_request")
    ready = await prepared({**body, "thread": None}, client=MESSAGES_CLIENT)
    assert isinstance(ready.way, GatePlan)


@in_loop
async def test_a_model_that_the_key_may_not_use_does_not_exist() -> None:
    for body, key in (({**BODY, "model": "none"}, MAY), (BODY, Key(id="", name="", models=()))):
        with pytest.raises(UnknownModel):
            await prepared(body, key=key)


@in_loop
async def test_a_model_is_found_without_reading_the_rest() -> None:
    asked = ClientRequest(
        client=MESSAGES_CLIENT, body=b'{"model": "m", "x": 1}', headers=Headers({}), request_id="r"
    )
    found, outgoing = await PLANNER.find_route(asked)
    assert found.name == "m"
    assert json.loads(outgoing.content) == {"model": "theirs", "x": 1}


@in_loop
async def test_a_number_that_cannot_be_held_is_refused() -> None:
    for raw in (
        b'{"model": 1e999, "messages": []}',
        b'{"model": "m", "messages": [], "stream": 1e999}',
        b'{"model": "run", "messages": [], "temperature": 1e999}',
    ):
        with pytest.raises(UnreadableRequest, match="Number out of range"):
            await prepared(None, raw=raw)


@pytest.mark.parametrize(
    ("body", "name"),
    [
        (b'{"model": "none"}', "none"),
        (b'{"model": "m", "messages": 5}', "m"),
        (b'{"model": "%s"}' % (b"x" * 128), "x" * 128),
        (b'{"model": "%s"}' % (b"x" * 129), ""),
        (b'{"model": 5}', ""),
        (b'{"model": 1e999}', ""),
        (b"{}", ""),
        (b'{"model": "m"', ""),
        (b"\xff", ""),
    ],
)
def test_a_refused_request_may_name_a_model(body: bytes, name: str) -> None:
    asked = ClientRequest(client=CHAT_CLIENT, body=body, headers=Headers({}), request_id="r")
    assert read_name(asked) == name


@pytest.mark.parametrize(
    ("client", "body"),
    [
        (CHAT_CLIENT, {**BODY, "tools": TOOLS * 129}),
        (CHAT_CLIENT, {**BODY, "messages": BODY["messages"] * 10_001}),
        (CHAT_CLIENT, {**BODY, "messages": [{"role": "x" * 10_000, "content": ""}]}),
        (MESSAGES_CLIENT, {**BODY, "tools": TOOLS * 129}),
        (MESSAGES_CLIENT, {**BODY, "messages": BODY["messages"] * 10_001}),
        (RESPONSES_CLIENT, {"model": "m", "tools": TOOLS * 129, "input": "hi"}),
        (RESPONSES_CLIENT, {"model": "m", "input": BODY["messages"] * 10_001}),
    ],
)
@in_loop
async def test_a_request_that_is_too_large_is_refused_in_few_words(
    client: ClientProtocol, body: Any
) -> None:
    with pytest.raises(UnreadableRequest) as told:
        await prepared({**body, "stream": True, "functions": TOOLS}, client=client)
    failure, _ = explain(told.value, place="", request_id="r")
    assert failure.status == 400
    assert len(failure.message) <= 400


@in_loop
async def test_others_go_on_while_a_large_request_is_read() -> None:
    """Count the steps that the event loop takes in the meantime."""
    history = [{"role": "user", "content": "hi"}] * 5000
    body = {**BODY, "messages": history, "tools": TOOLS}
    steps = 0

    async def step() -> None:
        nonlocal steps
        while True:
            steps += 1
            await asyncio.sleep(0)

    async with asyncio.TaskGroup() as group:
        others = group.create_task(step())
        ready = await prepared(body)
        others.cancel()
    assert isinstance(ready.way, GatePlan)
    assert len(ready.way.request.messages) == 5000
    assert steps > 10

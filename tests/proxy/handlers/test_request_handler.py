"""One request on its way, where something goes wrong that should not."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager

import pytest
from starlette.datastructures import Headers

from proxy.collected_events import KeptSink, unseen
from proxy_server import in_loop
from scripted import says
from wholecall.errors import UpstreamError
from wholecall.events import Text
from wholecall.messages import Message, Request, Role
from wholecall.protocols.response_base import ResponseStyle
from wholecall.proxy.handlers.request_handler import RequestHandler
from wholecall.proxy.handlers.request_plan import GatePlan, ModelRoute, RequestPlan
from wholecall.proxy.handlers.run_mode import MixedTools
from wholecall.proxy.http.client_request import ClientRequest
from wholecall.proxy.observe.inspector_feed import ApprovalRequests
from wholecall.proxy.routes.client_route import CHAT_CLIENT
from wholecall.upstreams.base import Answer, Upstream
from wholecall.upstreams.replay import ReplayUpstream

REQUEST = Request(model="m", messages=(Message(Role.USER, (Text("hi"),)),))


class Broken:
    """An upstream with a mistake of ours in it."""

    protocol = "openai-chat"

    def answer(self, _: Request) -> AbstractAsyncContextManager[Answer]:
        raise KeyError("sk-secret-key")

    async def close(self) -> None:
        pass


async def turn(
    upstream: Upstream, *, stream: bool = True, dropped: tuple[str, ...] = ()
) -> KeptSink:
    sink = KeptSink()
    request = ClientRequest(client=CHAT_CLIENT, body=b"", headers=Headers({}), request_id="req_1")
    plan = RequestPlan(
        request=request,
        route=ModelRoute(name="m", upstream=upstream, model="m", place="http://internal"),
        stream=stream,
        style=ResponseStyle(usage=False),
        way=GatePlan(REQUEST),
        dropped=dropped,
    )
    handler = RequestHandler(
        plan,
        sink,
        watch=unseen(),
        mixed_tools=MixedTools(lambda: None),
        approvals=ApprovalRequests(),
    )
    await handler.run()
    assert not handler.ran
    return sink


@in_loop
async def test_a_header_names_the_fields_that_the_upstream_does_not_get() -> None:
    dropped = ("seed", "text.verbosity", "evil\r\nset-cookie: a", "ü", "x" * 65)
    sink = await turn(ReplayUpstream([says("Hello")]), dropped=dropped)
    assert sink.headers == ((b"x-wholecall-dropped", b"seed, text.verbosity"),)
    assert (await turn(ReplayUpstream([says("Hello")]))).headers == ()


@in_loop
async def test_an_answer_is_finished() -> None:
    sink = await turn(ReplayUpstream([says("Hello")]))
    assert sink.frames.endswith(b"data: [DONE]\n\n")
    assert sink.closed


@in_loop
async def test_a_mistake_of_ours_is_told_without_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink = await turn(Broken())
    assert sink.body is not None
    error = json.loads(sink.body.content)["error"]
    assert (sink.body.status, error["code"]) == (500, "internal_error")
    assert "sk-secret-key" not in sink.body.content.decode()
    assert "req_1" in caplog.text


@in_loop
async def test_a_failure_of_the_upstream_is_told_without_its_address() -> None:
    refusal = UpstreamError("http://internal answered with status 500", status=500)
    for stream in (True, False):
        sink = await turn(ReplayUpstream([refusal]), stream=stream)
        assert sink.body is not None
        assert sink.body.status == 502
        assert b"internal" not in sink.body.content

"""One request on its way, where something goes wrong that should not."""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager

import pytest
from starlette.datastructures import Headers

from proxy.collecting import KeptSink, unseen
from proxying import in_loop
from scripted import says
from wholecall.core.conversation import Message, Request, Role
from wholecall.core.values import Text
from wholecall.errors import UpstreamError
from wholecall.protocols.answers import Style
from wholecall.proxy.approving import Approving
from wholecall.proxy.chat import CHAT
from wholecall.proxy.client import RawRequest
from wholecall.proxy.ownership import Ownership
from wholecall.proxy.preparing import Gate, Prepared
from wholecall.proxy.serving import Served
from wholecall.proxy.shelf import Shelf
from wholecall.proxy.turning import Turning
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


async def turn(upstream: Upstream, *, stream: bool = True) -> KeptSink:
    sink = KeptSink()
    asked = RawRequest(client=CHAT, body=b"", headers=Headers({}), request_id="req_1")
    prepared = Prepared(
        asked=asked,
        served=Served(name="m", upstream=upstream, model="m", place="http://internal"),
        stream=stream,
        style=Style(usage=False),
        way=Gate(REQUEST),
    )
    turning = Turning(
        prepared, sink, watch=unseen(), ownership=Ownership(Shelf()), approving=Approving()
    )
    await turning.run()
    assert not turning.ran
    return sink


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

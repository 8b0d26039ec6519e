"""Responses over a WebSocket, as OpenAI's SDK and Codex speak it, over a real socket."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from e2e.recording_proxy import STOP, TEXT, Gate
from proxy_server import Offer, Served, in_loop, proxying, upstream
from responses_proxy import PREFIXES, serve
from upstreams.fake_endpoint import begin, serving
from wholecall.faults.fault_server import FaultServer
from wholecall.faults.script import definitions
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import Config, KeysConfig, ResponsesConfig, ServerLimits
from wholecall.proxy.http.api_keys import Key, KeyStore
from wholecall.proxy.routes import responses_socket
from wholecall.proxy.server import is_news

OFF = ResponsesConfig(websockets=0)
ONE = ResponsesConfig(websockets=1)


class Socket:
    """A client's connection."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        self.ws = ws

    async def create(self, **fields: Any) -> list[dict[str, Any]]:
        """Ask; return the events up to the last."""
        await self.ws.send_json({"type": "response.create", **fields})
        return await self.read()

    async def read(self) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = []
        while not events or not is_last(events[-1]):
            events.append(await self.ws.receive_json())
        return events


def is_last(event: dict[str, Any]) -> bool:
    ends = ("error", "response.completed", "response.incomplete", "response.failed")
    return event["type"] in ends


@asynccontextmanager
async def connecting(served: Served, **headers: str) -> AsyncIterator[Socket]:
    async with served.http.ws_connect(served.url + "/v1/responses", headers=headers) as ws:
        yield Socket(ws)


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(each["delta"] for each in events if each["type"].endswith("text.delta"))


@pytest.mark.parametrize("prefix", PREFIXES)
@in_loop
async def test_a_conversation_goes_on_without_being_sent_again(tmp_path: Path, prefix: str) -> None:
    model = f"{prefix}:answer-only"
    async with serve(tmp_path) as (served, faults), connecting(served) as socket:
        first = await socket.create(model=model, input="one", store=False)
        made = first[-1]["response"]
        assert [each["type"] for each in first][:2] == ["response.created", "response.in_progress"]
        assert [each["sequence_number"] for each in first] == list(range(len(first)))
        assert (text_of(first), made["status"]) == ("All done.", "completed")
        second = await socket.create(
            model=model, input="two", store=False, previous_response_id=made["id"]
        )
        told = second[-1]["response"]
        assert (text_of(second), told["previous_response_id"]) == ("All done.", made["id"])
        sent = str(faults.received[-1].body)
        assert sent.index("one") < sent.index("All done.") < sent.index("two")
        if prefix == "responses":
            return  # the upstream may know what is not held here
        # It is the connection that holds it, and no other.
        async with connecting(served) as other:
            [refused] = await other.create(model=model, input="x", previous_response_id=made["id"])
        assert (refused["type"], refused["error"]["code"]) == (
            "error",
            "previous_response_not_found",
        )


@pytest.mark.parametrize("prefix", PREFIXES)
@in_loop
async def test_calls_and_their_results_go_over_one_connection(tmp_path: Path, prefix: str) -> None:
    tools: Any = definitions("openai-responses")
    asked: Any = {"model": f"{prefix}:good", "tools": tools, "store": False}
    async with serve(tmp_path) as (served, faults), connecting(served) as socket:
        made = (await socket.create(**asked, input="mail Ada"))[-1]["response"]
        [call] = [item for item in made["output"] if item["type"] == "function_call"]
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": "sent"}
        done = await socket.create(**asked, input=[result], previous_response_id=made["id"])
        assert done[-1]["type"] == "response.completed"
        assert text_of(done)
        assert str(faults.received[-1].body).count("sent") >= 1


@in_loop
async def test_a_stored_response_is_continued_over_a_socket_and_back(tmp_path: Path) -> None:
    model = "openai:answer-only"
    async with serve(tmp_path) as (served, faults), connecting(served) as socket:
        made = await served.openai.responses.create(model=model, input="one")
        events = await socket.create(model=model, input="two", previous_response_id=made.id)
        id = events[-1]["response"]["id"]
        await served.openai.responses.create(model=model, input="three", previous_response_id=id)
        sent = str(faults.received[-1].body)
        assert sent.index("one") < sent.index("two") < sent.index("three")


@in_loop
async def test_a_warm_up_asks_no_model_and_is_continued(tmp_path: Path) -> None:
    model, more = "openai:answer-only", {"store": False, "instructions": "Be brief."}
    async with serve(tmp_path) as (served, faults), connecting(served) as socket:
        warm = await socket.create(model=model, input="one", generate=False, **more)
        response = warm[-1]["response"]
        assert [each["type"] for each in warm] == [
            "response.created",
            "response.in_progress",
            "response.completed",
        ]
        assert (response["output"], response["instructions"]) == ([], "Be brief.")
        assert not faults.received
        events = await socket.create(
            model=model, input="two", previous_response_id=response["id"], **more
        )
        assert text_of(events) == "All done."
        sent = str(faults.received[-1].body)
        assert sent.index("one") < sent.index("two")
        [refused] = await socket.create(model="unknown", input="x", generate=False)
        assert (refused["status"], refused["error"]["code"]) == (404, "model_not_found")


WRONG = [
    ("it is not JSON", "{", 400, None),
    ("it is not an object", "[]", 400, None),
    ("it has no type", '{"model": "openai:answer-only"}', 400, "type"),
    ("its type is another", '{"type": "response.steer"}', 400, "type"),
    ("it names a stream", '{"type": "response.create", "stream_id": "a"}', 400, "stream_id"),
    (
        "it works in the background",
        '{"type": "response.create", "background": true}',
        400,
        "background",
    ),
    ("it names no model", '{"type": "response.create", "input": "x"}', 400, "model"),
    ("it names an unknown model", '{"type": "response.create", "model": "x"}', 404, "model"),
]


@pytest.mark.parametrize(("why", "text", "status", "param"), WRONG)
@in_loop
async def test_a_wrong_message_gets_an_error_and_the_connection_stays(
    tmp_path: Path, *, why: str, text: str, status: int, param: str | None
) -> None:
    async with serve(tmp_path) as (served, _), connecting(served) as socket:
        await socket.ws.send_str(text)
        [told] = await socket.read()
        assert (told["type"], told["status"]) == ("error", status), why
        assert told["error"]["message"]
        assert told["error"]["param"] == param
        good = await socket.create(model="openai:answer-only", input="hi")
        assert text_of(good) == "All done."


@in_loop
async def test_an_upstream_that_fails_is_told_with_its_status(tmp_path: Path) -> None:
    async with serve(tmp_path) as (served, _), connecting(served) as socket:
        [told] = await socket.create(model="openai:server-error-always", input="hi")
        assert (told["type"], told["status"]) == ("error", 502)
        assert text_of(await socket.create(model="openai:answer-only", input="hi")) == "All done."


@pytest.mark.parametrize("responses", [OFF, ONE])
@in_loop
async def test_where_there_is_no_place_for_a_socket_clients_are_told_by_http(
    tmp_path: Path, responses: ResponsesConfig
) -> None:
    async with serve(tmp_path, responses=responses) as (served, _):
        if responses is OFF:
            await expect_refusal(served, 426)
            return
        async with connecting(served):
            await expect_refusal(served, 503)
        async with connecting(served) as socket:
            assert await socket.create(model="openai:answer-only", input="hi")


async def expect_refusal(
    served: Served, status: int, *, path: str = "/v1/responses", **headers: str
) -> None:
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await served.http.ws_connect(served.url + path, headers=headers)
    assert refused.value.status == status


@in_loop
async def test_a_plain_get_is_told_to_upgrade(tmp_path: Path) -> None:
    async with (
        serve(tmp_path) as (served, _),
        served.http.get(served.url + "/v1/responses") as response,
    ):
        assert response.status == 426
        assert (await response.json())["error"]["code"] == "upgrade_required"


REFUSED = {
    "another path": ("/v1/chat/completions", 404, {}),
    "a website that may not call": ("/v1/responses", 403, {"Origin": "https://evil.example"}),
    "a name that is not ours": ("/v1/responses", 421, {"Host": "evil.example"}),
}


@pytest.mark.parametrize(("path", "status", "headers"), REFUSED.values(), ids=REFUSED)
@in_loop
async def test_a_handshake_is_checked_as_any_request(
    tmp_path: Path, *, path: str, status: int, headers: dict[str, str]
) -> None:
    async with serve(tmp_path) as (served, _):
        await expect_refusal(served, status, path=path, **headers)


@in_loop
async def test_a_key_is_checked_for_the_socket_and_for_each_message(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys.sqlite")
    text, key = store.create(Key(id="", name="a", models=("openai:*",)))
    once, _ = store.create(Key(id="", name="b", rpm=1))
    async with serve(tmp_path, locked=True) as (served, _):
        await expect_refusal(served, 401)
        await expect_refusal(served, 401, Authorization="Bearer wc_unknown")
        async with connecting(served, Authorization=f"Bearer {text}") as socket:
            good = await socket.create(model="openai:answer-only", input="hi")
            assert text_of(good) == "All done."
            [told] = await socket.create(model="anthropic:answer-only", input="hi")
            assert (told["status"], told["error"]["code"]) == (404, "model_not_found")
            store.revoke(key.id)
            while told["status"] != 401:  # the file is looked at every two seconds
                told = (await socket.create(model="anthropic:answer-only", input="hi"))[-1]
                await asyncio.sleep(0.05)
            assert told["error"]["code"] == "invalid_api_key"
        async with connecting(served, Authorization=f"Bearer {once}") as socket:
            await socket.create(model="openai:answer-only", input="hi")
            [told] = await socket.create(model="openai:answer-only", input="hi")
            assert (told["status"], told["error"]["code"]) == (429, "rate_limit_exceeded")
            assert int(told["headers"]["retry-after"]) > 0
    store.close()


# ── One response at a time, and its end ─────────────────────────────────────────────


@asynccontextmanager
async def held_back(folder: Path) -> AsyncIterator[tuple[Served, Gate, list[Any]]]:
    """A proxy whose upstream waits in the middle of its answer."""
    gate, asked = Gate(), []

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path)
        response = await begin(request)
        await response.write(TEXT)
        await gate.pass_through()
        await response.write(STOP)
        return response

    async with serving(handler) as behind:
        model = upstream("openai/theirs", f"{behind.url}/v1")
        async with proxying(Offer({"m": model}, folder=folder)) as served:
            yield served, gate, asked


ASK = {"type": "response.create", "model": "m", "input": "hi"}


@in_loop
async def test_a_second_message_waits_for_the_first_response(tmp_path: Path) -> None:
    most = responses_socket.MOST_WAITING
    async with held_back(tmp_path) as (served, gate, asked), connecting(served) as socket:
        for _ in range(most + 2):
            await socket.ws.send_json(ASK)
        while (event := await socket.ws.receive_json())["type"] != "error":
            assert event["type"] != "response.completed"
        assert (event["status"], event["error"]["code"]) == (429, "response_in_progress")
        assert len(asked) == 1
        gate.opened.set()
        for _ in range(most + 1):
            assert (await socket.read())[-1]["type"] == "response.completed"
        assert len(asked) == most + 1


@in_loop
async def test_a_client_that_leaves_breaks_its_response_off(tmp_path: Path) -> None:
    async with held_back(tmp_path) as (served, gate, _):
        async with connecting(served) as socket:
            await socket.ws.send_json(ASK)
            await gate.reached.wait()
        while len(served.proxy.work):
            await asyncio.sleep(0.01)
        gate.opened.set()


@in_loop
async def test_the_end_of_the_server_waits_for_the_response(tmp_path: Path) -> None:
    async with held_back(tmp_path) as (served, gate, _), connecting(served) as socket:
        async with connecting(served) as idle:
            await socket.ws.send_json(ASK)
            await gate.reached.wait()
            served.server.should_exit = True
            assert (await idle.ws.receive()).data == 1012
        gate.opened.set()
        assert (await socket.read())[-1]["type"] == "response.completed"
        assert (await socket.ws.receive()).data == 1012


@in_loop
async def test_an_old_connection_is_closed_between_two_responses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(responses_socket, "LONGEST_SECONDS", 0.05)
    async with held_back(tmp_path) as (served, gate, _), connecting(served) as socket:
        await socket.ws.send_json(ASK)
        await gate.reached.wait()
        gate.opened.set()
        assert (await socket.read())[-1]["type"] == "response.completed"
        [told] = await socket.read()
        assert told["error"]["code"] == "websocket_connection_limit_reached"
        assert (await socket.ws.receive()).data == 1001


@in_loop
async def test_a_message_may_be_as_large_as_a_body(tmp_path: Path) -> None:
    async with serve(tmp_path) as (served, _):
        limits = replace(served.proxy.config.limits, body_bytes=100_000)
        served.proxy._loaded = replace(
            served.proxy._loaded, config=replace(served.proxy.config, limits=limits)
        )
        async with connecting(served) as socket:
            good = await socket.create(model="openai:answer-only", input="x" * 90_000)
            assert text_of(good) == "All done."
            await socket.ws.send_json({**ASK, "input": "x" * 100_001})
            assert (await socket.ws.receive()).data == 1009


@in_loop
async def test_a_client_that_does_not_read_is_given_up(tmp_path: Path) -> None:
    # Long words fill the buffers of the system soon.
    text = TEXT.replace(b"Hello", b"x" * 50_000)
    assert text != TEXT

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        with suppress(ConnectionError):
            while True:
                await response.write(text)
        return response

    async with serving(handler) as behind:
        model = upstream("openai/theirs", f"{behind.url}/v1")
        limits = ServerLimits(write_seconds=0.2)
        config = Config(
            models={"m": model}, limits=limits, keys=KeysConfig(path=str(tmp_path / "k"))
        )
        async with proxying(make_app(config, environ={})) as served:
            # The SDK's client takes in whatever comes; this one stops, and takes little.
            reader, writer = await dial(served, taking=4096)
            asked = json.dumps(ASK).encode()
            assert len(asked) < 126
            frame = bytes([0x81, 0x80 | len(asked), 0, 0, 0, 0]) + asked
            writer.write((HANDSHAKE + KEY + "\r\n").encode() + frame)
            assert (await reader.readline())[:12] == b"HTTP/1.1 101"
            while not len(served.proxy.work):
                await asyncio.sleep(0.01)
            while len(served.proxy.work):
                await asyncio.sleep(0.01)
            await hang_up(writer)


@in_loop
async def test_a_client_that_says_nothing_for_a_while_is_not_late_with_headers(
    tmp_path: Path,
) -> None:
    limits = ServerLimits(header_seconds=0.1)
    keys = KeysConfig(path=str(tmp_path / "k"))
    async with FaultServer() as faults:
        model = upstream("openai/answer-only", faults.base_url)
        app = make_app(Config(models={"m": model}, limits=limits, keys=keys), environ={})
        async with proxying(app) as served, connecting(served) as socket:
            for _ in range(2):
                await asyncio.sleep(0.3)
                assert (await socket.create(model="m", input="x"))[-1]["type"] == (
                    "response.completed"
                )


async def dial(
    served: Served, *, taking: int | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect; `taking`: bytes that the system may receive before they are read."""
    peer = socket.socket()
    if taking:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, taking)
    peer.connect(("127.0.0.1", int(served.url.rpartition(":")[2])))
    return await asyncio.open_connection(sock=peer)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


HANDSHAKE = (
    "GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\n"
)
KEY = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
HANDSHAKES = [
    ("a good one is accepted", KEY, b"HTTP/1.1 101"),
    ("one with a body is answered in HTTP", f"{KEY}Content-Length: 2\r\n\r\n{{}}", b"HTTP/1.1 426"),
    ("one without a key is refused", "", b"HTTP/1.1 400"),
    ("one with too many headers is refused", KEY + "X-A: b\r\n" * 110, b"HTTP/1.1 431"),
    ("one that cannot be read is closed", KEY + "X-A: b\r\n" * 150, b""),
]


@pytest.mark.parametrize(("sentence", "more", "start"), HANDSHAKES)
@in_loop
async def test_handshakes(tmp_path: Path, *, sentence: str, more: str, start: bytes) -> None:
    async with serve(tmp_path) as (served, _):
        reader, writer = await dial(served)
        writer.write((HANDSHAKE + more + "\r\n").encode())
        assert (await reader.readline())[:12] == start, sentence
        await hang_up(writer)


EARLY: dict[str, tuple[bytes, bytes]] = {
    "a request": (b"\x81\x80\0\0\0\0", b"\x81"),
    "a request in two pieces": (b"\x01\x80\0\0\0\0\x80\x80\0\0\0\0", b"\x81"),
    "reserved bits": (b"\xf1\x80\0\0\0\0", b"\x88"),
    "no mask": (b"\x81\x01x", b"\x88"),
    "a continuation of nothing": (b"\x80\x80\0\0\0\0", b"\x88"),
    "no UTF-8": (b"\x81\x81\0\0\0\0\xff", b"\x88"),
    "an end": (b"\x88\x80\0\0\0\0", b"\x88"),
}


@pytest.mark.parametrize(("said", "first"), EARLY.values(), ids=EARLY)
@in_loop
async def test_frames_that_come_with_the_handshake_are_read_after_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, *, said: bytes, first: bytes
) -> None:
    async with held_back(tmp_path) as (served, _, _):
        reader, writer = await dial(served)
        writer.write((HANDSHAKE + KEY + "\r\n").encode() + said)
        assert (await reader.readuntil(b"\r\n\r\n"))[:12] == b"HTTP/1.1 101"
        assert await reader.readexactly(1) == first
        await hang_up(writer)
    assert not [each for each in caplog.records if each.exc_info and is_news(each)]


@in_loop
async def test_a_handshake_does_not_end_the_answer_before_it(tmp_path: Path) -> None:
    async with held_back(tmp_path) as (served, gate, _):
        reader, writer = await dial(served)
        body = json.dumps({"model": "m", "input": "hi"}).encode()
        head = (
            f"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body + (HANDSHAKE + KEY + "\r\n").encode())
        await gate.reached.wait()
        gate.opened.set()
        assert (await reader.readline())[:12] == b"HTTP/1.1 200"
        assert await reader.readuntil(b"HTTP/1.1 426")
        await hang_up(writer)


@in_loop
async def test_the_sdk_of_openai_speaks_it(tmp_path: Path) -> None:
    async with serve(tmp_path) as (served, _), served.openai.responses.connect() as connection:
        await connection.response.create(model="openai:answer-only", input="hi", store=False)
        said = ""
        async for event in connection:
            said += event.delta if event.type == "response.output_text.delta" else ""
            if event.type == "response.completed":
                break
    assert said == "All done."

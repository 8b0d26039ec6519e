"""Servers over HTTP: reached, refused, gone, back again."""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from tools.mcp_calls import SDK_SERVER, Ear, call, find, hearing, in_loop, opened, run
from wholecall.errors import ToolServerFailed
from wholecall.tools.mcp.server_config import McpServer
from wholecall.tools.mcp.tool_definitions import ServerLost, ServerStarted, ToolsListed


@contextlib.asynccontextmanager
async def sdk_server(*options: str) -> AsyncIterator[str]:
    """The SDK's server in a process of its own; its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *SDK_SERVER, "--http", *options, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@in_loop
async def test_a_server_over_http_is_used_like_any_other() -> None:
    ear = Ear()
    async with sdk_server() as url, opened(McpServer("s", url=url), tap=ear) as tools:
        assert (await call(tools, "s__echo", text="hi")).text == "hi"
        assert (await call(tools, "s__add", one=1, other=2)).structured == {"total": 3}
        assert (await call(tools, "s__fails")).failed
        await call(tools, "s__grow")
        listed = await ear.wait_for(ToolsListed, 2)
        assert "grown" in listed.offered
        async with hearing() as words:
            calling = asyncio.create_task(call(tools, "s__hangs", port=words.port))
            assert await words.hear() == "begun"
            calling.cancel()
            assert await words.hear() == "broken off"


@in_loop
async def test_a_server_that_went_away_is_told_and_tried_again() -> None:
    ear = Ear()
    async with sdk_server() as url, opened(McpServer("s", url=url), tap=ear) as tools:
        echo = find(tools, "s__echo")
        with pytest.raises(ToolServerFailed, match="what it had done is unknown"):
            await call(tools, "s__dies")
        with pytest.raises(ToolServerFailed):
            await run(echo, text="hi")
        lost = await ear.wait_for(ServerLost, 2)
        assert "Connect" in lost.reason


@contextlib.asynccontextmanager
async def serving(endpoint: "Endpoint") -> AsyncIterator[str]:
    """An endpoint on loopback; its address."""
    runner = web.ServerRunner(web.Server(endpoint.answer))
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        yield f"http://{host}:{port}/mcp"
    finally:
        await runner.cleanup()


class Endpoint:
    """A streamable HTTP endpoint of 2025 that can forget its sessions."""

    def __init__(self, *, status: int = 200) -> None:
        self.status = status
        self.sessions = 0
        self.headers: list[str] = []
        self.deleted: list[str] = []

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.headers.append(request.headers.get("Authorization", ""))
        if self.status != 200:
            return web.Response(status=self.status)
        session = request.headers.get("Mcp-Session-Id", "")
        if request.method == "POST":
            return self.post(json.loads(await request.text()), session)
        if request.method == "DELETE":
            self.deleted.append(session)
        # It has no stream of its own to offer.
        return web.Response(status=200 if request.method == "DELETE" else 405)

    def post(self, message: Any, session: str) -> web.Response:
        if message["method"] == "server/discover":
            return web.Response(status=400)
        if message["method"] == "initialize":
            self.sessions += 1
            return self.reply(message, self.describe(message), session=str(self.sessions))
        if session != str(self.sessions):
            return web.Response(status=404)
        if "id" not in message:
            return web.Response(status=202)
        return self.reply(message, self.serve(message))

    def describe(self, message: Any) -> dict[str, Any]:
        return {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "endpoint", "version": "1"},
        }

    def serve(self, message: Any) -> dict[str, Any]:
        if message["method"] == "tools/list":
            return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        return {"content": [{"type": "text", "text": f"session {self.sessions}"}]}

    def reply(self, message: Any, result: Any, *, session: str = "") -> web.Response:
        headers = {"Mcp-Session-Id": session} if session else {}
        body = {"jsonrpc": "2.0", "id": message["id"], "result": result}
        return web.json_response(body, headers=headers)


@in_loop
async def test_headers_are_sent_with_every_request_and_the_session_is_ended() -> None:
    endpoint = Endpoint()
    async with serving(endpoint) as url:
        reached = McpServer("s", url=url, headers={"Authorization": "Bearer k"})
        async with opened(reached) as tools:
            assert (await call(tools, "s__echo")).text == "session 1"
    assert set(endpoint.headers) == {"Bearer k"}
    assert endpoint.deleted == ["1"]


@in_loop
async def test_a_forgotten_session_is_begun_anew() -> None:
    endpoint, ear = Endpoint(), Ear()
    async with (
        serving(endpoint) as url,
        opened(McpServer("s", url=url), tap=ear) as tools,
    ):
        endpoint.sessions = 7
        with pytest.raises(
            ToolServerFailed, match="forgotten the session; the call was not run"
        ) as caught:
            await call(tools, "s__echo")
        assert not caught.value.outcome_unknown
        assert (await call(tools, "s__echo")).text == "session 8"
        await ear.wait_for(ServerStarted, 2)


@pytest.mark.parametrize("status", [401, 500])
def test_a_refusal_is_told_with_its_status_and_without_the_key(status: int) -> None:
    @in_loop
    async def scenario() -> None:
        endpoint = Endpoint(status=status)
        async with serving(endpoint) as url:
            reached = McpServer("s", url=f"{url}?key=secret", headers={"Authorization": "secret"})
            with pytest.raises(ToolServerFailed, match=f"HTTP {status}") as failed:
                async with opened(reached):
                    pass
            assert "secret" not in str(failed.value)

    scenario()


@in_loop
async def test_nobody_at_an_address_is_told() -> None:
    with pytest.raises(ToolServerFailed, match="'s' did not start: Connect"):
        async with opened(McpServer("s", url="http://127.0.0.1:1/mcp")):
            pass

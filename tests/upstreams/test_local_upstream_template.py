"""What llama.cpp says of a chat template, if it says anything."""

from __future__ import annotations

import pytest
from aiohttp import web

from proxy_server import in_loop
from upstreams.fake_endpoint import serving
from wholecall.upstreams.local_upstream import takes_tools

ROWS: dict[str, tuple[int, str, bool | None]] = {
    "it has a place for tools": (200, '{"chat_template_caps": {"supports_tools": true}}', True),
    "it has none": (200, '{"chat_template_caps": {"supports_tools": false}, "x": 1}', False),
    "nothing is said of it": (200, '{"chat_template_caps": {}}', None),
    "nothing is said of templates": (200, "{}", None),
    "the server is busy": (503, '{"chat_template_caps": {"supports_tools": true}}', None),
    "it is no JSON": (200, "<html>", None),
}


@pytest.mark.parametrize(("status", "said", "taken"), ROWS.values(), ids=ROWS)
@in_loop
async def test_row(status: int, said: str, *, taken: bool | None) -> None:
    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        assert request.path == "/props"
        return web.Response(status=status, text=said)

    async with serving(handler) as server:
        assert await takes_tools(server.url, "key") is taken


@in_loop
async def test_a_server_that_is_not_there_says_nothing() -> None:
    async with serving(web.Response) as server:  # type: ignore[arg-type]  # nobody asks it
        address = server.url
    assert await takes_tools(address, "key") is None

"""Real servers as processes: one made with the SDK, and one from PyPI."""

import asyncio
import base64

import pytest

from tools.mcp_calls import (
    SDK_SERVER,
    Ear,
    call,
    find,
    hearing,
    in_loop,
    make_context,
    make_server,
    opened,
)
from tools.mcp_server import PIXEL
from wholecall.errors import ToolServerFailed
from wholecall.events import JSON, Start
from wholecall.messages import Media
from wholecall.tools.mcp.tool_definitions import ServerStarted, ToolsListed
from wholecall.tools.tool import Blocking


@in_loop
async def test_a_server_of_the_sdk() -> None:
    ear = Ear()
    async with opened(make_server(SDK_SERVER, trusted=True), tap=ear) as tools:
        echo = find(tools, "s__echo")
        assert (echo.read_only, echo.spec.start) == (True, Start.CLOSED)
        assert (await call(tools, "s__echo", text="hi")).text == "hi"

        total = await call(tools, "s__add", one=1, other=2)
        assert total.structured == {"total": 3}

        failed = await call(tools, "s__fails")
        assert failed.failed
        assert "there is no such thing" in failed.text

        [image] = (await call(tools, "s__image")).content
        data = base64.b64encode(PIXEL).decode()
        assert image == Media(kind="image", media_type="image/png", data=data)

        reports: list[JSON] = []
        slow = find(tools, "s__slow").run
        assert slow is not None
        assert not isinstance(slow, Blocking)
        assert (await slow({}, make_context(reports.append))).text == "done"
        assert reports == [
            {"progress": 1.0, "total": 2.0, "message": "half of it"},
            {"progress": 2.0, "total": 2.0},
        ]

        async with hearing() as words:
            calling = asyncio.create_task(call(tools, "s__hangs", port=words.port))
            assert await words.hear() == "begun"
            calling.cancel()
            assert await words.hear() == "broken off"

        await call(tools, "s__grow")
        assert "grown" in (await ear.wait_for(ToolsListed, 2)).offered

        with pytest.raises(ToolServerFailed, match="'s': it ended"):
            await call(tools, "s__dies")
        assert (await call(tools, "s__echo", text="again")).text == "again"
        await ear.wait_for(ServerStarted, 2)


@in_loop
async def test_a_server_from_pypi() -> None:
    async with opened(make_server(("-m", "mcp_server_time"), trusted=True)) as tools:
        assert [tool.name for tool in tools] == ["s__get_current_time", "s__convert_time"]
        assert all(tool.read_only for tool in tools)
        converted = await call(
            tools,
            "s__convert_time",
            source_timezone="UTC",
            time="12:00",
            target_timezone="Asia/Tokyo",
        )
        assert isinstance(converted.structured, dict)
        assert converted.structured["time_difference"] == "+9.0h"
        wrong = await call(tools, "s__get_current_time", timezone="Atlantis")
        assert wrong.failed
        assert "Atlantis" in wrong.text

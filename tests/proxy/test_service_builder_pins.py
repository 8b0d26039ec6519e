"""What MCP tools were, kept over a restart."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from proxy_server import in_loop
from wholecall.proxy.config.load import load
from wholecall.proxy.config.schema import ConfigError
from wholecall.proxy.service_builder import PINS_FILE, PinFile, Tools
from wholecall.tools.mcp.tool_definitions import McpEvent, Pins, ToolsListed

PINS = Pins({"small": {"add": "0" * 64}})


def test_pins_are_kept_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / PINS_FILE
    file = PinFile(path)
    assert file.read() == Pins()
    file.keep(Pins())
    assert not path.exists()
    file.keep(PINS)
    assert PinFile(path).read() == PINS
    path.unlink()
    file.keep(PINS)  # nothing has changed since
    assert not path.exists()
    assert file.read() == Pins()


def test_without_a_path_nothing_is_kept() -> None:
    file = PinFile()
    file.keep(PINS)
    assert file.read() == Pins()


def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / PINS_FILE).write_text("[]")
    with pytest.raises(ConfigError, match=PINS_FILE):
        PinFile(tmp_path / PINS_FILE).read()


SERVER = """
from mcp.server import MCPServer
server = MCPServer("small")

@server.tool(description={description!r})
def add(a: int, b: int) -> int:
    return a + b

server.run()
"""


@asynccontextmanager
async def starting(
    folder: Path, description: str, *, pins: Path
) -> AsyncIterator[tuple[Tools, list[McpEvent], list[OSError]]]:
    """Tools of a server that says this of itself."""
    (folder / "server.py").write_text(SERVER.format(description=description))
    (folder / "wholecall.yaml").write_text(
        f"tools: [{{mcp: small, command: {sys.executable}, args: [{folder / 'server.py'}]}}]\n"
    )
    tools = Tools(pins=PinFile(pins))
    seen, troubles = list[McpEvent](), list[OSError]()
    tools.on_event, tools.on_trouble = seen.append, troubles.append
    try:
        await tools.replace(load(folder / "wholecall.yaml", {}))
        yield tools, seen, troubles
    finally:
        await tools.close()


@in_loop
async def test_a_tool_that_changed_while_the_proxy_was_down_is_not_offered(tmp_path: Path) -> None:
    pins = tmp_path / PINS_FILE
    async with starting(tmp_path, "Adds.", pins=pins) as (tools, _, troubles):
        assert [tool.name for tool in tools.offer()] == ["small__add"]
    assert not troubles
    async with starting(tmp_path, "Adds. Tell it all.", pins=pins) as (tools, seen, _):
        assert tools.offer() == ()
        [listed] = [event for event in seen if isinstance(event, ToolsListed)]
        assert [each.tool for each in listed.changed] == ["add"]
    pins.unlink()  # somebody has looked at it
    async with starting(tmp_path, "Adds. Tell it all.", pins=pins) as (tools, _, _):
        assert len(tools.offer()) == 1


@in_loop
async def test_a_folder_that_cannot_be_written_is_no_reason_not_to_serve(tmp_path: Path) -> None:
    async with starting(tmp_path, "Adds.", pins=tmp_path / "none" / PINS_FILE) as found:
        tools, _, troubles = found
        assert len(tools.offer()) == 1
    assert troubles

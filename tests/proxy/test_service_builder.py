"""From a configuration to what is served."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from proxy_server import in_loop
from wholecall.proxy.config.load import load
from wholecall.proxy.config.schema import Config, KeysConfig, ModelConfig
from wholecall.proxy.service_builder import STATE_FILE, Tools, make_models, state_path
from wholecall.tools.function_tool import make_tool
from wholecall.tools.mcp.tool_definitions import McpEvent, ServerStarted
from wholecall.upstreams.litellm import LiteLLMUpstream


def look(what: str) -> str:
    """Look at something."""
    return what


def test_a_model_is_served_as_it_is_configured() -> None:
    config = Config(
        models={
            "a": ModelConfig(upstream="anthropic/claude", mode="run", reask=2, tools=("dig",)),
            "*": ModelConfig(upstream="openai/*", base_url="http://127.0.0.1:9"),
            "lite": ModelConfig(upstream="litellm/groq/x"),
        }
    )
    first, every, lite = make_models(config, {"ANTHROPIC_API_KEY": "sk-secret-key"})
    assert (first.name, first.model, first.runs_tools) == ("a", "claude", True)
    assert first.settings is config.models["a"]
    assert first.pipe is not None
    assert first.pipe.endpoint.secrets == ("sk-secret-key",)
    assert first.place == "https://api.anthropic.com/v1/messages"
    assert (every.name, every.model) == ("*", "*")
    assert isinstance(lite.upstream, LiteLLMUpstream)
    assert (lite.pipe, lite.place) == (None, "")
    [other] = make_models(config, {}, without=("a", "*"))
    assert other.name == "lite"


def test_the_state_lies_beside_the_keys(tmp_path: Path) -> None:
    config = Config(keys=KeysConfig(path=str(tmp_path / "keys.sqlite")))
    assert state_path(config) == tmp_path / STATE_FILE


SERVER = """
from mcp.server import MCPServer
server = MCPServer("small")

@server.tool()
def add(a: int, b: int) -> int:
    return a + b

server.run()
"""


@pytest.mark.parametrize("again", [False, True])
@in_loop
async def test_tools_are_functions_and_whatever_servers_offer(tmp_path: Path, again: bool) -> None:
    (tmp_path / "small_server.py").write_text(SERVER)
    (tmp_path / "tools_of_test_building.py").write_text("def dig(depth: int) -> str:\n    ...\n")
    (tmp_path / "wholecall.yaml").write_text(
        "tools:\n"
        "- {python: 'tools_of_test_building:dig'}\n"
        f"- {{mcp: small, command: {sys.executable}, args: [{tmp_path / 'small_server.py'}]}}\n"
    )
    tools, seen = Tools([make_tool(look)]), list[McpEvent]()
    tools.on_event = seen.append
    assert [tool.name for tool in tools.offer()] == ["look"]
    assert (tools.reached, tools.are_ready) == ({}, True)
    loaded = load(tmp_path / "wholecall.yaml", {})
    try:
        for place in range(1 + again):
            retired = await tools.replace(loaded)
            assert (retired is None) == (place == 0)
            if retired is not None:
                await retired.__aexit__()
            assert [tool.name for tool in tools.offer()] == ["look", "dig", "small__add"]
            assert (tools.reached, tools.are_ready) == ({"small": True}, True)
            assert ServerStarted("small") in seen
    finally:
        await tools.close()
    assert [tool.name for tool in tools.offer()] == ["look", "dig"]
    await tools.close()

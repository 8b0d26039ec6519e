"""From a configuration to what is served."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from wholecall.proxy.config.functions import load_functions
from wholecall.proxy.config.loading import Loaded
from wholecall.proxy.config.secret import reveal
from wholecall.proxy.config.settings import Config, McpTool, ModelConfig
from wholecall.proxy.piping import Pipe
from wholecall.proxy.serving import ANY_MODEL, Mode, Served
from wholecall.tools.mcp.toolset import McpTools
from wholecall.tools.tool import Tool
from wholecall.upstreams.http import HttpSettings, HttpUpstream
from wholecall.upstreams.names import NamedModel, find_upstream
from wholecall.upstreams.retry import Retry

STATE_FILE = "wholecall-state.sqlite"
"""Beside the file of the keys: what conversations with tools of both sides need to go on."""


def make_models(config: Config, environ: Mapping[str, str] = os.environ) -> tuple[Served, ...]:
    """The models of a configuration, each with connections of its own."""
    return tuple(_make_model(name, model, environ=environ) for name, model in config.models.items())


def _make_model(name: str, model: ModelConfig, *, environ: Mapping[str, str]) -> Served:
    settings = HttpSettings(
        timeouts=model.timeouts, retry=Retry(retries=model.retries), environ=environ
    )
    named = NamedModel(
        model=model.upstream,
        base_url=model.base_url,
        api_key=None if model.api_key is None else reveal(model.api_key),
        headers=model.reveal_headers(),
    )
    route = find_upstream(name, settings=settings, named={name: named})
    upstream = route.upstream
    endpoint = upstream.endpoint if isinstance(upstream, HttpUpstream) else None
    return Served(
        name=name,
        upstream=upstream,
        model=ANY_MODEL if name == ANY_MODEL else route.model,
        mode=Mode(model.mode),
        emulate=model.emulate,
        limits=model.limits,
        reask=model.reask,
        tools=model.tools,
        pipe=Pipe(endpoint, settings) if endpoint is not None else None,
        place=endpoint.place if endpoint is not None else "",
    )


class ServerTools:
    """The tools that run here: functions, and whatever the MCP servers offer at the moment."""

    def __init__(self, functions: Iterable[Tool], servers: McpTools | None) -> None:
        self._functions = tuple(functions)
        self._servers = servers

    def __call__(self) -> tuple[Tool, ...]:
        """The tools of this moment."""
        return (*self._functions, *(self._servers or ()))


@asynccontextmanager
async def open_tools(loaded: Loaded) -> AsyncIterator[ServerTools]:
    """Import the functions and start the servers; they end with the context."""
    functions = load_functions(loaded)
    definitions = [tool for tool in loaded.config.tools if isinstance(tool, McpTool)]
    if not definitions:
        yield ServerTools(functions, None)
        return
    async with McpTools(*(each.make_server() for each in definitions)) as servers:
        yield ServerTools(functions, servers)


def state_path(config: Config) -> Path:
    """Where the state is kept."""
    return Path(config.keys.path).with_name(STATE_FILE)

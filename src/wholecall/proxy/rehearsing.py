"""Start or reach what a configuration names, to see whether that can be done, and end it again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from wholecall.errors import ToolServerFailed
from wholecall.proxy.building import make_models
from wholecall.proxy.config.loading import Loaded
from wholecall.proxy.config.problems import ConfigProblem
from wholecall.proxy.config.settings import McpTool
from wholecall.proxy.readiness import Readiness
from wholecall.tools.mcp.toolset import McpTools

_UNREACHED = "the upstream's address cannot be reached: is it right, and does somebody listen?"


class Rehearsal(NamedTuple):
    """The result of a rehearsal."""

    problems: tuple[ConfigProblem, ...] = ()
    """They keep the proxy, or a model, from doing its work."""
    notes: tuple[ConfigProblem, ...] = ()
    """The proxy does without these."""


async def rehearse_servers(loaded: Loaded) -> Rehearsal:
    """Start every MCP server, all at a time, each for as long as its `start_timeout` allows."""
    numbered = [
        (number, tool)
        for number, tool in enumerate(loaded.config.tools)
        if isinstance(tool, McpTool)
    ]
    failures = await asyncio.gather(*(_start(tool) for _, tool in numbered))
    problems: list[ConfigProblem] = []
    notes: list[ConfigProblem] = []
    for (number, tool), failure in zip(numbered, failures, strict=True):
        if failure:
            path = ("tools", str(number), "mcp")
            told = failure if tool.required else f"{failure}; it is not required"
            found = ConfigProblem(loaded.places[path], ".".join(path), told)
            (problems if tool.required else notes).append(found)
    return Rehearsal(tuple(problems), tuple(notes))


async def _start(tool: McpTool) -> str:
    """Return why a server does not start; empty if it does."""
    server = replace(tool, required=True).make_server()
    try:
        async with McpTools(server):
            return ""
    except ToolServerFailed as error:
        said = str(error).partition("\n")[0]
        wrote = error.stderr.strip().rpartition("\n")[2]
        return f"{said}; the last that it wrote: {wrote}" if wrote else said


async def rehearse_upstreams(loaded: Loaded, environ: Mapping[str, str]) -> Rehearsal:
    """Knock at the address of every model's upstream. Nothing is asked there."""
    models = make_models(loaded.config, environ)
    try:
        reached = await Readiness(environ).check(models)
    finally:
        for served in models:
            await served.close()
    paths = [("models", name, "upstream") for name, there in reached.items() if not there]
    return Rehearsal(
        tuple(ConfigProblem(loaded.places[path], ".".join(path), _UNREACHED) for path in paths)
    )

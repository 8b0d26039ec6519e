"""Find what would keep the proxy from starting, before it listens."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from wholecall.errors import ToolServerFailed
from wholecall.proxy.config.load import FILE_NAME, Loaded
from wholecall.proxy.config.schema import (
    Config,
    ConfigError,
    ConfigProblem,
    McpTool,
    Position,
    reveal,
)
from wholecall.proxy.handlers.model_routes import ProxyMode
from wholecall.proxy.http.api_keys import find_key_trouble, needs_keys
from wholecall.proxy.observe.inspector_feed import STORE_FILE
from wholecall.proxy.observe.metrics import FOLDER
from wholecall.proxy.routes.health import Readiness
from wholecall.proxy.service_builder import load_functions, make_models, responses_path, state_path
from wholecall.storage import find_trouble
from wholecall.tools.mcp.toolset import McpTools
from wholecall.tools.tool import Tool
from wholecall.upstreams.providers import NamedModel, check_environment, find_lack

_KEYS = ("keys", "path")
_HOLDS = "responses/"
"""Upstreams that hold responses in an account of their own."""


def check_start(
    loaded: Loaded, environ: Mapping[str, str], *, tools: bool = True
) -> tuple[Tool, ...]:
    """Import the functions, look at the files of the keys and of what is kept, at what the
    environment says of upstreams, and at what models on this machine need; `ConfigError` names
    what is wrong.

    `tools`: whether to import. MCP servers are not started, and nothing is written.
    """
    _check_models(loaded, environ)
    _check_keys(loaded)
    _check_responses(loaded)
    _check_stores(loaded)
    _check_counts(loaded.config, environ)
    return load_functions(loaded) if tools else ()


def _check_models(loaded: Loaded, environ: Mapping[str, str]) -> None:
    problems: list[ConfigProblem] = []
    for name, model in loaded.config.models.items():
        key = None if model.api_key is None else reveal(model.api_key)
        request = NamedModel(model=model.upstream, base_url=model.base_url, api_key=key)
        try:
            check_environment(request, environ)
            why = find_lack(model.upstream, environ)
        except ValueError as error:
            why = str(error)
        if why:
            path = ("models", name, "upstream")
            problems.append(ConfigProblem(loaded.places[path], ".".join(path), why))
    if problems:
        raise ConfigError(problems)


def _check_responses(loaded: Loaded) -> None:
    path = responses_path(loaded.config)
    if path is None or os.access(path if path.exists() else path.parent, os.W_OK):
        return
    why = (
        f"several workers hold responses in {path}, which cannot be written: name another folder "
        "in keys.path, or set responses.kept_seconds to 0"
    )
    setting = ("listen", "workers")
    place = loaded.places.get(setting, Position(str(loaded.file or FILE_NAME)))
    raise ConfigError([ConfigProblem(place, ".".join(setting), why)])


def _check_stores(loaded: Loaded) -> None:
    """Files that hold what the proxy keeps: a process that cannot open one cannot start."""
    for path in _find_stores(loaded.config):
        trouble = find_trouble(path)
        if trouble:
            raise ConfigError([ConfigProblem(_find_place(loaded), ".".join(_KEYS), trouble)])


def _check_counts(config: Config, environ: Mapping[str, str]) -> None:
    """Several processes count in files of a folder; without it no request could be counted."""
    folder = environ.get(FOLDER)
    if not config.metrics.enabled or not folder:
        return
    if not (Path(folder).is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        why = f"{folder!r} is no folder that can be written: make it, or leave the variable out"
        raise ConfigError([ConfigProblem(Position(FOLDER), "", why)])


def _find_stores(config: Config) -> Iterator[Path]:
    runs = any(model.mode == ProxyMode.RUN.value for model in config.models.values())
    held = any(model.upstream.startswith(_HOLDS) for model in config.models.values())
    if runs or (held and needs_keys(config)):
        yield state_path(config)
    responses = responses_path(config)
    if responses is not None:
        yield responses
    if config.inspector.enabled:
        yield Path(config.keys.path).with_name(STORE_FILE)


def _find_place(loaded: Loaded) -> Position:
    """Return the position of the folder setting; the default has none."""
    return loaded.places.get(_KEYS, Position(str(loaded.file or FILE_NAME)))


def _check_keys(loaded: Loaded) -> None:
    config = loaded.config
    trouble = find_key_trouble(config.keys.path) if needs_keys(config) else ""
    if trouble:
        raise ConfigError([ConfigProblem(_find_place(loaded), ".".join(_KEYS), trouble)])


# Start or reach what a configuration names, to see whether that can be done, and end it again.


_UNREACHED = "the upstream's address cannot be reached: is it right, and does somebody listen?"


class PreflightProbe(NamedTuple):
    """The result of a rehearsal."""

    problems: tuple[ConfigProblem, ...] = ()
    """They keep the proxy, or a model, from doing its work."""
    notes: tuple[ConfigProblem, ...] = ()
    """The proxy does without these."""


async def probe_servers(loaded: Loaded) -> PreflightProbe:
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
    return PreflightProbe(tuple(problems), tuple(notes))


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


async def probe_upstreams(loaded: Loaded, environ: Mapping[str, str]) -> PreflightProbe:
    """Knock at the address of every model's upstream. Nothing is asked there."""
    models = make_models(loaded.config, environ)
    try:
        reached = await Readiness(environ).check(models)
    finally:
        for route in models:
            await route.close()
    paths = [("models", name, "upstream") for name, there in reached.items() if not there]
    return PreflightProbe(
        tuple(ConfigProblem(loaded.places[path], ".".join(path), _UNREACHED) for path in paths)
    )

"""Find what would keep the proxy from starting, before it listens; later, what it cannot reach."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

from yarl import URL

from wholecall.errors import MissingExtra, ToolServerFailed
from wholecall.journal.postgres_server import load_driver
from wholecall.proxy.config.load import Loaded
from wholecall.proxy.config.schema import (
    Config,
    ConfigError,
    ConfigProblem,
    McpTool,
    Position,
    find_shared_url,
)
from wholecall.proxy.handlers.request_plan import ModelRoute
from wholecall.proxy.http.api_keys import find_key_trouble, needs_keys
from wholecall.proxy.observe.inspector_feed import STORE_FILE
from wholecall.proxy.observe.metrics import FOLDER
from wholecall.proxy.service_builder import load_functions, make_models, responses_path, state_path
from wholecall.storage import find_trouble
from wholecall.tools.mcp.toolset import McpTools
from wholecall.tools.tool import Tool
from wholecall.upstreams.http import find_proxy
from wholecall.upstreams.providers import check_environment, find_lack

_KEYS = ("keys", "path")
_HOLDS = "responses/"
"""Upstreams that hold responses in an account of their own."""
_UNREACHABLE = (
    "the upstream's address cannot be reached: is it right, and is a server running there?"
)

Check: TypeAlias = Callable[[Loaded, Mapping[str, str]], Iterator[ConfigProblem]]


def check_start(
    loaded: Loaded, environ: Mapping[str, str], *, tools: bool = True
) -> tuple[Tool, ...]:
    """Import the functions, and check the files of the keys and of what is stored, the variables
    of upstreams, and what local models need; `ConfigError` names what is wrong.

    `tools`: whether to import. MCP servers are not started, and nothing is written.
    """
    for check in _CHECKS:
        problems = list(check(loaded, environ))
        if problems:
            raise ConfigError(problems)
    return load_functions(loaded) if tools else ()


def _check_models(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[ConfigProblem]:
    for name, model in loaded.config.models.items():
        try:
            check_environment(model.as_named(), environ)
            why = find_lack(model.upstream, environ)
        except ValueError as error:
            why = str(error)
        if why:
            yield loaded.blame(("models", name, "upstream"), why)


def _check_keys(loaded: Loaded, _: Mapping[str, str]) -> Iterator[ConfigProblem]:
    in_file = needs_keys(loaded.config) and not find_shared_url(loaded.config)
    why = find_key_trouble(loaded.config.keys.path) if in_file else ""
    if why:
        yield loaded.blame(_KEYS, why)


def _check_journal(loaded: Loaded, _: Mapping[str, str]) -> Iterator[ConfigProblem]:
    if not find_shared_url(loaded.config):
        return
    try:
        load_driver()
    except MissingExtra as missing:
        yield loaded.blame(("journal", "url"), str(missing))


def _check_responses(loaded: Loaded, _: Mapping[str, str]) -> Iterator[ConfigProblem]:
    path = responses_path(loaded.config)
    if path is not None and not os.access(path if path.exists() else path.parent, os.W_OK):
        why = (
            f"several workers hold responses in {path}, which cannot be written: name another "
            "folder in keys.path, or set responses.kept_seconds to 0"
        )
        yield loaded.blame(("listen", "workers"), why)


def _check_stores(loaded: Loaded, _: Mapping[str, str]) -> Iterator[ConfigProblem]:
    """Check the first file that cannot be opened: a process could not start."""
    why = next(filter(None, map(find_trouble, _find_stores(loaded.config))), "")
    if why:
        yield loaded.blame(_KEYS, why)


def _find_stores(config: Config) -> Iterator[Path]:
    runs = any(model.mode == "run" for model in config.models.values())
    held = any(model.upstream.startswith(_HOLDS) for model in config.models.values())
    if runs or (held and needs_keys(config)):
        yield state_path(config)
    responses = responses_path(config)
    if responses is not None:
        yield responses
    if config.inspector.enabled:
        yield Path(config.keys.path).with_name(STORE_FILE)


def _check_metrics(loaded: Loaded, environ: Mapping[str, str]) -> Iterator[ConfigProblem]:
    """Several processes count in files of a folder; without it no request could be counted."""
    folder = environ.get(FOLDER) if loaded.config.metrics.enabled else None
    if folder and not (Path(folder).is_dir() and os.access(folder, os.W_OK | os.X_OK)):
        why = f"{folder!r} is not a folder that can be written: create it, or unset the variable"
        yield ConfigProblem(Position(FOLDER), "", why)


_CHECKS: tuple[Check, ...] = (
    _check_models,
    _check_keys,
    _check_journal,
    _check_responses,
    _check_stores,
    _check_metrics,
)


# Start or reach what a configuration names, to see whether that can be done, and end it again.


class PreflightProbe(NamedTuple):
    """The problems found by starting and reaching everything once."""

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
            (problems if tool.required else notes).append(loaded.blame(path, told))
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
        return f"{said}; the last line that it wrote: {wrote}" if wrote else said


async def probe_upstreams(loaded: Loaded, environ: Mapping[str, str]) -> PreflightProbe:
    """Connect to the address of every model's upstream, without a request."""
    models = make_models(loaded.config, environ)
    try:
        reached = await Readiness(environ).check(models)
    finally:
        for route in models:
            await route.close()
    paths = [("models", name, "upstream") for name, there in reached.items() if not there]
    return PreflightProbe(tuple(loaded.blame(path, _UNREACHABLE) for path in paths))


# ── Readiness ─────────────────────────────────────────────────────────────────────────


FRESH_SECONDS = 10.0
"""Seconds for which a result is cached."""
_CONNECT_SECONDS = 3.0


class Readiness:
    """Knocks at the upstreams: a connection that opens is enough."""

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environ = environ
        self._clock = clock
        self._asking = asyncio.Lock()
        self._asked_at = float("-inf")
        self._reached: Mapping[str, bool] = {}

    async def check(self, models: Iterable[ModelRoute]) -> Mapping[str, bool]:
        """For each model, whether its upstream can be reached."""
        async with self._asking:  # who comes meanwhile waits for the same answer
            return await self._check(models)

    async def _check(self, models: Iterable[ModelRoute]) -> Mapping[str, bool]:
        if self._clock() - self._asked_at >= FRESH_SECONDS:
            places = {route.name: route.place for route in models if route.place}
            unique = sorted(set(places.values()))
            opened = await asyncio.gather(*(self._knock(URL(place)) for place in unique))
            reached = dict(zip(unique, opened, strict=True))
            self._reached = {name: reached[place] for name, place in places.items()}
            self._asked_at = self._clock()
        return self._reached

    async def _knock(self, url: URL) -> bool:
        target = find_proxy(url, self._environ) or url
        place = URL(str(target))
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                _, writer = await asyncio.open_connection(place.host, place.port)
        except OSError:
            return False
        writer.close()
        return True

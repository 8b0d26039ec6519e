"""From a configuration to what is served."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from wholecall.dialects.rescuing import Rescue
from wholecall.proxy.config.functions import load_functions
from wholecall.proxy.config.loading import Loaded
from wholecall.proxy.config.secret import reveal
from wholecall.proxy.config.settings import Config, McpTool, ModelConfig
from wholecall.proxy.pinning import PinFile
from wholecall.proxy.piping import Pipe
from wholecall.proxy.serving import ANY_MODEL, Mode, Served
from wholecall.proxy.taps import sleep_and_tell
from wholecall.tools.mcp.events import McpEvent
from wholecall.tools.mcp.toolset import McpTools
from wholecall.tools.tool import Tool
from wholecall.upstreams.http import HttpSettings, HttpUpstream
from wholecall.upstreams.names import NamedModel, find_upstream
from wholecall.upstreams.retry import RetryPolicy

STATE_FILE = "wholecall-state.sqlite"
"""Beside the file of the keys: what conversations with tools of both sides need to go on."""
RESPONSES_FILE = "wholecall-responses.sqlite"
"""Beside it, too: the responses that several processes hold."""


def make_models(
    config: Config, environ: Mapping[str, str], *, without: Collection[str] = ()
) -> tuple[Served, ...]:
    """The models of a configuration, each with connections of its own."""
    return tuple(
        _make_model(name, model, environ=environ)
        for name, model in config.models.items()
        if name not in without
    )


def _make_model(name: str, model: ModelConfig, *, environ: Mapping[str, str]) -> Served:
    settings = HttpSettings(
        timeouts=model.timeouts,
        retry=RetryPolicy(retries=model.retries, sleep=sleep_and_tell),
        environ=environ,
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
        rescue=None if model.rescue is None else Rescue(model.rescue),
        limits=model.limits,
        reask=model.reask,
        live=model.live,
        tools=model.tools,
        pipe=Pipe(endpoint, settings) if endpoint is not None else None,
        place=endpoint.place if endpoint is not None else "",
    )


def _tell_nobody(_: McpEvent) -> None:
    """Do nothing: there is no listener."""


def _forget(_: OSError) -> None:
    """Do nothing: there is no listener."""


class Tools:
    """The tools that run here: functions, and whatever the MCP servers offer at the moment."""

    def __init__(self, given: Iterable[Tool] = (), *, pins: PinFile | None = None) -> None:
        self._given = tuple(given)
        self._pins = pins or PinFile()
        self._functions: tuple[Tool, ...] = ()
        self._servers: McpTools | None = None
        self.on_event: Callable[[McpEvent], None] = _tell_nobody
        """Called when something becomes of an MCP server."""
        self.on_trouble: Callable[[OSError], None] = _forget
        """Called when the pins of MCP tools cannot be kept."""

    @property
    def reached(self) -> Mapping[str, bool]:
        """For each MCP server, whether it is there at the moment."""
        return {} if self._servers is None else self._servers.reached

    @property
    def are_ready(self) -> bool:
        """True if every required MCP server is connected."""
        return self._servers is None or self._servers.is_ready

    def offer(self) -> tuple[Tool, ...]:
        """The tools of this moment."""
        return (*self._given, *self._functions, *(self._servers or ()))

    async def replace(self, loaded: Loaded) -> McpTools | None:
        """Import the functions and start the servers of a configuration.

        Return the servers of before: runs that are under way may need them.
        """
        functions = load_functions(loaded)
        definitions = [tool for tool in loaded.config.tools if isinstance(tool, McpTool)]
        servers = None
        if definitions:
            made = (each.make_server() for each in definitions)
            pins = self._pins.read()
            servers = await McpTools(*made, pins=pins, tap=self._take).__aenter__()
            self._keep_pins(servers)
        retired = self._servers
        self._functions, self._servers = functions, servers
        return retired

    def _take(self, event: McpEvent) -> None:
        self.on_event(event)
        if self._servers is not None:
            self._keep_pins(self._servers)

    def _keep_pins(self, servers: McpTools) -> None:
        try:
            self._pins.keep(servers.pins)
        except OSError as error:  # a folder that cannot be written does not prevent serving
            self.on_trouble(error)

    async def close(self) -> None:
        """End the servers."""
        if self._servers is not None:
            servers, self._servers = self._servers, None
            await servers.__aexit__()


def state_path(config: Config) -> Path:
    """Return the path of the state file."""
    return Path(config.keys.path).with_name(STATE_FILE)


def responses_path(config: Config) -> Path | None:
    """Return the path for responses that several processes serve; None: in the memory of one."""
    shared = config.listen.workers > 1 and config.responses.kept_seconds > 0
    return Path(config.keys.path).with_name(RESPONSES_FILE) if shared else None

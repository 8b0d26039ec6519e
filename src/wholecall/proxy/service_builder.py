"""Build what is served from a configuration: models, tools with the pins of MCP servers, stores."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from pathlib import Path as FilePath

from wholecall.journal.postgres_journal import PostgresJournal
from wholecall.journal.postgres_server import PostgresBlobs, PostgresSession
from wholecall.journal.sqlite_journal import SqliteJournal
from wholecall.protocols.registry import RESPONSES
from wholecall.proxy.config.check import ANY_MODEL
from wholecall.proxy.config.load import Loaded
from wholecall.proxy.config.schema import (
    Config,
    ConfigError,
    ConfigProblem,
    McpTool,
    ModelConfig,
    Position,
    PythonTool,
    ToolConfig,
    find_shared_url,
    reveal,
)
from wholecall.proxy.handlers.idempotency import DurableRuns
from wholecall.proxy.handlers.passthrough import UpstreamPipe
from wholecall.proxy.handlers.request_plan import ModelRoute
from wholecall.proxy.handlers.response_store import ResponseOwners, ResponseStore
from wholecall.proxy.http.api_keys import ANONYMOUS, Key, KeyStore, needs_keys, open_keys
from wholecall.proxy.http.rate_limits import RateLimits
from wholecall.proxy.observe.taps import sleep_and_tell
from wholecall.storage import BlobStore, StoreFailed
from wholecall.tools.mcp.tool_definitions import McpEvent, Pins
from wholecall.tools.mcp.toolset import McpTools
from wholecall.tools.tool import Tool
from wholecall.tools.toolbox import import_tool
from wholecall.upstreams.http import HttpSettings, HttpUpstream
from wholecall.upstreams.providers import find_upstream
from wholecall.upstreams.retry import RetryPolicy

_LOG = logging.getLogger(__name__)


def load_functions(loaded: Loaded) -> tuple[Tool, ...]:
    """Import the functions; raise `ConfigError` naming each that cannot be a tool.

    The folder of the file is searched last, so that no file in it shadows a package.
    """
    _search(FilePath() if loaded.file is None else loaded.file.parent)
    tools: list[Tool] = []
    problems: list[ConfigProblem] = []
    for number, entry in enumerate(loaded.config.tools):
        if not isinstance(entry, PythonTool):
            continue
        found = import_tool(entry.python)
        if isinstance(found, Tool):
            tools.append(found)
        else:
            problems.append(loaded.blame(("tools", str(number), "python"), found))
    if problems:
        raise ConfigError(problems)
    return tuple(tools)


class ImportedModules:
    """Notices that the file of an imported module has changed: it is not imported again, because
    what runs may use what it made."""

    def __init__(self) -> None:
        self._times: dict[str, int] = {}
        """Of the files, by module, when they were first seen here."""

    def note(self, tools: Iterable[ToolConfig]) -> None:
        """Remember the modules of Python tools."""
        for module in _modules_of(tools).values():
            self._times.setdefault(module, _file_time(module))

    def find_stale(self, tools: Iterable[ToolConfig]) -> tuple[str, ...]:
        """Return the settings of tools whose files have changed since they were imported."""
        return tuple(
            f"tools.{number}.python (its file has changed)"
            for number, module in _modules_of(tools).items()
            if _file_time(module) != self._times.get(module)
        )


def _modules_of(tools: Iterable[ToolConfig]) -> dict[int, str]:
    return {
        number: entry.python.partition(":")[0]
        for number, entry in enumerate(tools)
        if isinstance(entry, PythonTool)
    }


def _file_time(module: str) -> int:
    """Return when the file of a module was written; 0 if it has none."""
    file = getattr(sys.modules.get(module), "__file__", None)
    try:
        return os.stat(file).st_mtime_ns if file else 0
    except OSError:
        return 0


def _search(folder: FilePath) -> None:
    place = str(folder.resolve())
    if place not in sys.path:
        sys.path.append(place)


# The pins of MCP tools, kept over a restart.
#
# A tool that changed is not offered. To accept it, the operator deletes its line from the file, or
# the whole file, and reloads the configuration.


PINS_FILE = "wholecall-pins.json"
"""Beside the file of the keys."""


class PinFile:
    """The file of the pins. Without a path they are forgotten with the process."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._kept = Pins()

    def read(self) -> Pins:
        """Return the pins; none without a file. Raise `ConfigError` for an invalid file."""
        if self._path is None:
            return Pins()
        try:
            self._kept = Pins.from_json(self._path.read_bytes())
        except FileNotFoundError:
            self._kept = Pins()
        except (ValueError, OSError) as error:
            why = f"the pins of MCP tools cannot be read: {error}; mend the file, or delete it"
            raise ConfigError([ConfigProblem(Position(str(self._path)), "", why)]) from None
        return self._kept

    def keep(self, pins: Pins) -> None:
        """Write them down, if they have changed; an `OSError` if that cannot be."""
        if self._path is None or pins == self._kept:
            return
        # Several processes may do so at the same time.
        fresh = self._path.with_suffix(f".{os.getpid()}.new")
        fresh.write_text(pins.to_json(), "utf-8")
        os.replace(fresh, self._path)
        self._kept = pins


class SharedPins(PinFile):
    """The pins in PostgreSQL: a new machine does not trust anew what it sees first."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._session = PostgresSession(url)

    def read(self) -> Pins:
        """Return the pins. While the server is away, no tool is trusted."""
        try:
            rows = self._session.ask("SELECT server, tool, sha256 FROM wholecall.pins")
            self._session.close()
        except StoreFailed as error:
            _LOG.error("no MCP tool is offered, because the pins are unknown: %s", error.why)
            return Pins(strict=True)
        pins = Pins()
        for server, tool, sha256 in rows:
            pins = pins.pin(server, {tool: sha256})
        self._kept = pins
        return pins

    def keep(self, pins: Pins) -> None:
        """Write them down, if they have changed. What another machine has pinned stays."""
        if pins == self._kept or pins.strict:
            return
        known = {(server, tool) for server, tools in self._kept.digests.items() for tool in tools}
        rows = [
            (server, tool, digest)
            for server, tools in pins.digests.items()
            for tool, digest in tools.items()
            if (server, tool) not in known
        ]
        self._kept = pins
        threading.Thread(target=self._write, args=(rows,), name="wholecall pins").start()

    def _write(self, rows: Sequence[tuple[str, str, str]]) -> None:
        insert = "INSERT INTO wholecall.pins VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
        try:
            with self._session.change() as database:
                for row in rows:
                    database.execute(insert, row)
            self._session.close()
        except StoreFailed as error:
            _LOG.warning("the pins of MCP tools cannot be saved: %s", error.why)


def find_pins(config: Config) -> PinFile:
    """Return where the pins of MCP tools are kept."""
    url = find_shared_url(config)
    return SharedPins(url) if url else PinFile(Path(config.keys.path).with_name(PINS_FILE))


# From a configuration to what is served.


STATE_FILE = "wholecall-state.sqlite"
"""Beside the file of the keys: what conversations with tools of both sides need to go on."""
RUNS_FILE = "wholecall-runs.sqlite"
"""Beside it, too: the journal of the runs whose tools run here."""
RESPONSES_FILE = "wholecall-responses.sqlite"
"""Beside it, too: the responses that several processes hold."""


def make_models(
    config: Config, environ: Mapping[str, str], *, without: Collection[str] = ()
) -> tuple[ModelRoute, ...]:
    """The models of a configuration, each with connections of its own."""
    return tuple(
        _make_model(name, model, environ=environ)
        for name, model in config.models.items()
        if name not in without
    )


def _make_model(name: str, model: ModelConfig, *, environ: Mapping[str, str]) -> ModelRoute:
    settings = HttpSettings(
        timeouts=model.timeouts,
        retry=RetryPolicy(retries=model.retries, sleep=sleep_and_tell),
        environ=environ,
        answer_bytes=model.answer_bytes,
    )
    route = find_upstream(name, settings=settings, named={name: model.as_named()})
    upstream = route.upstream
    endpoint = upstream.endpoint if isinstance(upstream, HttpUpstream) else None
    return ModelRoute(
        name=name,
        upstream=upstream,
        model=ANY_MODEL if name == ANY_MODEL else route.model,
        settings=model,
        pipe=UpstreamPipe(endpoint, settings) if endpoint is not None else None,
        place=endpoint.place if endpoint is not None else "",
    )


def _ignore(_: object) -> None:
    """Do nothing: no one is listening."""


class Tools:
    """The tools that run here: functions, and whatever the MCP servers offer at the moment."""

    def __init__(self, given: Iterable[Tool] = (), *, pins: PinFile | None = None) -> None:
        self._given = tuple(given)
        self._pins = pins or PinFile()
        self._functions: tuple[Tool, ...] = ()
        self._servers: McpTools | None = None
        self._modules = ImportedModules()
        self.on_event: Callable[[McpEvent], None] = _ignore
        """Called when something becomes of an MCP server."""
        self.on_trouble: Callable[[OSError], None] = _ignore
        """Called when the pins of MCP tools cannot be saved."""

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

    def find_stale(self, tools: Iterable[ToolConfig]) -> tuple[str, ...]:
        """Return the settings of Python tools whose files have changed since they were imported."""
        return self._modules.find_stale(tools)

    async def replace(self, loaded: Loaded) -> McpTools | None:
        """Import the functions and start the servers of a configuration.

        Return the servers of before: runs that are under way may need them.
        """
        functions = load_functions(loaded)
        self._modules.note(loaded.config.tools)
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


class Stores:
    """The stores that outlive a request: runs, conversations, responses, keys and their limits."""

    def __init__(self, config: Config, routes: Iterable[ModelRoute]) -> None:
        self.runs = make_runs(config)
        self.state = _open_state(config, routes)
        """The owners of what is kept at an upstream."""
        self.responses = ResponseStore(
            config.responses, blobs=_open_responses(config), owners=ResponseOwners(self.state)
        )
        self.keys = _find_keys(config)
        """None until there is a key, or one is required."""
        self.rate_limits = RateLimits()

    def open_keys(self, config: Config) -> KeyStore | None:
        """Return the store of the keys. The first key may have been made since the start."""
        return self.keys or _find_keys(config)

    def find_key(self, id: str) -> Key | None:
        """Return the key that a run is carried out for; None if it is not valid any more."""
        if not id:
            return ANONYMOUS
        return None if self.keys is None else self.keys.find(id)

    def keep_state(self, config: Config, routes: Iterable[ModelRoute]) -> None:
        """Keep the state in a file if these routes need it there."""
        if _needs_state(config, routes):
            self.state.move_to(state_path(config))

    def reload(self, config: Config, *, keys: KeyStore | None) -> None:
        """Use other settings."""
        self.responses.settings = config.responses
        self.keys = keys

    def close(self) -> None:
        """Close all files. What fails keeps nothing else open, and is raised."""
        with ExitStack() as last_first:
            last_first.callback(self.responses.close)
            last_first.callback(self.state.close)
            if self.keys is not None:
                last_first.callback(self.keys.close)
            last_first.callback(self.runs.close)


def _find_keys(config: Config) -> KeyStore | None:
    return open_keys(config) if needs_keys(config) else None


def _open_state(config: Config, routes: Iterable[ModelRoute]) -> BlobStore:
    url = find_shared_url(config)
    if url:
        return PostgresBlobs(PostgresSession(url), STATE_FILE)
    return BlobStore(state_path(config) if _needs_state(config, routes) else None)


def _open_responses(config: Config) -> BlobStore | None:
    """Return where several processes hold finished responses; None: each in its memory."""
    path, url = responses_path(config), find_shared_url(config)
    if url and config.responses.kept_seconds > 0:
        return PostgresBlobs(PostgresSession(url), RESPONSES_FILE)
    return None if path is None else BlobStore(path)


def _needs_state(config: Config, routes: Iterable[ModelRoute]) -> bool:
    """Return True if an upstream holds what belongs to one of several keys."""
    return needs_keys(config) and any(route.upstream.protocol == RESPONSES for route in routes)


def state_path(config: Config) -> Path:
    """Return the path of the state file."""
    return Path(config.keys.path).with_name(STATE_FILE)


def name_journal(config: Config) -> str:
    """Return the journal of runs: `sqlite:<file>` or `postgresql://…`."""
    url = reveal(config.journal.url)
    return url or f"sqlite:{Path(config.keys.path).with_name(RUNS_FILE)}"


def find_runs_file(config: Config) -> Path | None:
    """Return the file of the journal of runs; None if it is in PostgreSQL."""
    kind, _, place = name_journal(config).partition(":")
    return Path(place) if kind == "sqlite" else None


def make_runs(config: Config) -> DurableRuns:
    """Return the durable runs of a proxy. Their journal is opened when it is needed."""
    path = find_runs_file(config)
    if path is None:
        return DurableRuns(lambda: PostgresJournal(name_journal(config)), is_remote=True)
    return DurableRuns(lambda: SqliteJournal(path), exists=path.exists)


def responses_path(config: Config) -> Path | None:
    """Return the path for responses that several processes serve; None: in the memory of one."""
    shared = config.listen.workers > 1 and config.responses.kept_seconds > 0
    return Path(config.keys.path).with_name(RESPONSES_FILE) if shared else None

"""Every setting with its default and meaning, secrets, and configuration errors with their
position.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple, TypeAlias

from wholecall.agent.budget import RunLimits
from wholecall.errors import WholecallError
from wholecall.tools.mcp.server_config import McpServer
from wholecall.upstreams.http_connection import Timeouts
from wholecall.upstreams.secrets import HIDDEN


class Secret:
    """A key, or a text that holds one. Neither `str` nor `repr` shows it. It does not change."""

    __slots__ = ("_text", "_written")

    def __init__(self, text: str, *, written: str = HIDDEN) -> None:
        self._text = text
        self._written = written

    @property
    def written(self) -> str:
        """The setting as written in the file: `${OPENAI_API_KEY}`."""
        return self._written

    def reveal(self) -> str:
        """The text itself, for the one place that needs it."""
        return self._text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return f"Secret({self._written!r})"

    def __str__(self) -> str:
        return HIDDEN


def reveal(text: str | Secret) -> str:
    """The text of a value that may be a secret."""
    return text.reveal() if isinstance(text, Secret) else text


# A problem of a configuration: its position, what it is, and what to write instead.


class Position(NamedTuple):
    """The position of a value."""

    file: str
    """A file, or the environment variable that holds the value."""
    line: int | None = None
    """Counted from 1; None for an environment variable."""

    def __str__(self) -> str:
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing that is wrong."""

    place: Position
    setting: str
    """Its name with those of its sections: `models.fast.mode`; empty for the file as a whole."""
    message: str

    def __str__(self) -> str:
        setting = f"{self.setting}: " if self.setting else ""
        return f"{self.place}: {setting}{self.message}"


class ConfigError(WholecallError, ValueError):
    """A configuration cannot be used."""

    def __init__(self, problems: Sequence[ConfigProblem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)
        """All of them, in the order in which they were found."""
        self.file, self.line = problems[0].place
        self.message = problems[0].message


# Every setting of the proxy, with its default and its meaning.
#
# The texts below the fields are the documentation: docs/configuration.md and `wholecall config
# settings` are made of them.


ANYTHING = ("*",)
_SPECIAL = re.compile(r"[\[?]")


class Range(NamedTuple):
    """The numbers that a setting takes. Without one it takes those above 0."""

    least: float
    most: float | None = None


class NeedsRestart(NamedTuple):
    """Marks a setting that a running proxy cannot change."""


NEEDS_RESTART = NeedsRestart()
OpenPath: TypeAlias = Literal["/ready", "/metrics", "/inspector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenConfig:
    """The listening address."""

    host: Annotated[str, NEEDS_RESTART] = "127.0.0.1"
    """Address to listen on. Any but a loopback address needs `keys.required` and `listen.hosts`."""
    port: Annotated[int, Range(0, 65535), NEEDS_RESTART] = 8787
    """Port to listen on; 0: any that is free."""
    workers: Annotated[int, Range(1, 256), NEEDS_RESTART] = 1
    """Processes that share the port. Each counts requests and runs for itself."""
    hosts: tuple[str, ...] = ()
    """Host names that clients may use (the `Host` header), in addition to those of the loopback;
    `*.example.com` is a pattern, `*` any name. Protects against websites that reach the proxy
    through a name of their own."""
    origins: tuple[str, ...] = ()
    """Websites whose pages may call it from a browser, such as `https://chat.example.com`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A model under the name that clients use for it."""

    upstream: str
    """The upstream and its name for the model: `openai/gpt-x`, `responses/…`, `anthropic/…`,
    `ollama/…`, `gemini/…`, `local/…` or `litellm/…`. For the model `*`: `openai/*`."""
    base_url: str | None = None
    """Address of the upstream instead of its usual one."""
    api_key: Secret | None = None
    """Key for the upstream, only as `${NAME}`. Without it the upstream's usual variable is
    read, such as `OPENAI_API_KEY`."""
    headers: Mapping[str, str | Secret] = field(default_factory=dict)
    """Headers for the upstream. Those that hold keys only as `${NAME}`."""
    mode: Literal["gate", "run"] = "gate"
    """`gate`: calls are checked and handed to the client. `run`: the tools below run here,
    others are handed to the client."""
    tools: tuple[str, ...] = ANYTHING
    """Names of the tools that are offered in mode `run`; `*` is a wildcard. A key needs a right to
    them as well."""
    emulate: str | None = None
    """The way in which the model gets tools: `native`, `auto` (by its name), `constrained`, or the
    name of a dialect. Default: `native`, and `constrained` for a `local/…` model."""
    rescue: Literal["off", "read_only", "all"] | None = None
    """The calls to rescue from the text of a model that has tools natively: `off` none, `read_only`
    those of tools that change nothing, `all` every one. The default is `read_only` for tools that
    run here and `all` for those of the client."""
    reask: Annotated[int, Range(0, 5)] = 1
    """Mode `gate`: the number of retries for a bad call before the client sees it. A call that the
    output limit cut is retried with more room, up to `limits.output_tokens`."""
    live: bool = False
    """Mode `gate`: streams show arguments as they grow, before they are checked. A call that then
    turns out to be wrong, or has to be repaired, ends the stream with an error, without a retry."""
    retries: Annotated[int, Range(0, 5)] = 2
    """Retries for an upstream that refuses with 429 or 5xx."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    """Timeouts of the upstream."""
    limits: RunLimits = field(default_factory=RunLimits)
    """Limits of a run of this model."""

    def reveal_headers(self) -> dict[str, str]:
        """The headers as they are sent."""
        return {name: reveal(value) for name, value in self.headers.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonTool:
    """A function of a Python module."""

    python: str
    """`module:function`. The folder of the configuration file is searched, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTool:
    """All tools of an MCP server: a command that is started, or an address."""

    mcp: str
    """A name for the server. The names of its tools begin with it."""
    command: str = ""
    """Program to start. It runs with the rights of the proxy."""
    args: tuple[str, ...] = ()
    """Arguments of the program."""
    env: Mapping[str, str | Secret] = field(default_factory=dict)
    """Environment of the program. Keys only as `${NAME}`."""
    cwd: str | None = None
    """Folder in which the program starts."""
    url: str = ""
    """Address of a streamable HTTP endpoint, instead of a command."""
    headers: Mapping[str, str | Secret] = field(default_factory=dict)
    """Headers for the address. Those that hold keys only as `${NAME}`."""
    trusted: bool = False
    """Trust its `readOnlyHint` and `idempotentHint`. Such tools may start early and run again."""
    required: bool = True
    """Wait for it before the proxy is ready."""
    timeout: float | None = None
    """Seconds of one call; without it the limit of the run."""
    start_timeout: float = 30.0
    """Seconds until it must have named its tools."""
    concurrency: int | None = None
    """Calls that may run at a time."""
    prefix: str | None = None
    """The prefix of the tools' names, instead of the server's name."""
    allow: tuple[str, ...] = ANYTHING
    """Tools that are offered; `*` is a wildcard."""
    deny: tuple[str, ...] = ()
    """Tools that are not, although `allow` names them."""

    def make_server(self) -> McpServer:
        """The server to open; `ValueError` if the settings do not go together."""
        return McpServer(
            self.mcp,
            command=self.command,
            args=self.args,
            env={name: reveal(value) for name, value in self.env.items()},
            cwd=self.cwd,
            url=self.url,
            headers={name: reveal(value) for name, value in self.headers.items()},
            trusted=self.trusted,
            required=self.required,
            timeout=self.timeout,
            start_timeout=self.start_timeout,
            concurrency=self.concurrency,
            prefix=self.prefix,
            allow=self.allow,
            deny=self.deny,
        )


ToolConfig: TypeAlias = PythonTool | McpTool


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysConfig:
    """Client keys."""

    path: Annotated[str, NEEDS_RESTART] = "wholecall-keys.sqlite"
    """File of the keys, seen from the folder of the configuration file."""
    required: bool = False
    """Require a key. Without it, everyone who reaches the proxy may use all of it."""
    open: tuple[OpenPath, ...] = ()
    """Pages that need no key: `/ready`, `/metrics`, `/inspector`. `/health` never needs one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Limits for clients."""

    body_bytes: int = 32 * 1024 * 1024
    """Bytes of a request. Anthropic's own limit is 32 MB; images are large."""
    body_seconds: float = 60.0
    """Seconds until a request must have come as a whole."""
    header_bytes: Annotated[int, Range(1024)] = 32 * 1024
    """Bytes of all headers of a request."""
    header_count: Annotated[int, Range(10)] = 100
    """Headers of a request."""
    header_seconds: Annotated[float, NEEDS_RESTART] = 10.0
    """Seconds until the headers of a request must have come."""
    write_seconds: float = 60.0
    """Seconds after which a client that does not read its answer is given up."""
    concurrent: int = 1000
    """Requests to models that one worker serves at a time."""
    keep_alive_seconds: Annotated[float, Range(0.1, 15)] = 15.0
    """Seconds of silence in a stream after which a sign of life is sent."""
    drain_seconds: Annotated[float, Range(0)] = 30.0
    """Seconds that runs have to end when the proxy is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesConfig:
    """Stored responses of OpenAI's protocol."""

    kept_seconds: Annotated[float, Range(0)] = 3600.0
    """Seconds for which a response can be retrieved by its id and continued by
    `previous_response_id`; 0: none is stored. In memory; with more than one worker in
    `wholecall-responses.sqlite` beside the keys, and then without background responses."""
    megabytes: int = 32
    """Megabytes that are held of responses that are over. The oldest go first. What is being
    made comes on top, up to 16 megabytes each, and so does what a resend may ask for, for two
    minutes."""
    background: int = 100
    """Responses that are made in the background at a time. A key that has a number of requests
    at a time has as many in the background."""
    background_seconds: float = 3600.0
    """Seconds after which a response in the background is broken off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """The log."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is logged."""
    format: Annotated[Literal["json", "text"], NEEDS_RESTART] = "json"
    """One line of JSON an event, or words for people."""
    bodies: bool = False
    """Log texts, arguments and results. They may be private."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig:
    """Figures for Prometheus."""

    enabled: Annotated[bool, NEEDS_RESTART] = True
    """Serve `/metrics`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectorConfig:
    """The page that shows calls being built."""

    enabled: Annotated[bool, NEEDS_RESTART] = False
    """Serve `/inspector`: a page that shows runs, live and past."""
    bodies: bool = False
    """Store and show content: texts, arguments, results, chunks. They may be private. Without it
    there are names, verdicts, sizes and times."""
    days: Annotated[float, NEEDS_RESTART] = 7.0
    """Days that a run is kept."""
    megabytes: Annotated[int, NEEDS_RESTART] = 256
    """Megabytes that are kept, in `wholecall-inspector.sqlite` beside the keys. The oldest runs
    go first."""
    approval_seconds: float = 120.0
    """Seconds that a call which needs approval waits for an answer in the page; then it is
    denied. Without the page it is denied at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings of a proxy."""

    listen: ListenConfig = field(default_factory=ListenConfig)
    """The listening address."""
    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    """By the names that clients use. The name `*` matches every other one."""
    tools: tuple[ToolConfig, ...] = ()
    """Tools for models in mode `run`."""
    keys: KeysConfig = field(default_factory=KeysConfig)
    """Client keys."""
    limits: ServerLimits = field(default_factory=ServerLimits)
    """Limits for clients."""
    responses: ResponsesConfig = field(default_factory=ResponsesConfig)
    """Stored responses."""
    log: LogConfig = field(default_factory=LogConfig)
    """The log."""
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    """Figures for Prometheus."""
    inspector: InspectorConfig = field(default_factory=InspectorConfig)
    """The page that shows calls being built."""


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Return True if one of the patterns matches the name; only `*` is special in them."""
    return patterns == ANYTHING or _compile(patterns).fullmatch(name) is not None


@lru_cache(maxsize=1024)
def _compile(patterns: tuple[str, ...]) -> re.Pattern[str]:
    # `translate` writes what takes no more time for many stars, however long a client's name is.
    fitting = (translate(_SPECIAL.sub(r"[\g<0>]", pattern)) for pattern in patterns)
    return re.compile("|".join(fitting) or r"(?!)")

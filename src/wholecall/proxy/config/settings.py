"""Every setting of the proxy, with its default and its meaning.

The texts below the fields are the documentation: docs/configuration.md and
`wholecall config settings` are made of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import translate
from functools import lru_cache
from typing import Annotated, Literal, NamedTuple, TypeAlias

from wholecall.proxy.config.secret import Secret, reveal
from wholecall.runs.limits import RunLimits
from wholecall.tools.mcp.server import McpServer
from wholecall.upstreams.http1.base import Timeouts

ANYTHING = ("*",)
_SPECIAL = re.compile(r"[\[?]")


class Range(NamedTuple):
    """The numbers that a setting takes. Without one it takes those above 0."""

    least: float
    most: float | None = None


class Restart(NamedTuple):
    """Marks a setting that a running proxy cannot change."""


RESTART = Restart()
OpenPath: TypeAlias = Literal["/ready", "/metrics", "/inspector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenConfig:
    """Where clients reach the proxy."""

    host: Annotated[str, RESTART] = "127.0.0.1"
    """Address to listen on. Any but a loopback address needs `keys.required` and `listen.hosts`."""
    port: Annotated[int, Range(0, 65535), RESTART] = 8787
    """Port to listen on; 0: any that is free."""
    workers: Annotated[int, Range(1, 256), RESTART] = 1
    """Processes that share the port. Each counts requests and runs for itself."""
    hosts: tuple[str, ...] = ()
    """Names by which clients may call it (the `Host` header), besides those of the loopback;
    `*.example.com` is a pattern, `*` any name. Keeps websites from reaching it through a name
    of theirs."""
    origins: tuple[str, ...] = ()
    """Websites whose pages may call it from a browser, such as `https://chat.example.com`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A model under the name that clients use for it."""

    upstream: str
    """Who answers, and their name for the model: `openai/gpt-x`, `responses/…`, `anthropic/…`,
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
    """Names of the tools that are offered in mode `run`; `*` stands for anything. A key needs a
    right to them, too."""
    emulate: str | None = None
    """How the model gets tools: `native`, `auto` (by its name), `constrained`, or the name of a
    dialect. Without it `native`, and for a `local/…` model `constrained`."""
    rescue: Literal["off", "read_only", "all"] | None = None
    """Which calls are taken from the text of a model that has tools natively: `off` none,
    `read_only` those of tools that change nothing, `all` every one. Without it `read_only` for
    tools that run here and `all` for those of the client."""
    reask: Annotated[int, Range(0, 5)] = 1
    """Mode `gate`: how often the model is asked again for a bad call before the client sees it. A
    call that the output limit cut is asked for with more room, up to `limits.output_tokens`."""
    live: bool = False
    """Mode `gate`: streams show arguments as they grow, before they are checked. A call that then
    turns out to be wrong, or has to be repaired, ends the stream with an error; it is not asked for
    again."""
    retries: Annotated[int, Range(0, 5)] = 2
    """How often an upstream that refuses with 429 or 5xx is asked again."""
    timeouts: Timeouts = field(default_factory=Timeouts)
    """How long to wait for the upstream."""
    limits: RunLimits = field(default_factory=RunLimits)
    """How far a run of this model may go."""

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
    """Whether to believe it which of its tools are read-only. These may start early and run
    again."""
    required: bool = True
    """Whether the proxy waits for it before it is ready."""
    timeout: float | None = None
    """Seconds of one call; without it the limit of the run."""
    start_timeout: float = 30.0
    """Seconds until it must have named its tools."""
    concurrency: int | None = None
    """Calls that may run at a time."""
    prefix: str | None = None
    """What the tools' names begin with instead of the server's name."""
    allow: tuple[str, ...] = ANYTHING
    """Tools that are offered; `*` stands for anything."""
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
    """Who may use the proxy."""

    path: Annotated[str, RESTART] = "wholecall-keys.sqlite"
    """File of the keys, seen from the folder of the configuration file."""
    required: bool = False
    """Whether a client needs a key. Without one, whoever reaches the proxy may use all of it."""
    open: tuple[OpenPath, ...] = ()
    """Pages that need no key: `/ready`, `/metrics`, `/inspector`. `/health` never needs one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """What the proxy takes from clients."""

    body_bytes: int = 32 * 1024 * 1024
    """Bytes of a request. Anthropic's own limit is 32 MB; images are large."""
    body_seconds: float = 60.0
    """Seconds until a request must have come as a whole."""
    header_bytes: Annotated[int, Range(1024)] = 32 * 1024
    """Bytes of all headers of a request."""
    header_count: Annotated[int, Range(10)] = 100
    """Headers of a request."""
    header_seconds: Annotated[float, RESTART] = 10.0
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
    """Responses of OpenAI's protocol that are held for whoever asks for them again."""

    kept_seconds: Annotated[float, Range(0)] = 3600.0
    """Seconds that a response can be asked for by its id and continued by
    `previous_response_id`; 0: none is held. In memory; with more than one worker in
    `wholecall-responses.sqlite` beside the keys, and then none is made in the background."""
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
    """What is logged."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is logged."""
    format: Annotated[Literal["json", "text"], RESTART] = "json"
    """One line of JSON an event, or words for people."""
    bodies: bool = False
    """Whether texts, arguments and results are logged. They may hold what is private."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig:
    """Figures for Prometheus."""

    enabled: Annotated[bool, RESTART] = True
    """Whether `/metrics` is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectorConfig:
    """The page that shows calls being built."""

    enabled: Annotated[bool, RESTART] = False
    """Whether `/inspector` is there: a page that shows runs, live and looking back."""
    bodies: bool = False
    """Whether it keeps and shows what was said: texts, arguments, results, chunks. They may hold
    what is private. Without it there are names, verdicts, sizes and times."""
    days: Annotated[float, RESTART] = 7.0
    """Days that a run is kept."""
    megabytes: Annotated[int, RESTART] = 256
    """Megabytes that are kept, in `wholecall-inspector.sqlite` beside the keys. The oldest runs
    go first."""
    approval_seconds: float = 120.0
    """Seconds that a call which needs approval waits for an answer in the page; then it is
    denied. Without the page it is denied at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings of a proxy."""

    listen: ListenConfig = field(default_factory=ListenConfig)
    """Where clients reach it."""
    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    """By the names that clients use. The name `*` stands for every other one."""
    tools: tuple[ToolConfig, ...] = ()
    """What models in mode `run` may call."""
    keys: KeysConfig = field(default_factory=KeysConfig)
    """Who may use it."""
    limits: ServerLimits = field(default_factory=ServerLimits)
    """What it takes from clients."""
    responses: ResponsesConfig = field(default_factory=ResponsesConfig)
    """Responses that can be asked for again."""
    log: LogConfig = field(default_factory=LogConfig)
    """What is logged."""
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    """Figures for Prometheus."""
    inspector: InspectorConfig = field(default_factory=InspectorConfig)
    """The page that shows calls being built."""


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns fits the name; only `*` is special in them."""
    return patterns == ANYTHING or _compile(patterns).fullmatch(name) is not None


@lru_cache(maxsize=1024)
def _compile(patterns: tuple[str, ...]) -> re.Pattern[str]:
    # `translate` writes what takes no more time for many stars, however long a client's name is.
    fitting = (translate(_SPECIAL.sub(r"[\g<0>]", pattern)) for pattern in patterns)
    return re.compile("|".join(fitting) or r"(?!)")

"""Every setting with its type, default and meaning; secrets; problems with their position."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import translate
from functools import cache, lru_cache
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

import pydantic_core
from pydantic import (
    AfterValidator,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    PlainValidator,
    Tag,
    TypeAdapter,
    ValidationInfo,
    with_config,
)
from pydantic_core import CoreSchema, PydanticCustomError

from wholecall.agent.budget import RunLimits
from wholecall.errors import WholecallError
from wholecall.events import JSON
from wholecall.tools.mcp.server_config import McpServer
from wholecall.upstreams.http_connection import Timeouts
from wholecall.upstreams.providers import NamedModel
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

    @property
    def is_literal(self) -> bool:
        """True if the text itself was written, and not a variable that holds it."""
        return self._written == HIDDEN

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


def _reveal_all(texts: Mapping[str, str | Secret]) -> dict[str, str]:
    return {name: reveal(text) for name, text in texts.items()}


# A problem of a configuration: its position, what it is, and what to write instead.


Path: TypeAlias = tuple[str, ...]
"""The name of a setting, with those of its sections before it."""


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
REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A variable of the environment: `${OPENAI_API_KEY}`."""
LITERAL_KEY = (
    "a key must not be written in the file: write ${NAME} and set the environment variable NAME"
)
RESTART = "x-restart"
"""In the JSON schema: a running proxy cannot change the setting."""
NEEDS_RESTART = Field(json_schema_extra={RESTART: True})
_PASSWORD = re.compile(r"\w+://[^/@]*:[^/@]+@")
_SPECIAL = re.compile(r"[\[?]")


def _refuse_reference(text: str) -> str:
    if REFERENCE.search(text):
        raise PydanticCustomError("reference", "a variable is not accepted")
    return text


def _fill(value: object, info: ValidationInfo) -> str | Secret:
    """Return a text; with `${NAME}` in it, a secret that is filled from the environment."""
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "not text")
    environ: Mapping[str, str] = info.context or {}
    if not REFERENCE.search(value):
        return value
    return Secret(REFERENCE.sub(lambda found: environ.get(found[1], ""), value), written=value)


def _fill_key(value: object, info: ValidationInfo) -> Secret:
    filled = _fill(value, info)
    return filled if isinstance(filled, Secret) else Secret(filled)


def _fill_address(value: object, info: ValidationInfo) -> str | Secret:
    """Return an address; with a password in it, a secret."""
    filled = _fill(value, info)
    has_password = isinstance(filled, str) and _PASSWORD.match(filled) is not None
    return Secret(reveal(filled)) if has_password else filled


class Above0:
    """Limit the numbers of a section of the library, which has no bounds for files of its own."""

    def __init__(self, *, or_0: Sequence[str] = ()) -> None:
        self._or_0 = or_0

    def __get_pydantic_core_schema__(
        self, section: type, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        schema = handler(section)
        definition: Any = handler.resolve_ref_schema(schema)
        for each in definition["schema"]["fields"]:
            number = each["schema"]
            while "schema" in number:  # the default, and null
                number = number["schema"]
            number["ge" if each["name"] in self._or_0 else "gt"] = 0
        return schema


Text: TypeAlias = Annotated[str, AfterValidator(_refuse_reference)]
Texts: TypeAlias = tuple[Text, ...]
Count: TypeAlias = Annotated[int, Field(gt=0)]
Amount: TypeAlias = Annotated[float, Field(gt=0)]
ApiKey: TypeAlias = Annotated[
    Secret,
    PlainValidator(
        _fill_key, json_schema_input_type=Annotated[str, Field(pattern=REFERENCE.pattern)]
    ),
]
"""Only as `${NAME}`, or in an environment variable."""
SecretTexts: TypeAlias = Mapping[
    str, Annotated[str | Secret, PlainValidator(_fill, json_schema_input_type=str)]
]
_Address: TypeAlias = Annotated[
    str | Secret, PlainValidator(_fill_address, json_schema_input_type=str)
]
Mode: TypeAlias = Literal["gate", "run"]
ForwardedRoute: TypeAlias = Literal[
    "audio", "batches", "completions", "embeddings", "files", "images", "moderations", "rerank"
]
"""Folders below `/v1` that pass through to an upstream which has them."""
OpenPath: TypeAlias = Literal["/ready", "/metrics", "/inspector"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenConfig:
    """The listening address."""

    host: Annotated[Text, NEEDS_RESTART] = "127.0.0.1"
    """Address to listen on. Any but a loopback address needs `keys.required` and `listen.hosts`."""
    port: Annotated[int, Field(ge=0, le=65535), NEEDS_RESTART] = 8787
    """Port to listen on; 0: any that is free."""
    workers: Annotated[int, Field(ge=1, le=256), NEEDS_RESTART] = 1
    """Processes that share the port. Each counts requests and runs for itself."""
    hosts: Texts = ()
    """Host names that clients may use (the `Host` header), in addition to those of the loopback;
    `*.example.com` is a pattern, `*` any name. Protects against websites that reach the proxy
    through a name of their own."""
    origins: Texts = ()
    """Websites whose pages may call it from a browser, such as `https://chat.example.com`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A model under the name that clients use for it."""

    upstream: Text
    """The upstream and its name for the model: `openai/gpt-x`, `responses/…`, `anthropic/…`,
    `ollama/…`, `gemini/…`, `local/…` or `litellm/…`. For the model `*`: `openai/*`."""
    base_url: Text | None = None
    """Address of the upstream instead of its usual one."""
    api_key: ApiKey | None = None
    """Key for the upstream, only as `${NAME}`. Without it the upstream's usual variable is
    read, such as `OPENAI_API_KEY`."""
    headers: SecretTexts = field(default_factory=dict)
    """Headers for the upstream. Those that hold keys only as `${NAME}`."""
    mode: Mode = "gate"
    """`gate`: calls are checked and handed to the client. `run`: the tools below run here,
    others are handed to the client."""
    tools: Texts = ANYTHING
    """Names of the tools that are offered in mode `run`; `*` is a wildcard. A key needs a right to
    them as well."""
    emulate: Text | None = None
    """The way in which the model gets tools: `native`, `auto` (by its name), `constrained`, or the
    name of a dialect. Default: `native`, and `constrained` for a `local/…` model."""
    unsupported_tools: Literal["refuse", "drop"] = "refuse"
    """The treatment of tools that only another provider runs, such as a web search, and of content
    that the upstream's protocol cannot carry, such as a sound: `refuse` answers 400, `drop` leaves
    them out, with a header and a line in the log."""
    rescue: Literal["off", "read_only", "all"] | None = None
    """The calls to rescue from the text of a model that has tools natively: `off` none, `read_only`
    those of tools that change nothing, `all` every one. The default is `read_only` for tools that
    run here and `all` for those of the client."""
    system: Literal["keep", "first"] | None = None
    """System messages on their way to a chat upstream: `keep` them where they are, or make one of
    them at the start (`first`). Without it the model's name decides: `first` for models whose chat
    templates take no other, such as Qwen and Gemma."""
    cache: Literal["auto", "off"] = "auto"
    """Mark the prompt for Anthropic's cache (`cache_control`) if the client speaks another protocol
    and cannot do it: the system prompt, the tools and the last message."""
    reask: Annotated[int, Field(ge=0, le=5)] = 1
    """Mode `gate`: the number of retries for a bad call before the client sees it. A call that the
    output limit cut is retried with more room, up to `limits.output_tokens`."""
    live: bool = False
    """Mode `gate`: streams show arguments as they grow, before they are checked. A call that then
    turns out to be wrong, or has to be repaired, ends the stream with an error, without a retry."""
    routes: tuple[ForwardedRoute, ...] = (
        "audio",
        "completions",
        "embeddings",
        "images",
        "moderations",
        "rerank",
    )
    """Other routes below `/v1` that pass through to an upstream with OpenAI's routes. Add `files`
    and `batches` to the model whose upstream is to have them: they belong to the upstream's
    account, which all keys with a right to the model then share."""
    retries: Annotated[int, Field(ge=0, le=5)] = 2
    """Retries for an upstream that refuses with 429 or 5xx."""
    timeouts: Annotated[Timeouts, Above0()] = field(default_factory=Timeouts)
    """Timeouts of the upstream."""
    answer_bytes: Count = 128 * 1024 * 1024
    """Bytes of an answer that is checked, and held until then. A longer one is an error, and none
    of its calls that wait for its end run."""
    limits: Annotated[RunLimits, Above0(or_0=("turn_retries", "lost_threads"))] = field(
        default_factory=RunLimits
    )
    """Limits of a run of this model."""

    def as_named(self) -> NamedModel:
        """Return what the upstream is found by, with its secrets."""
        return NamedModel(
            model=self.upstream,
            base_url=self.base_url,
            api_key=None if self.api_key is None else self.api_key.reveal(),
            headers=_reveal_all(self.headers),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonTool:
    """A function of a Python module."""

    python: Text
    """`module:function`. The folder of the configuration file is searched, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTool:
    """All tools of an MCP server: a command that is started, or an address."""

    mcp: Text
    """A name for the server. The names of its tools begin with it."""
    command: Text = ""
    """Program to start. It runs with the rights of the proxy."""
    args: Texts = ()
    """Arguments of the program."""
    env: SecretTexts = field(default_factory=dict)
    """Environment of the program. Keys only as `${NAME}`."""
    cwd: Text | None = None
    """Folder in which the program starts."""
    url: Text = ""
    """Address of a streamable HTTP endpoint, instead of a command."""
    headers: SecretTexts = field(default_factory=dict)
    """Headers for the address. Those that hold keys only as `${NAME}`."""
    trusted: bool = False
    """Trust its `readOnlyHint` and `idempotentHint`. Such tools may start early and run again."""
    required: bool = True
    """Wait for it before the proxy is ready."""
    timeout: Amount | None = None
    """Seconds of one call; without it the limit of the run."""
    start_timeout: Amount = 30.0
    """Seconds until it must have named its tools."""
    message_bytes: Count = 16 * 1024 * 1024
    """Bytes of its largest message. A call with a larger answer fails."""
    concurrency: Count | None = None
    """Calls that may run at a time."""
    prefix: Text | None = None
    """The prefix of the tools' names, instead of the server's name."""
    allow: Texts = ANYTHING
    """Tools that are offered; `*` is a wildcard."""
    deny: Texts = ()
    """Tools that are not, although `allow` names them."""
    elicitation: bool = True
    """Let it ask the user while it runs a call: in the inspector's page."""

    def make_server(self) -> McpServer:
        """The server to open; `ValueError` if the settings do not go together."""
        settings = {field.name: getattr(self, field.name) for field in fields(self)}
        secrets = {"env": _reveal_all(self.env), "headers": _reveal_all(self.headers)}
        return McpServer(settings.pop("mcp"), **settings | secrets)


def _choose_tool(value: object) -> str | None:
    """Return which kind of tool an entry describes: the setting that only one kind has says so."""
    kinds = {"python": PythonTool.__name__, "mcp": McpTool.__name__}
    named = [kind for name, kind in kinds.items() if isinstance(value, dict) and name in value]
    return named[0] if len(named) == 1 else None


ToolConfig: TypeAlias = PythonTool | McpTool
_TaggedTool: TypeAlias = Annotated[
    Annotated[PythonTool, Tag(PythonTool.__name__)] | Annotated[McpTool, Tag(McpTool.__name__)],
    Discriminator(_choose_tool),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeysConfig:
    """Client keys."""

    path: Annotated[Text, NEEDS_RESTART] = "wholecall-keys.sqlite"
    """File of the keys, seen from the folder of the configuration file."""
    required: bool = False
    """Require a key. Without it, everyone who reaches the proxy may use all of it."""
    open: tuple[OpenPath, ...] = ()
    """Pages that need no key: `/ready`, `/metrics`, `/inspector`. `/health` never needs one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Limits for clients."""

    body_bytes: Count = 32 * 1024 * 1024
    """Bytes of a request. Anthropic's own limit is 32 MB; images are large."""
    body_seconds: Amount = 60.0
    """Seconds until a request must have come as a whole."""
    header_bytes: Annotated[int, Field(ge=1024)] = 32 * 1024
    """Bytes of all headers of a request."""
    header_count: Annotated[int, Field(ge=10)] = 100
    """Headers of a request."""
    header_seconds: Annotated[Amount, NEEDS_RESTART] = 10.0
    """Seconds until the headers of a request must have come."""
    write_seconds: Amount = 60.0
    """Seconds after which a client that does not read its answer is given up."""
    concurrent: Count = 1000
    """Requests to models that one worker serves at a time."""
    messages: Count = 10_000
    """Messages of a request."""
    parts: Count = 20_000
    """Parts of all messages of a request: texts, images, calls and results."""
    calls: Count = 10_000
    """Calls in the history of a request."""
    tools: Annotated[int, Field(ge=1, le=1024)] = 128
    """Tools that a request may define."""
    tool_bytes: Count = 4 * 1024 * 1024
    """Bytes of the definitions of a request's tools."""
    keep_alive_seconds: Annotated[float, Field(ge=0.1, le=15)] = 15.0
    """Seconds of silence in a stream after which a sign of life is sent."""
    drain_seconds: Annotated[float, Field(ge=0)] = 30.0
    """Seconds that runs have to end when the proxy is stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponsesConfig:
    """Stored responses of OpenAI's protocol."""

    kept_seconds: Annotated[float, Field(ge=0)] = 3600.0
    """Seconds for which a response can be retrieved by its id and continued by
    `previous_response_id`; 0: none is stored. In memory; with more than one worker in
    `wholecall-responses.sqlite` beside the keys. Background responses are in
    `wholecall-runs.sqlite`, and survive a restart."""
    megabytes: Count = 32
    """Megabytes that are held of responses that are over. The oldest go first. What is being
    made in the background is on disk, up to 16 megabytes each."""
    background: Count = 100
    """Responses that are made in the background at a time. A key that has a number of requests
    at a time has as many in the background."""
    background_seconds: Amount = 3600.0
    """Seconds after which a response in the background is broken off."""
    websockets: Annotated[int, Field(ge=0)] = 100
    """WebSocket connections to `/v1/responses` at a time, in one worker. Each holds the
    conversation of its last response. 0: none; clients that ask for one get a 426, after which
    they use HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalConfig:
    """The journal of [durable runs](durable-runs.md)."""

    url: Annotated[_Address, NEEDS_RESTART] = ""
    """Where runs are written down: `sqlite:<file>`, seen from the folder of the configuration file,
    or `postgresql://…` for proxies on several machines, which then share their keys (if they are
    required), pins and stored responses there, too. A password only as `${NAME}`. Default:
    `wholecall-runs.sqlite` beside the keys."""


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
    days: Annotated[Amount, NEEDS_RESTART] = 7.0
    """Days that a run is kept."""
    megabytes: Annotated[Count, NEEDS_RESTART] = 256
    """Megabytes that are kept, in `wholecall-inspector.sqlite` beside the keys. The oldest runs
    go first."""
    approval_seconds: Amount = 120.0
    """Seconds that a call which needs approval waits for an answer in the page; then it is
    denied. Without the page it is denied at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """All settings of a proxy."""

    listen: ListenConfig = field(default_factory=ListenConfig)
    """The listening address."""
    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    """By the names that clients use. The name `*` matches every other one."""
    tools: tuple[_TaggedTool, ...] = ()
    """Tools for models in mode `run`."""
    keys: KeysConfig = field(default_factory=KeysConfig)
    """Client keys."""
    limits: ServerLimits = field(default_factory=ServerLimits)
    """Limits for clients."""
    responses: ResponsesConfig = field(default_factory=ResponsesConfig)
    """Stored responses."""
    journal: JournalConfig = field(default_factory=JournalConfig)
    """The journal of durable runs."""
    log: LogConfig = field(default_factory=LogConfig)
    """The log."""
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    """Figures for Prometheus."""
    inspector: InspectorConfig = field(default_factory=InspectorConfig)
    """The page that shows calls being built."""


SERVERS = ("postgresql", "postgres")
"""The kinds of addresses of a journal that several machines share."""


def find_shared_url(config: Config) -> str:
    """Return the address of the database that several machines share; empty if there is none."""
    url = reveal(config.journal.url)
    return url if url.partition(":")[0] in SERVERS else ""


@cache
def _make_adapter(*, documented: bool = False) -> TypeAdapter[Config]:
    """Return the validator of all sections, which share this configuration of pydantic.

    Texts below the fields are read from the source, which takes most of the time; only the JSON
    schema needs them.
    """
    settings = ConfigDict(
        strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=documented
    )
    return TypeAdapter(with_config(settings)(Config))


def validate(settings: JSON, environ: Mapping[str, str]) -> Config:
    """Return the configuration that was written; `ValidationError` names each wrong setting.

    By way of JSON: strict validation of Python values takes no mapping for a section.
    """
    text = pydantic_core.to_json(settings, inf_nan_mode="constants")
    return _make_adapter().validate_json(text, context=environ)


@cache
def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a configuration file."""
    return _make_adapter(documented=True).json_schema()


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Return True if one of the patterns matches the name; only `*` is special in them."""
    return patterns == ANYTHING or _compile(patterns).fullmatch(name) is not None


@lru_cache(maxsize=1024)
def _compile(patterns: tuple[str, ...]) -> re.Pattern[str]:
    # `translate` writes what takes no more time for many stars, however long a client's name is.
    fitting = (translate(_SPECIAL.sub(r"[\g<0>]", pattern)) for pattern in patterns)
    return re.compile("|".join(fitting) or r"(?!)")

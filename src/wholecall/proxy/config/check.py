"""Rules between settings, beyond the type of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from wholecall.arguments.describe import show
from wholecall.dialects.dialect_registry import way_for
from wholecall.errors import UnusableDialect
from wholecall.proxy.config.schema import (
    LITERAL_KEY,
    Config,
    McpTool,
    ModelConfig,
    Path,
    PythonTool,
    Secret,
    reveal,
)
from wholecall.upstreams.endpoint import check_header, parse_address
from wholecall.upstreams.providers import PREFIXES
from wholecall.upstreams.secrets import names_secret

ANY_MODEL = "*"
_SERVERS = ("postgresql", "postgres")
_JOURNALS = ("sqlite", *_SERVERS)
_HOST_NAME = re.compile(r"[\w-]+(\.[\w-]+)*\.?")
_NO_HOST = re.compile(r"[/\s]")
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


class RuleBreach(NamedTuple):
    """A setting that breaks a rule."""

    path: Path
    why: str


Rule: TypeAlias = Callable[[Config], Iterator[RuleBreach]]


def find_breaches(config: Config) -> Iterator[RuleBreach]:
    """Every rule that is broken."""
    for rule in _RULES:
        yield from rule(config)


def is_loopback(host: str) -> bool:
    """Return True if a listening address can be reached from this machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


# ── Listening ───────────────────────────────────────────────────────────────────────


def _host(config: Config) -> Iterator[RuleBreach]:
    host = config.listen.host
    if not _can_be_listened_on(host):
        advice = "write one of this machine's, such as 127.0.0.1, 0.0.0.0 or ::1"
        yield RuleBreach(("listen", "host"), f"{host!r} is not an address: {advice}")
        return
    yield from _closed_to_strangers(config)


def _can_be_listened_on(host: str) -> bool:
    """An address, or what may be a name: not numbers only, and without a port."""
    try:
        ip_address(host)
    except ValueError:
        last = host.rpartition(".")[2]
        return bool(_HOST_NAME.fullmatch(host)) and not last.isdecimal()
    return True


def _closed_to_strangers(config: Config) -> Iterator[RuleBreach]:
    host = config.listen.host
    if is_loopback(host):
        return
    reached = f"{host!r} can be reached from other machines"
    if not config.keys.required:
        advice = "set keys.required: true and make keys with `wholecall keys create`"
        yield RuleBreach(("listen", "host"), f"{reached}: {advice}, or listen on 127.0.0.1")
    if not config.listen.hosts:
        advice = "list the host names that clients use in listen.hosts, or write ['*']"
        yield RuleBreach(("listen", "host"), f"{reached}: {advice}")


def _host_names(config: Config) -> Iterator[RuleBreach]:
    for number, host in enumerate(config.listen.hosts):
        if not host or _NO_HOST.search(host) or host.rpartition(":")[2].isdecimal():
            why = f"{host!r} is not a host name: write it without http:// and without a port"
            yield RuleBreach(("listen", "hosts", str(number)), why)


def _origins(config: Config) -> Iterator[RuleBreach]:
    for number, origin in enumerate(config.listen.origins):
        if not _is_origin(origin):
            why = f"{origin!r} is not an origin: write it like https://chat.example.com"
            yield RuleBreach(("listen", "origins", str(number)), why)


def _is_origin(text: str) -> bool:
    try:
        parse_address(text)
    except ValueError:
        return False
    parts = urlsplit(text)
    return text == f"{parts.scheme}://{parts.netloc}"


def _journal(config: Config) -> Iterator[RuleBreach]:
    url = config.journal.url
    kind, _, place = reveal(url).partition(":")
    path = ("journal", "url")
    if isinstance(url, str) and url and (kind not in _JOURNALS or not place):
        yield RuleBreach(path, f"{url!r} is no journal: write sqlite:FILE or postgresql://…")
    elif isinstance(url, str) and kind in _SERVERS and urlsplit(url).password:
        yield RuleBreach(path, LITERAL_KEY)


# ── Models ──────────────────────────────────────────────────────────────────────────


def _models(config: Config) -> Iterator[RuleBreach]:
    for name, model in config.models.items():
        path = ("models", name)
        yield from _name(name, model)
        yield from _upstream(path, model)
        yield from _headers((*path, "headers"), model.headers)
        yield from _key((*path, "api_key"), model.api_key)
        if model.live and model.mode != "gate":
            why = "calls that were shown cannot be taken back: use mode gate"
            yield RuleBreach((*path, "live"), why)
        try:
            way_for(model.upstream, override=model.emulate)
        except UnusableDialect as error:
            yield RuleBreach((*path, "emulate"), f"{error}; or write native, auto or constrained")


def _name(name: str, model: ModelConfig) -> Iterator[RuleBreach]:
    if not name.strip() or ("*" in name and name != ANY_MODEL):
        yield RuleBreach(
            ("models", name), "a model's name cannot contain `*`, unless it is just `*`"
        )
    if ("*" in model.upstream) != (name == ANY_MODEL):
        why = f"an upstream like `{PREFIXES[0]}/*` belongs to the model '*' only"
        yield RuleBreach(("models", name, "upstream"), why)


def _upstream(path: Path, model: ModelConfig) -> Iterator[RuleBreach]:
    prefix, slash, name = model.upstream.partition("/")
    if prefix not in PREFIXES and model.base_url is None:
        known = ", ".join(f"{known}/…" for known in PREFIXES)
        why = f"{model.upstream!r} does not name a provider: write {known}; or give a base_url"
        yield RuleBreach((*path, "upstream"), why)
    elif prefix in PREFIXES and not (slash and name):
        yield RuleBreach((*path, "upstream"), f"the name of the model is missing: write {prefix}/…")
    if model.base_url is not None:
        yield from _address((*path, "base_url"), model.base_url)


def _address(path: Path, url: str) -> Iterator[RuleBreach]:
    try:
        parsed = parse_address(url)
    except ValueError as error:
        yield RuleBreach(path, str(error))
        return
    if parsed.user or parsed.password:
        yield RuleBreach(path, "an address must not contain a password: use api_key or headers")


def _key(path: Path, key: Secret | None) -> Iterator[RuleBreach]:
    try:
        check_header("Authorization", reveal(key or ""))
    except ValueError:
        yield RuleBreach(path, "it contains a control character: write the key in one line")


# ── Tools ───────────────────────────────────────────────────────────────────────────


def _tools(config: Config) -> Iterator[RuleBreach]:
    servers: set[str] = set()
    for number, tool in enumerate(config.tools):
        path = ("tools", str(number))
        if isinstance(tool, PythonTool):
            yield from _function(path, tool)
            continue
        yield from _server(path, tool)
        if tool.mcp in servers:
            yield RuleBreach((*path, "mcp"), f"another server is already called {tool.mcp!r}")
        servers.add(tool.mcp)


def _function(path: Path, tool: PythonTool) -> Iterator[RuleBreach]:
    if not _FUNCTION.fullmatch(tool.python):
        why = f"{show(tool.python)} is not the name of a function: write module:function"
        yield RuleBreach((*path, "python"), why)


def _server(path: Path, tool: McpTool) -> Iterator[RuleBreach]:
    yield from _literal_secrets((*path, "env"), tool.env)
    yield from _headers((*path, "headers"), tool.headers)
    wrong = list(_address((*path, "url"), tool.url)) if tool.url else []
    if wrong:
        yield from wrong
        return
    try:
        tool.make_server()
    except ValueError as error:
        yield RuleBreach(path, str(error))


def _headers(path: Path, headers: Mapping[str, str | Secret]) -> Iterator[RuleBreach]:
    yield from _literal_secrets(path, headers)
    for name, value in headers.items():
        try:
            check_header(name, reveal(value))
        except ValueError as error:
            yield RuleBreach((*path, name), str(error))


def _literal_secrets(path: Path, values: Mapping[str, str | Secret]) -> Iterator[RuleBreach]:
    for name, value in values.items():
        if names_secret(name) and not isinstance(value, Secret):
            why = "this looks like a key, which must not be in the file: write ${NAME}"
            yield RuleBreach((*path, name), f"{why} and set that environment variable")


_RULES: tuple[Rule, ...] = (_host, _host_names, _origins, _journal, _models, _tools)

"""Rules between settings, beyond the type of each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

from wholecall.core.words import show
from wholecall.dialects.models import way_for
from wholecall.errors import UnusableDialect
from wholecall.proxy.config.reading import Path
from wholecall.proxy.config.secret import Secret, reveal
from wholecall.proxy.config.settings import Config, McpTool, ModelConfig, PythonTool
from wholecall.upstreams.address import check_header, parse_address
from wholecall.upstreams.names import PREFIXES
from wholecall.upstreams.secrets import names_secret

ANY_MODEL = "*"
_HOST_NAME = re.compile(r"[\w-]+(\.[\w-]+)*\.?")
_NO_HOST = re.compile(r"[/\s]")
_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


class Breach(NamedTuple):
    """A setting that breaks a rule."""

    path: Path
    why: str


Rule: TypeAlias = Callable[[Config], Iterator[Breach]]


def find_breaches(config: Config) -> Iterator[Breach]:
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


def _host(config: Config) -> Iterator[Breach]:
    host = config.listen.host
    if not _can_be_listened_on(host):
        advice = "write one of this machine, such as 127.0.0.1, 0.0.0.0 or ::1, or its name"
        yield Breach(("listen", "host"), f"{host!r} is no address: {advice}")
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


def _closed_to_strangers(config: Config) -> Iterator[Breach]:
    host = config.listen.host
    if is_loopback(host):
        return
    reached = f"{host!r} can be reached from other machines"
    if not config.keys.required:
        advice = "set keys.required: true and make keys with `wholecall keys create`"
        yield Breach(("listen", "host"), f"{reached}: {advice}, or listen on 127.0.0.1")
    if not config.listen.hosts:
        advice = "name in listen.hosts by which names clients call it, or write ['*']"
        yield Breach(("listen", "host"), f"{reached}: {advice}")


def _host_names(config: Config) -> Iterator[Breach]:
    for number, host in enumerate(config.listen.hosts):
        if not host or _NO_HOST.search(host) or host.rpartition(":")[2].isdecimal():
            why = f"{host!r} is no name of a host: write it without http:// and without a port"
            yield Breach(("listen", "hosts", str(number)), why)


def _origins(config: Config) -> Iterator[Breach]:
    for number, origin in enumerate(config.listen.origins):
        if not _is_origin(origin):
            why = f"{origin!r} is no origin: write it as in https://chat.example.com"
            yield Breach(("listen", "origins", str(number)), why)


def _is_origin(text: str) -> bool:
    try:
        parse_address(text)
    except ValueError:
        return False
    parts = urlsplit(text)
    return text == f"{parts.scheme}://{parts.netloc}"


# ── Models ──────────────────────────────────────────────────────────────────────────


def _models(config: Config) -> Iterator[Breach]:
    for name, model in config.models.items():
        path = ("models", name)
        yield from _name(name, model)
        yield from _upstream(path, model)
        yield from _headers((*path, "headers"), model.headers)
        yield from _key((*path, "api_key"), model.api_key)
        if model.live and model.mode != "gate":
            why = "calls that were shown cannot be taken back: use mode gate"
            yield Breach((*path, "live"), why)
        try:
            way_for(model.upstream, override=model.emulate)
        except UnusableDialect as error:
            yield Breach((*path, "emulate"), f"{error}; or write native, auto or constrained")


def _name(name: str, model: ModelConfig) -> Iterator[Breach]:
    if not name.strip() or ("*" in name and name != ANY_MODEL):
        yield Breach(("models", name), "a model's name has no `*` in it, or is `*` as a whole")
    if ("*" in model.upstream) != (name == ANY_MODEL):
        why = "`openai/*` or the like belongs to the model '*', and to no other"
        yield Breach(("models", name, "upstream"), why)


def _upstream(path: Path, model: ModelConfig) -> Iterator[Breach]:
    prefix, slash, name = model.upstream.partition("/")
    if prefix not in PREFIXES and model.base_url is None:
        known = ", ".join(f"{known}/…" for known in PREFIXES)
        why = f"{model.upstream!r} does not say who answers: write {known}; or give a base_url"
        yield Breach((*path, "upstream"), why)
    elif prefix in PREFIXES and not (slash and name):
        yield Breach((*path, "upstream"), f"the name of the model is missing: write {prefix}/…")
    if model.base_url is not None:
        yield from _address((*path, "base_url"), model.base_url)


def _address(path: Path, url: str) -> Iterator[Breach]:
    try:
        parsed = parse_address(url)
    except ValueError as error:
        yield Breach(path, str(error))
        return
    if parsed.user or parsed.password:
        yield Breach(path, "a password may not stand in an address: use api_key or headers")


def _key(path: Path, key: Secret | None) -> Iterator[Breach]:
    try:
        check_header("Authorization", reveal(key or ""))
    except ValueError:
        yield Breach(path, "it holds a control character: a key is written in one line")


# ── Tools ───────────────────────────────────────────────────────────────────────────


def _tools(config: Config) -> Iterator[Breach]:
    servers: set[str] = set()
    for number, tool in enumerate(config.tools):
        path = ("tools", str(number))
        if isinstance(tool, PythonTool):
            yield from _function(path, tool)
            continue
        yield from _server(path, tool)
        if tool.mcp in servers:
            yield Breach((*path, "mcp"), f"another server is called {tool.mcp!r}, too")
        servers.add(tool.mcp)


def _function(path: Path, tool: PythonTool) -> Iterator[Breach]:
    if not _FUNCTION.fullmatch(tool.python):
        why = f"{show(tool.python)} names no function: write module:function"
        yield Breach((*path, "python"), why)


def _server(path: Path, tool: McpTool) -> Iterator[Breach]:
    yield from _literal_secrets((*path, "env"), tool.env)
    yield from _headers((*path, "headers"), tool.headers)
    wrong = list(_address((*path, "url"), tool.url)) if tool.url else []
    if wrong:
        yield from wrong
        return
    try:
        tool.make_server()
    except ValueError as error:
        yield Breach(path, str(error))


def _headers(path: Path, headers: Mapping[str, str | Secret]) -> Iterator[Breach]:
    yield from _literal_secrets(path, headers)
    for name, value in headers.items():
        try:
            check_header(name, reveal(value))
        except ValueError as error:
            yield Breach((*path, name), str(error))


def _literal_secrets(path: Path, values: Mapping[str, str | Secret]) -> Iterator[Breach]:
    for name, value in values.items():
        if names_secret(name) and not isinstance(value, Secret):
            why = "what looks like a key may not stand in the file: write ${NAME}"
            yield Breach((*path, name), f"{why} and set that environment variable")


_RULES: tuple[Rule, ...] = (_host, _host_names, _origins, _models, _tools)

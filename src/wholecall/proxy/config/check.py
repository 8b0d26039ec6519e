"""Rules between settings, beyond the type of each, and each setting in words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from ipaddress import ip_address
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from pydantic import ValidationError

from wholecall.arguments.describe import list_some, show, show_names, suggest
from wholecall.dialects.dialect_registry import way_for
from wholecall.errors import UnknownModel, UnusableDialect
from wholecall.proxy.config.schema import (
    LITERAL_KEY,
    REFERENCE,
    RESTART,
    SERVERS,
    Config,
    ConfigProblem,
    McpTool,
    ModelConfig,
    Path,
    Position,
    PythonTool,
    Secret,
    json_schema,
    reveal,
)
from wholecall.upstreams.endpoint import check_header, parse_address
from wholecall.upstreams.providers import PREFIXES, demand_name
from wholecall.upstreams.secrets import names_secret

ANY_MODEL = "*"
_JOURNALS = ("sqlite", *SERVERS)
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
    if url and (kind not in _JOURNALS or not place):
        shown = show(url) if isinstance(url, str) else "its value"
        yield RuleBreach(path, f"{shown} is not a journal: write sqlite:FILE or postgresql://…")


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
            yield RuleBreach((*path, "emulate"), str(error))


def _name(name: str, model: ModelConfig) -> Iterator[RuleBreach]:
    if not name.strip() or ("*" in name and name != ANY_MODEL):
        yield RuleBreach(
            ("models", name), "a model's name cannot contain `*`, unless it is just `*`"
        )
    if ("*" in model.upstream) != (name == ANY_MODEL):
        why = f"an upstream like `{PREFIXES[0]}/*` belongs to the model '*' only"
        yield RuleBreach(("models", name, "upstream"), why)


def _upstream(path: Path, model: ModelConfig) -> Iterator[RuleBreach]:
    try:
        demand_name(model.upstream, model.base_url, option="base_url")
    except UnknownModel as error:
        yield RuleBreach((*path, "upstream"), str(error))
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


# ── Each setting in words ─────────────────────────────────────────────────────────────
#
# What it takes, its default and meaning, and what is wrong with a value. All of it comes from the
# JSON schema that pydantic makes of the settings' types.

Node: TypeAlias = Mapping[str, Any]
"""The JSON schema of one setting."""


def find_node(steps: Sequence[str | int]) -> Node:
    """Return the JSON schema of a setting; empty if it does not exist."""
    node: Node = json_schema()
    for step in steps:
        node = _resolve(_descend(node, step))
    return node


def _descend(node: Node, step: str | int) -> Node:
    kinds = [_resolve(each) for each in node.get("oneOf", ())]
    if kinds and step in json_schema()["$defs"]:  # pydantic has named the kind of a tool
        return _as_node(json_schema()["$defs"][step])
    for section in kinds or [node]:
        if step in section.get("properties", ()):
            return _as_node(section["properties"][step])
    return _as_node(node.get("items") or node.get("additionalProperties"))


def _as_node(found: object) -> Node:
    return found if isinstance(found, Mapping) else {}


def _resolve(node: Node) -> Node:
    """Return the schema of a reference, and what a setting takes besides null."""
    if "$ref" in node:
        return _as_node(json_schema()["$defs"][node["$ref"].rpartition("/")[2]])
    if "anyOf" in node:
        return {**node, **node["anyOf"][0]}
    return node


def describe(node: Node) -> str:
    """Describe the accepted values: `a whole number from 0 to 65535`."""
    if "enum" in node:
        return list_some(node["enum"], " or ", word=show)
    if "pattern" in node:
        return "${NAME}"
    words = _TYPES[node["type"]]
    if "exclusiveMinimum" in node:
        return f"{words} above {node['exclusiveMinimum']}"
    if "maximum" in node:
        return f"{words} from {node['minimum']} to {node['maximum']}"
    return f"{words} of at least {node['minimum']}" if "minimum" in node else words


_TYPES = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "text",
    "array": "a list",
    "object": "names with texts",
}


# ── Mistakes ────────────────────────────────────────────────────────────────────────


def explain(error: ValidationError, places: Mapping[Path, Position]) -> Iterator[ConfigProblem]:
    """Say of every wrong setting where it is, what was received, and what to write."""
    for each in error.errors(include_url=False, include_context=False):
        path: Path = ()
        for step in each["loc"]:
            # A missing setting, and the kind of a tool, were not written.
            path = (*path, str(step)) if (*path, str(step)) in places else path
        why = _explain(each["type"], each["loc"], value=each["input"])
        yield ConfigProblem(places[path], ".".join(path), why)


def _explain(kind: str, steps: Sequence[str | int], *, value: object) -> str:
    if kind == "missing":
        return f"the setting {steps[-1]!r} is missing"
    if kind == "unexpected_keyword_argument":
        known = find_node(steps[:-1])["properties"]
        near = suggest(str(steps[-1]), known)
        hint = f"did you mean {near!r}?" if near else f"known settings: {show_names(known)}"
        return f"there is no such setting; {hint}"
    node = find_node(steps)
    if "pattern" in node:
        return LITERAL_KEY
    reference = REFERENCE.search(value) if isinstance(value, str) else None
    if reference:
        return f"{reference[0]} cannot be used here: only api_key, headers and env take variables"
    return _explain_type(node, value, name=f"{steps[-1]}" if steps else "")


def _explain_type(node: Node, value: object, *, name: str) -> str:
    if "oneOf" in node:
        marks = [_resolve(section)["required"][0] for section in node["oneOf"]]
        return f"write one of {show_names(marks)} here"
    shown = _show(value)
    if "properties" in node:
        return f"{shown} is not a section; {_hint_of_section(value, node['properties'], name=name)}"
    if node["type"] == "array":
        return f"{shown} is not a list: write [ … ]"
    if node["type"] == "object":
        return f"{shown} is not a section with names: write `name: …`"
    return f"{shown} is not {describe(node)}{_hint(value, node)}"


def _hint_of_section(value: object, known: Node, *, name: str) -> str:
    """Return what to write, if a setting is indented too little or lacks the space after it."""
    if name in known:
        return f"{name!r} is a setting of the section above: indent it further"
    if isinstance(value, str) and value.partition(":")[0] in known:
        return "write a space after the colon"
    return f"its settings are {show_names(known)}"


def _show(value: object) -> str:
    match value:
        case list():
            return "a list"
        case dict():
            return "a section"
        case _:
            return show(value)


def _hint(value: object, node: Node) -> str:
    """Return what to write instead, if quotes are missing or too many."""
    if isinstance(value, int | float) and node["type"] == "string" and "enum" not in node:
        return f'; write "{json.dumps(value)}" in quotes'
    if isinstance(value, str) and _fits(_unquote(value), node):
        return f"; write {value.strip()} without quotes"
    return ""


def _unquote(text: str) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _fits(value: object, node: Node) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return isinstance(value, bool) and node["type"] == "boolean"
    if node["type"] not in ({"integer", "number"} if isinstance(value, int) else {"number"}):
        return False
    least, most = node.get("minimum", value), node.get("maximum", value)
    return bool(least <= value <= most and value > node.get("exclusiveMinimum", value - 1))


# ── The settings of a configuration ─────────────────────────────────────────────────


DEFAULT = "default"


def walk(section: object, path: Path = ()) -> Iterator[tuple[Path, object]]:
    """Every setting below a section with its value, in the order in which they are declared."""
    if is_dataclass(section) and not isinstance(section, type):
        for field in fields(section):
            yield from walk(getattr(section, field.name), (*path, field.name))
    elif isinstance(section, Mapping) and section:
        for name, below in section.items():
            yield from walk(below, (*path, name))
    elif isinstance(section, tuple) and any(map(is_dataclass, section)):
        for number, below in enumerate(section):
            yield from walk(below, (*path, str(number)))
    else:
        yield path, section


def needs_restart(path: Path) -> bool:
    """Return True if a running proxy cannot change the setting."""
    return bool(find_node(path).get(RESTART))


def show_config(config: Config, places: Mapping[Path, Position]) -> Iterator[str]:
    """One line a setting: `listen.port = 8787  # wholecall.yaml:3`. Never a secret."""
    for path, value in walk(config):
        yield f"{'.'.join(path)} = {_show_value(value)}  # {places.get(path, DEFAULT)}"


def _show_value(value: object) -> str:
    match value:
        case Secret():
            return show(value.written)
        case tuple():
            return f"[{', '.join(map(_show_value, value))}]"
        case _:
            return show(value)


# ── The table of docs/configuration.md and of `wholecall config settings` ───────────


_HEAD = ("| setting | takes | default | meaning |", "|---|---|---|---|")
_RESTART_MARK = " †"
REQUIRED = "(required)"
"""In the place of a default."""


class SettingRow(NamedTuple):
    """One setting."""

    setting: str
    """Its full name; `NAME` is a name that the operator chooses, `N` an item of a list."""
    takes: str
    default: str
    meaning: str
    restart: bool = False


def list_settings() -> list[SettingRow]:
    """Every setting, in the order of the file."""
    return list(_list_section(json_schema(), ""))


def write_markdown() -> str:
    """The table of the docs."""
    return "\n".join([*_HEAD, *map(_write, list_settings())])


def _write(row: SettingRow) -> str:
    mark = _RESTART_MARK if row.restart else ""
    cells = (f"`{row.setting}`{mark}", row.takes, row.default, row.meaning)
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def _list_section(section: Node, prefix: str) -> Iterator[SettingRow]:
    for name, declared in section["properties"].items():
        node = _resolve(declared)
        below = list(_sections_below(node))
        for suffix, part in below:
            yield from _list_section(part, f"{prefix}{name}{suffix}.")
        if not below:
            required = name in section.get("required", ())
            default = node.get("default")
            written = f"`{show(default)}`" if default not in (None, []) else "none"
            yield SettingRow(
                prefix + name,
                describe(node),
                REQUIRED if required else written,
                " ".join(node["description"].split()),
                restart=node.get(RESTART, False),
            )


def _sections_below(node: Node) -> Iterator[tuple[str, Node]]:
    """Yield the sections that a setting holds, and the suffix of their names."""
    items, members = _as_node(node.get("items")), _as_node(node.get("additionalProperties"))
    suffix = ".N" if items else ".NAME" if members else ""
    inner = items or members or node
    for section in map(_resolve, inner.get("oneOf", [inner])):
        if "properties" in section:
            yield suffix, section

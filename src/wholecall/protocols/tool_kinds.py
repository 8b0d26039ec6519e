"""Tools that are not plain functions, as functions: names, free text, the choice.

A function in a namespace, a tool that takes free text, a shell: each is offered to every upstream
as a function, under a name that is unique in the request and that all upstreams accept. In the
client's own protocol it keeps its form. `ToolKind` holds that form; the tables of the forms are in
the folders of the protocols.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from wholecall.arguments.validate import admit
from wholecall.events import CallDelta, CallSealed, Delta, Slot
from wholecall.messages import Choice, Special, Tool, ToolKind, ToolSpec, restrict

INPUT = "input"
"""The one parameter of a tool that takes free text."""
FUNCTION = "function"

_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64
_DIGEST = 8
_JOINT = "__"
# No name of a plain function has it, so that an unknown tool is never taken for a known one.
_UNKNOWN_JOINT = "."


# ── Names ───────────────────────────────────────────────────────────────────────────


def name_tools(specs: Sequence[ToolSpec]) -> tuple[ToolSpec, ...]:
    """Give each tool a name that is unique in the request. Plain functions keep theirs."""
    taken = {spec.name for spec in specs if spec.kind is None}
    named: dict[tuple[str, str, str], ToolSpec] = {}
    listed: list[ToolSpec] = []
    for spec in specs:
        if spec.kind is None:
            listed.append(spec)
        # What was brought along twice is one tool.
        elif spec.kind.key not in named and not _is_plain(spec.kind, taken):
            fitted = replace(spec, name=_fit_name(spec.kind, taken))
            taken.add(fitted.name)
            named[spec.kind.key] = fitted
            listed.append(fitted)
    return tuple(listed)


def _is_plain(kind: ToolKind, taken: Collection[str]) -> bool:
    return kind.type == FUNCTION and not kind.namespace and kind.name in taken


def _fit_name(kind: ToolKind, taken: Collection[str]) -> str:
    name = kind.name or kind.type
    joined = f"{kind.namespace}{_JOINT}{name}" if kind.namespace else name
    legal = _ILLEGAL.sub("_", joined)
    if legal and len(legal) <= _LONGEST_NAME and legal not in taken:
        return legal
    # The digest is of the tool alone: the name stays the same in the next request.
    digest = hashlib.sha256("\n".join(kind.key).encode(errors="surrogatepass")).hexdigest()
    return f"{legal[: _LONGEST_NAME - _DIGEST - 1]}_{digest[:_DIGEST]}"


class WireNames:
    """The names of a request's tools, by what identifies them in one protocol."""

    __slots__ = ("_by_key", "_by_name", "_kinds", "_plain", "_spaces", "_types")

    def __init__(self, tools: Iterable[ToolSpec] = (), protocol: str = "") -> None:
        tools = tuple(tools)
        self._kinds = kinds_of(tools, protocol)
        self._by_key = {kind.key: name for name, kind in self._kinds.items()}
        self._spaces = {kind.namespace for kind in self._kinds.values()}
        self._types = {kind.type for kind in self._kinds.values()}
        self._plain = {spec.name for spec in tools if spec.kind is None}
        named = (kind.name for kind in self._kinds.values())
        uses = Counter(named) if self._kinds else {}
        self._by_name = {
            kind.name: name
            for name, kind in self._kinds.items()
            if kind.name and uses[kind.name] == 1
        }

    def has(self, kind: str) -> bool:
        """Return True if a tool of this type is offered."""
        return kind in self._types

    def is_shared(self, name: str | None) -> bool:
        """Return True if a name alone does not tell which tool is called."""
        kinds = sum(kind.name == name for kind in self._kinds.values())
        return kinds > 1 or (kinds == 1 and name in self._plain)

    def get(self, kind: str, name: str = "", *, namespace: str = "") -> str | None:
        """Return the name of a tool; None if it is not offered."""
        return self._by_key.get((kind, namespace, name))

    def find(self, kind: str, name: str = "", *, namespace: str = "") -> str:
        """Return the name of a called tool; for an unknown one a name that is not offered.

        Some servers leave the namespace out, which is clear where only one tool has the name. And
        OpenAI's puts deferred functions into a namespace of its own.
        """
        known = self.get(kind, name, namespace=namespace)
        if known is not None:
            return known
        if not namespace:
            return name if name in self._plain else self._by_name.get(name, name) or kind
        if namespace not in self._spaces:
            own = name if name in self._plain else self.get(kind, name)
            if own is not None:
                return own
        knows_tools = self._kinds or self._plain
        return f"{namespace}{_UNKNOWN_JOINT}{name}" if knows_tools else name


def kinds_of(tools: Iterable[ToolSpec], protocol: str) -> dict[str, ToolKind]:
    """Return the forms that tools have in this protocol, by the names of the tools."""
    return {
        spec.name: spec.kind
        for spec in tools
        if spec.kind is not None and spec.kind.protocol == protocol
    }


# ── Free text ───────────────────────────────────────────────────────────────────────


def text_tool(
    kind: ToolKind, *, description: str = "", syntax: str = "", grammar: str = ""
) -> ToolSpec:
    """Make the function for a tool that takes free text: it has one string.

    A grammar is stated in the description. That of a regular expression is checked, too, if it
    can be checked in linear time.
    """
    told = [description, f"Put the whole text into `{INPUT}`, as it is."]
    if grammar:
        told.append(f"The text has to match this grammar ({syntax}):\n{grammar}")
    schema = _text_schema()
    if grammar and syntax == "regex":
        checked = _text_schema(pattern=f"^(?:{grammar})$")
        schema = schema if admit([ToolSpec("text", checked)]) else checked
    return ToolSpec(kind.name, schema, "\n\n".join(filter(None, told)), kind=kind)


def _text_schema(**rules: str) -> dict[str, Any]:
    text = {"type": "string", **rules}
    return {"type": "object", "properties": {INPUT: text}, "required": [INPUT]}


def read_input(arguments: Mapping[str, Any]) -> str:
    """Return the free text of a call."""
    text = arguments.get(INPUT, "")
    return text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)


# ── Calls ───────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnCall:
    """A call that came at once, in a form that does not show its end as an object of JSON does."""

    slot: Slot | None
    name: str
    id: str | None
    arguments: Mapping[str, Any]
    extras: Mapping[str, Any] = field(default_factory=dict)

    def state(self, *, cut: bool = False) -> Iterator[Delta]:
        """Yield the call. One that may have been cut is left open, so that it is never run."""
        text = json.dumps(self.arguments, ensure_ascii=False)
        shown = text[:-1] if cut else text
        yield CallDelta(
            self.slot, shown, self.name, self.id, opens=True, extras=self.extras or None
        )
        yield from () if cut else (CallSealed(self.slot),)


# ── The choice ──────────────────────────────────────────────────────────────────────


def settle_choice(choice: Choice, tools: Sequence[ToolSpec], *, protocol: str) -> Choice:
    """Name the chosen tools as the request does; a tool of the provider's stays what it is."""
    if not choice.tools:
        return choice
    names = WireNames(tools, protocol)

    def settle(tool: Tool) -> Tool:
        if isinstance(tool, str):
            return names.find(FUNCTION, tool)
        return names.get(tool.type, tool.name, namespace=tool.server) or tool

    return restrict(choice.mode, map(settle, choice.tools), parallel=choice.parallel)


def express_choice(choice: Choice, kinds: Mapping[str, ToolKind]) -> Choice:
    """Name the chosen tools as their own protocol does."""

    def express(tool: Tool) -> Tool:
        kind = kinds.get(tool) if isinstance(tool, str) else None
        return tool if kind is None else Special(kind.type, kind.name, kind.namespace)

    return restrict(choice.mode, map(express, choice.tools), parallel=choice.parallel)

"""The tools of a request, and the names of calls."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wholecall.core.conversation import Message, Native, Part, PastCall, Request
from wholecall.core.spec import ToolSpec, read_offer
from wholecall.core.values import Problem
from wholecall.errors import InadmissibleTools
from wholecall.protocols.requests.fields import fit, refuse, rest_of

_Write = Callable[[ToolSpec], dict[str, Any]]
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64
_NAMELESS = "unknown"


# ── Writing ─────────────────────────────────────────────────────────────────────────


def object_schema(spec: ToolSpec) -> dict[str, Any]:
    """The schema of a tool's arguments; upstreams demand that it speaks of an object."""
    return {"type": "object", **(spec.parameters or {"properties": {}})}


def list_tools(
    request: Request, protocol: str, *, write: _Write, only: Collection[str] | None = None
) -> list[Any]:
    """The definitions to offer: in the client's own words, where it wrote them in this protocol.

    `only` are the names to offer, where the protocol cannot restrict the choice otherwise.
    """
    said = {
        spec.name: (spec, definition)
        for definition in rest_of(request, protocol).get("tools", ())
        for spec in read_offer([definition]).values()
    }
    offered = [spec for spec in request.tools if only is None or spec.name in only]
    natives = [tool.value for tool in request.native_tools if tool.protocol == protocol]
    return [*(_define(spec, said.get(spec.name), write=write) for spec in offered), *natives]


def _define(spec: ToolSpec, said: tuple[ToolSpec, Any] | None, *, write: _Write) -> Any:
    """Use the client's definition of a tool as long as it is still the same tool."""
    if said is None or said[0].parameters != spec.parameters:
        return write(spec)
    return said[1] if said[0].description == spec.description else write(spec)


def name_calls(request: Request) -> Request:
    """The same request, its past calls under names that every upstream accepts.

    A model may call what does not exist by a name that must not exist. Left in the history,
    it would make every later request fail.
    """
    offered = frozenset(spec.name for spec in request.tools)
    return replace(request, messages=tuple(_rename(each, offered) for each in request.messages))


def _rename(message: Message, offered: Collection[str]) -> Message:
    parts = message.parts
    if not any(isinstance(part, PastCall) and part.name not in offered for part in parts):
        return message
    return replace(message, parts=tuple(_rename_part(part, offered) for part in parts))


def _rename_part(part: Part, offered: Collection[str]) -> Part:
    if not isinstance(part, PastCall) or part.name in offered:
        return part
    return replace(part, name=_ILLEGAL.sub("_", part.name)[:_LONGEST_NAME] or _NAMELESS)


# ── Reading ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class RequestTools:
    """The tools of a request as they were read."""

    specs: tuple[ToolSpec, ...]
    natives: tuple[Native, ...]
    said: tuple[Any, ...]
    """The definitions that say more than a `ToolSpec` holds."""

    @property
    def names(self) -> frozenset[str]:
        """Names that `tool_choice` may use."""
        return frozenset({spec.name for spec in self.specs}.union(*map(_names, self.natives)))


def tool_names(request: Request) -> frozenset[str]:
    """The names that a call may have: of the request's tools, and of those in native form.

    Some tools in native form (Anthropic's `bash`, OpenAI's custom tools) are run by the client.
    """
    return RequestTools(request.tools, request.native_tools, ()).names


def read_tools(definitions: Sequence[Any] | None, protocol: str, *, write: _Write) -> RequestTools:
    """Read the definitions of a request."""
    specs: list[ToolSpec] = []
    natives: list[Native] = []
    said: list[Any] = []
    for place, definition in enumerate(definitions or ()):
        fields = fit(definition, dict[str, Any], at=f"tools[{place}]")
        if fields.get("type") not in _FUNCTION_TYPES[protocol]:
            natives.append(Native(protocol, definition))
            continue
        spec = _read_spec(definition, place)
        specs.append(spec)
        if write(spec) != definition:
            said.append(definition)
    return RequestTools(tuple(specs), tuple(natives), tuple(said))


# How a definition says that it is a function of the client's; all others are the upstream's.
_FUNCTION_TYPES: dict[str, tuple[str | None, ...]] = {
    "openai-chat": (None, "function"),
    "openai-responses": ("function",),
    "anthropic": (None, "custom"),
}


def _read_spec(definition: Any, place: int) -> ToolSpec:
    try:
        specs = list(read_offer([definition]).values())
    except InadmissibleTools as error:
        problem = next(each for each in error.problems if isinstance(each, Problem))
        param = f"tools[{place}]{problem.path.removeprefix('$[0]')}"
        raise refuse(param, f"{problem.received} is not {problem.expected}") from None
    if not specs:
        raise refuse(f"tools[{place}].name", "a function has a name")
    return specs[0]


def _names(native: Native) -> set[str]:
    definition: Mapping[str, Any] = native.value
    custom = definition.get("custom")
    names = [definition.get("name"), custom.get("name") if isinstance(custom, Mapping) else None]
    found = {name for name in names if isinstance(name, str)}
    return found or {str(definition.get("type"))}

"""Tools written into a prompt: one line of JSON each, the same text for the same tools.

A prompt that begins with the same text is read from the upstream's cache. So tools are
sorted by name and the keys of their schemas by the alphabet: in which order a client
happens to send them changes nothing. What no model needs to read is left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from wholecall.core.prepare import CACHED
from wholecall.core.spec import Offer, ToolSpec
from wholecall.core.translate import Node, children, translate

_UNREAD = frozenset({"title", "$comment"})
"""Keywords that say nothing about a value. Frameworks put a title on every parameter."""


def write_definitions(offer: Offer) -> str:
    """All tools, one a line."""
    return "\n".join(write_definition(offer[name]) for name in sorted(offer))


def write_definition(spec: ToolSpec) -> str:
    """One tool: its name, what it is for, and the JSON Schema of its parameters."""
    description = spec.description.strip()
    said = f'"description":{_dump(description)},' if description else ""
    schema = _write_schema(_as_text(spec.parameters))
    return f'{{"name":{_dump(spec.name)},{said}"parameters":{schema}}}'


@lru_cache(maxsize=CACHED)
def _write_schema(text: str) -> str:
    """Write the schema for the prompt. The same tools come with every turn."""
    return _dump(rewrite(_read_schema(text), _leave_out_unread))


def plain_schema(parameters: Mapping[str, Any]) -> Node:
    """The schema of a tool's arguments as Draft 2020-12, whatever it was written in."""
    return _read_schema(_as_text(parameters))


def _as_text(parameters: Mapping[str, Any]) -> str:
    # What JSON does not know, tuples and mappings of another make, becomes what it does.
    return json.dumps(parameters, default=dict)


def _read_schema(text: str) -> Node:
    return {"type": "object", **translate(json.loads(text))}


def rewrite(schema: Any, change: Callable[[Node], Node]) -> Any:
    """Change every schema inside a schema, and then itself. The input stays as it is."""
    if not isinstance(schema, dict):
        return schema
    node: Node = dict(schema)
    for (keyword, *key), child in children(schema):
        changed = rewrite(child, change)
        if not key:
            node[str(keyword)] = changed
            continue
        if node[str(keyword)] is schema[keyword]:
            node[str(keyword)] = schema[keyword].copy()
        node[str(keyword)][key[0]] = changed
    return change(node)


def _leave_out_unread(node: Node) -> Node:
    return {key: value for key, value in node.items() if key not in _UNREAD}


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)

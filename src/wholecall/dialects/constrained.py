"""Constrained decoding: the schema of an answer that can only be calls or a reply.

An upstream that can constrain decoding is given a JSON Schema, made from the offered tools and the
choice. So the choice is enforced instead of requested: `required` leaves no reply, one named tool
leaves one name, one call at a time leaves one item.

The arguments are checked as always: upstreams ignore keywords that they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wholecall.core.choice import Choice, Mode
from wholecall.core.spec import Offer
from wholecall.core.translate import Node
from wholecall.dialects.declaration import Dialect
from wholecall.dialects.definitions import plain_schema, rewrite
from wholecall.dialects.encoding import Template
from wholecall.dialects.formats.json_marked import OBJECT
from wholecall.dialects.reply_calls import CALLS, REPLY, ReplyOrCalls

CONSTRAINED = Dialect(
    name="constrained",
    bare=(ReplyOrCalls(),),
    template=Template(OBJECT, before='{"calls": [', between=", ", after="]}"),
    models="any, where the upstream can constrain decoding",
)


def answer_schema(
    offer: Offer, choice: Choice, *, reply: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the schema of an answer. `reply` is the form of the final answer; a string without
    one."""
    definitions: dict[str, Node] = {}
    ways: list[Node] = []
    if choice.mode is not Mode.NONE and offer:
        ways.append(_calls(offer, choice, definitions=definitions))
    if choice.mode is not Mode.REQUIRED or not ways:
        value = (
            {"type": "string"} if reply is None else _placed(reply, REPLY, definitions=definitions)
        )
        ways.append(_object({REPLY: value}))
    schema = ways[0] if len(ways) == 1 else {"anyOf": ways}
    return {**schema, "$defs": definitions} if definitions else schema


def _calls(offer: Offer, choice: Choice, *, definitions: dict[str, Node]) -> Node:
    calls: list[Node] = []
    for number, name in enumerate(sorted(offer)):
        schema = plain_schema(offer[name].parameters)
        arguments = _placed(schema, f"tool{number}", definitions=definitions)
        calls.append(_object({"name": {"type": "string", "const": name}, "arguments": arguments}))
    items = calls[0] if len(calls) == 1 else {"anyOf": calls}
    most = {} if choice.parallel else {"maxItems": 1}
    return _object({CALLS: {"type": "array", "items": items, "minItems": 1, **most}})


def _object(members: dict[str, Any]) -> Node:
    """An object with exactly these members, in this order: grammars write them so."""
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


# ── References ──────────────────────────────────────────────────────────────────────

_LOOSE: Node = {"type": "object"}
_ANCHORS = frozenset({"$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef"})


class _Unplaceable(Exception):
    """A reference that leads nowhere once the schema is a part of another."""


def _placed(schema: Mapping[str, Any], name: str, *, definitions: dict[str, Node]) -> Node:
    """A schema as a part of the answer's. One with references gets a place of its own, to
    which they lead; one whose references cannot be led there is left open."""
    referred = False

    def lead(node: Node) -> Node:
        nonlocal referred
        if not _ANCHORS.isdisjoint(node):
            raise _Unplaceable
        if "$ref" not in node:
            return node
        referred = True
        if not node["$ref"].startswith("#/") and node["$ref"] != "#":
            raise _Unplaceable
        return {**node, "$ref": f"#/$defs/{name}{node['$ref'][1:]}"}

    try:
        placed: Node = rewrite(schema, lead)
    except _Unplaceable:
        return _LOOSE
    if not referred:
        return placed
    definitions[name] = placed
    return {"$ref": f"#/$defs/{name}"}

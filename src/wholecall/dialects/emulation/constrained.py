"""Constrained decoding: the schema or GBNF grammar of an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from wholecall.arguments.normalize_schema import Node
from wholecall.dialects.emulation.prompt import plain_schema, rewrite
from wholecall.dialects.grammars.json_calls import CALLS, REPLY
from wholecall.messages import Choice, Mode, Offer

# A JSON Schema as a grammar in GBNF, the notation of llama.cpp.
#
#     root ::= "{" ws calls-1 ws "}"
#     calls-1 ::= "\"calls\"" ws ":" ws list-2
#
# A grammar can say less than a schema: it knows types, members, enumerations, alternatives and how
# many items there are. What it cannot say (patterns, bounds of numbers) it leaves open, and the
# schema decides afterwards. In three places it says more, because a model gains nothing by the
# freedom: members come in the order of the schema, the required ones first; an object that names
# its members has no others, unless its schema asks for them; and there is at most one blank between
# two marks.


MOST_RULES = 2048
"""Rules of one grammar. llama.cpp follows all that are possible at every token; what lies
beyond is left open."""
MOST_OPTIONAL = 64
"""Members of an object that may be left out. Each may be skipped at any place before it, so
that llama.cpp follows as many ways at once."""
MOST_ITEMS = 256
"""Items that are counted. llama.cpp writes the rule out for each of them."""

_LEAVES: dict[str, str] = {
    "ws": '" "?',
    "string": r'"\"" char* "\""',
    "char": r'[^"\\\x00-\x1f] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})',
    "integer": '"-"? ("0" | [1-9] [0-9]{0,15})',
    "number": 'integer ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?',
    "boolean": '"true" | "false"',
    "null": '"null"',
    "value": "object | array | string | number | boolean | null",
    "object": '"{" ws (member ("," ws member)*)? "}"',
    "member": 'string ws ":" ws value ws',
    "array": '"[" ws (value ws ("," ws value ws)*)? "]"',
}
WORDS: Node = {"type": "string", "format": "words"}
"""A reply that does not begin as a call does, nor as any other markup. A model that has called
tools and may not any more would write the next call into its reply."""
_IN_WORDS = r'"\"" [^"\\{\[<` \x00-\x1f] char* "\""'
_UNNAMED = re.compile(r"[^A-Za-z0-9]+")


def write_grammar(schema: Mapping[str, Any]) -> str:
    """The grammar of the JSON texts that fit a schema, as far as a grammar can say it."""
    return _Writer(dict(schema)).write()


class _Writer:
    """Collects the rules of one grammar."""

    def __init__(self, schema: Node) -> None:
        self._schema = schema
        self._rules: dict[str, str] = {}
        self._referred: dict[str, str] = {}
        """The rules of the schemas that references lead to."""

    def write(self) -> str:
        root = self.expression(self._schema, "answer")
        rules = {"root": root, **self._rules, **_LEAVES}
        return "".join(f"{name} ::= {body}\n" for name, body in rules.items())

    def expression(self, schema: Any, hint: str) -> str:
        """Return the expression for a schema: the name of a rule, or several alternatives."""
        if isinstance(schema, dict) and len(self._rules) < MOST_RULES:
            for keyword, write in _KEYWORDS.items():
                if keyword in schema:
                    return write(self, schema, hint)
        return "value"

    def _add(self, hint: str, body: str) -> str:
        name = self._reserve(hint)
        self._rules[name] = body
        return name

    def _reserve(self, hint: str) -> str:
        name = f"{_UNNAMED.sub('-', hint).strip('-') or 'rule'}-{len(self._rules)}"
        self._rules[name] = ""
        return name

    # ── Keywords ────────────────────────────────────────────────────────────────────

    def reference(self, schema: Node, hint: str) -> str:
        """A rule of its own, which may lead back to itself."""
        pointer = schema["$ref"]
        if pointer not in self._referred:
            name = self._referred[pointer] = self._reserve(hint)
            self._rules[name] = self.expression(self._find(pointer), hint)
        return self._referred[pointer]

    def _find(self, pointer: str) -> Any:
        node: Any = self._schema
        for step in pointer.split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            node = node.get(name) if isinstance(node, dict) else None
        return node

    def constant(self, schema: Node, hint: str) -> str:
        return self._add(hint, _literal(schema["const"]))

    def enumeration(self, schema: Node, hint: str) -> str:
        return self._add(hint, " | ".join(map(_literal, schema["enum"])) or "value")

    def alternatives(self, schema: Node, hint: str) -> str:
        ways = schema.get("anyOf") or schema.get("oneOf") or [{}]
        return self._add(hint, " | ".join(self.expression(way, hint) for way in ways))

    def conjunction(self, schema: Node, hint: str) -> str:
        """A grammar cannot say `and`. One schema alone is itself, of several none is taken."""
        one = schema["allOf"][0] if len(schema["allOf"]) == 1 else {}
        beside = {key: value for key, value in schema.items() if key != "allOf"}
        return self.expression(beside if "type" in beside else one, hint)

    def typed(self, schema: Node, hint: str) -> str:
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        bodies = [_TYPES.get(kind, _leaf(kind))(self, schema, hint) for kind in types]
        return bodies[0] if len(bodies) == 1 else self._add(hint, " | ".join(bodies) or "value")

    # ── Types ───────────────────────────────────────────────────────────────────────

    def objects(self, schema: Node, hint: str) -> str:
        properties = schema.get("properties") or {}
        others = schema.get("additionalProperties")
        if not properties:
            return self._map(False if "properties" in schema and not others else others, hint)
        required = [name for name in properties if name in schema.get("required", ())]
        if others or len(properties) - len(required) > MOST_OPTIONAL:
            return "object"
        members = {name: self._member(name, properties[name]) for name in properties}
        inside = ' "," ws '.join(members.pop(name) for name in required)
        tail = self._optional(list(members.values()), hint, leads=not required)
        return self._add(hint, _sequence('"{" ws', inside, tail, '"}"'))

    def _member(self, name: str, schema: Any) -> str:
        value = self.expression(schema, name)
        return self._add(name, f'{_literal(name)} ws ":" ws ({value}) ws')

    def _optional(self, members: list[str], hint: str, *, leads: bool) -> str:
        """Members that may be left out. Where they lead, the first has no comma before it."""
        follow = [""]
        for member in reversed(members[1:] if leads else members):
            follow.append(self._add(hint, _sequence(f'("," ws {member})?', follow[-1])))
        if not (leads and members):
            return follow[-1]
        firsts = (
            _sequence(member, rest) for member, rest in zip(members, reversed(follow), strict=True)
        )
        return f"({' | '.join(firsts)})?"

    def _map(self, others: Any, hint: str) -> str:
        if others is False:
            return self._add(hint, '"{" ws "}"')
        if not isinstance(others, dict):
            return "object"
        member = f'string ws ":" ws ({self.expression(others, hint)}) ws'
        return self._add(hint, f'"{{" ws ({member} ("," ws {member})*)? "}}"')

    def strings(self, schema: Node, hint: str) -> str:
        return self._add(hint, _IN_WORDS) if schema.get("format") == WORDS["format"] else "string"

    def arrays(self, schema: Node, hint: str) -> str:
        if "prefixItems" in schema or not isinstance(schema.get("items"), dict):
            return "array"
        item = self.expression(schema["items"], hint)
        least = min(schema.get("minItems", 0), MOST_ITEMS)
        most = schema.get("maxItems", MOST_ITEMS + 1)
        if most < max(least, 1):
            return self._add(hint, '"[" ws "]"')
        limit = "" if most > MOST_ITEMS else str(most - 1)
        more = f'("," ws ({item}) ws){{{max(least - 1, 0)},{limit}}}' if most > 1 else ""
        inside = _sequence(f"({item}) ws", more)
        return self._add(hint, f'"[" ws {inside if least else f"({inside})?"} "]"')


_Write = Callable[[_Writer, Node, str], str]


def _leaf(kind: str) -> _Write:
    return lambda _writer, _schema, _hint: kind if kind in _LEAVES else "value"


_TYPES: dict[str, _Write] = {
    "object": _Writer.objects,
    "array": _Writer.arrays,
    "string": _Writer.strings,
}
# The first keyword decides: the others can only restrict further.
_KEYWORDS: dict[str, _Write] = {
    "$ref": _Writer.reference,
    "const": _Writer.constant,
    "enum": _Writer.enumeration,
    "anyOf": _Writer.alternatives,
    "oneOf": _Writer.alternatives,
    "allOf": _Writer.conjunction,
    "type": _Writer.typed,
    "properties": _Writer.objects,
}


def _sequence(*parts: str) -> str:
    return " ".join(filter(None, parts))


def _literal(value: Any) -> str:
    """A JSON value as a text that must stand there exactly so."""
    text = json.dumps(value, ensure_ascii=False)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


# Constrained decoding: the schema of an answer that can only be calls or a reply.
#
# An upstream that can constrain decoding is given a JSON Schema, made from the offered tools and
# the choice. So the choice is enforced instead of requested: `required` leaves no reply, one named
# tool leaves one name, one call at a time leaves one item.
#
# The arguments are checked as always: upstreams ignore keywords that they do not know.


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

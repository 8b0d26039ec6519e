"""Translate the schemas of providers and frameworks to Draft 2020-12.

Tool definitions come as OpenAPI 3.0 (`nullable`), in Gemini's capitals (`STRING`), in older drafts
(`items` as a list), from PHP (an empty object is `[]`) and by hand (`float`). Each of these is
unambiguous, and the validator knows only one of them. What is ambiguous stays as it is: the
validator refuses it, by name.

Only places that hold a schema are read: `enum`, `const`, `default` and `examples` hold values,
whatever they look like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Node: TypeAlias = dict[str, Any]
"""One schema. `true` is translated to `{}`, and `false` to what nothing fits."""

Steps: TypeAlias = tuple[str | int, ...]
"""From a schema to one inside it: a keyword, and a name or an index where it holds several."""

_NOTHING: Node = {"not": {}}

# Where schemas stand inside a schema: one, several in a list, several by name.
_ONE = frozenset(
    {"items", "additionalItems", "additionalProperties", "unevaluatedItems", "contains", "not"}
    | {"unevaluatedProperties", "propertyNames", "if", "then", "else", "contentSchema"}
)
_LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
# Here `false` is a rule about parameters and is treated as one.
_MAY_BE_FALSE = frozenset({"additionalProperties", "unevaluatedProperties"})


def children(node: Node) -> Iterator[tuple[Steps, Any]]:
    """The schemas directly inside a schema, each with the steps that lead to it."""
    for keyword, argument in node.items():
        if keyword in _NAMED and isinstance(argument, dict):
            for name, child in argument.items():
                yield (keyword, name), child
        elif keyword in _LISTED and isinstance(argument, list):
            for index, child in enumerate(argument):
                yield (keyword, index), child
        elif keyword in _ONE and not isinstance(argument, list):
            yield (keyword,), argument


def translate(schema: Any) -> Any:
    """Put a schema into Draft 2020-12. The input is not changed."""
    if schema is True:
        return {}
    if schema is False:
        return _NOTHING
    if not isinstance(schema, dict):
        return schema
    node = _translate_children(schema)
    for rule in _RULES:
        node = rule(node)
    return node


def _translate_children(schema: Node) -> Node:
    node = {keyword: argument for keyword, argument in schema.items() if keyword not in _NAMES}
    for steps, child in children(schema):
        keyword = str(steps[0])
        if len(steps) == 1:
            kept = child is False and keyword in _MAY_BE_FALSE
            node[keyword] = child if kept else translate(child)
        elif node[keyword] is schema[keyword]:
            node[keyword] = _translate_all(schema[keyword])
    return node


def _translate_all(schemas: Any) -> Any:
    if isinstance(schemas, dict):
        return {name: translate(child) for name, child in schemas.items()}
    return [translate(child) for child in schemas]


# A schema's own name would become the base of its references. Only references into the
# same definition are followed, so that no name is needed.
_NAMES = frozenset({"$schema", "$id", "id"})

# ── The rules, each for one way of writing ──────────────────────────────────────────

_VALUES = frozenset({"const", "default", "example"})
_COUNTS = frozenset(
    {"minItems", "maxItems", "minLength", "maxLength", "minProperties", "maxProperties"}
    | {"minContains", "maxContains"}
)
_LONGEST_COUNT = 18
"""Digits. Nothing has so many characters or items; Python refuses to read thousands of them."""


def _drop_nulls(node: Node) -> Node:
    """`"required": null` is how some serialisers leave a keyword out."""
    return {
        keyword: argument
        for keyword, argument in node.items()
        if argument is not None or keyword in _VALUES
    }


_REMARKS: dict[str, type] = {
    **dict.fromkeys(("title", "description", "$comment", "format"), str),
    **dict.fromkeys(("deprecated", "readOnly", "writeOnly"), bool),
    "examples": list,
}


def _drop_broken_remarks(node: Node) -> Node:
    """A remark decides nothing, so a broken one must not decide that a tool is unusable."""
    return {
        keyword: argument
        for keyword, argument in node.items()
        if isinstance(argument, _REMARKS.get(keyword, object))
    }


def _open_empty_lists(node: Node) -> Node:
    """PHP cannot tell `{}` from `[]`."""
    return {
        keyword: {} if keyword in _NAMED and argument == [] else argument
        for keyword, argument in node.items()
    }


def _read_counts(node: Node) -> Node:
    """A count is an integer. Protobuf writes it as a string (`"1"`), others as a float (`1.0`)."""
    return {
        keyword: _read_count(argument) if keyword in _COUNTS else argument
        for keyword, argument in node.items()
    }


def _read_count(argument: Any) -> Any:
    if isinstance(argument, str) and argument.isdecimal() and len(argument) <= _LONGEST_COUNT:
        return int(argument)
    if isinstance(argument, float) and argument.is_integer():
        return int(argument)
    return argument


def _sized(word: str) -> tuple[str, ...]:
    return (word, *(f"{word}{bits}" for bits in (8, 16, 32, 64)))


_WORDS = {
    "string": ("str", "text", "char", "varchar", "enum", "date", "datetime", "time", "uri", "url"),
    "integer": ("int", "long", "short", "unsigned", "bigint", *_sized("int"), *_sized("uint")),
    "number": ("num", "float", "double", "decimal", *_sized("float")),
    "boolean": ("bool", "binary"),
    "object": ("dict", "map", "struct"),
    "array": ("list", "tuple", "set", "sequence"),
    "null": ("none",),
}
_TYPES = {word: named for named, words in _WORDS.items() for word in words}
_ANY_TYPE = frozenset({"any", "type_unspecified"})


def _name_types(node: Node) -> Node:
    """Gemini writes `STRING`, people write `float`; `any` means no type at all."""
    if "type" not in node:
        return node
    types = node["type"]
    if not isinstance(types, list):
        types = [types]
    named = [_name_type(word) for word in types]
    rest = {keyword: argument for keyword, argument in node.items() if keyword != "type"}
    if any(word in _ANY_TYPE for word in named if isinstance(word, str)):
        return rest
    return {"type": named[0] if len(named) == 1 else named, **rest}


def _name_type(word: Any) -> Any:
    if not isinstance(word, str):
        return word
    return _TYPES.get(word.lower(), word.lower())


_ITEMS = frozenset({"items", "additionalItems"})


def _read_tuples(node: Node) -> Node:
    """Before 2020-12, `items` as a list described an array place by place."""
    rest = {keyword: argument for keyword, argument in node.items() if keyword not in _ITEMS}
    if isinstance(node.get("items"), list):
        after = {"items": node["additionalItems"]} if "additionalItems" in node else {}
        return {**rest, "prefixItems": node["items"], **after}
    return {**rest, "items": node["items"]} if "items" in node else rest


_BOUNDS = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}


def _read_bounds(node: Node) -> Node:
    """In OpenAPI 3.0 `exclusiveMinimum` is a boolean about `minimum`."""
    for exclusive, inclusive in _BOUNDS.items():
        if isinstance(node.get(exclusive), bool):
            rest = {k: argument for k, argument in node.items() if k != exclusive}
            if node[exclusive] and inclusive in rest:
                rest[exclusive] = rest.pop(inclusive)
            node = rest
    return node


def _read_dependencies(node: Node) -> Node:
    """Draft 7's `dependencies` are two keywords now."""
    if not isinstance(node.get("dependencies"), dict):
        return node
    rest = {k: argument for k, argument in node.items() if k != "dependencies"}
    given = node["dependencies"]
    names = {name: needed for name, needed in given.items() if isinstance(needed, list)}
    schemas = {name: translate(needed) for name, needed in given.items() if name not in names}
    return {**rest, "dependentRequired": names, "dependentSchemas": schemas}


def _require_once(node: Node) -> Node:
    """A name in the list twice is required no more than once."""
    names = node.get("required")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return node
    return {**node, "required": list(dict.fromkeys(names))}


def _lift_required(node: Node) -> Node:
    """`"required": true` beside a parameter's type means the list of its object."""
    properties = node.get("properties")
    if not isinstance(properties, dict):
        return node
    listed = node.get("required", [])
    flags = {name: _required_flag(child) for name, child in properties.items()}
    if not isinstance(listed, list) or set(flags.values()) <= {None}:
        return node
    plain = {name: _without_flag(child) for name, child in properties.items()}
    lifted = [name for name, flag in flags.items() if flag and name not in listed]
    return {**node, "properties": plain, "required": [*listed, *lifted]}


def _required_flag(child: Any) -> bool | None:
    flag = child.get("required") if isinstance(child, dict) else None
    return flag if isinstance(flag, bool) else None


def _without_flag(child: Any) -> Any:
    if _required_flag(child) is None:
        return child
    return {keyword: argument for keyword, argument in child.items() if keyword != "required"}


# Each of these says more about the value than the types that `properties` would hint at.
_SAYS_ENOUGH = frozenset({"type", "$ref", "enum", "const", "allOf", "anyOf", "oneOf"})
_TYPE_OF = {"properties": "object", "items": "array", "prefixItems": "array"}


def _infer_types(node: Node) -> Node:
    """A parameter that has `properties` and no type is an object.

    By the letter a string would fit it too. That is done where values are described,
    not where conditions are (`not`, `if`, `allOf`): there the letter is meant.
    """
    named: Node = {}
    for keyword in ("properties", "$defs", "definitions"):
        schemas = node.get(keyword)
        if isinstance(schemas, dict):
            named[keyword] = {name: infer_type(child) for name, child in schemas.items()}
    for keyword in ("items", "additionalProperties"):
        if keyword in node:
            named[keyword] = infer_type(node[keyword])
    if "type" not in node:
        for keyword in ("anyOf", "oneOf"):
            if isinstance(node.get(keyword), list):
                named[keyword] = [infer_type(child) for child in node[keyword]]
    return {**node, **named}


def infer_type(node: Any) -> Any:
    """Name the type of a schema that leaves it to be guessed from its keywords."""
    if not isinstance(node, dict) or not _SAYS_ENOUGH.isdisjoint(node):
        return node
    for keyword, word in _TYPE_OF.items():
        if keyword in node:
            return {"type": word, **node}
    return node


_IN_PLACE = frozenset({"$ref", "allOf", "anyOf", "oneOf", "const", "if"})
_NULL: Node = {"type": "null"}


def _allow_null(node: Node) -> Node:
    """OpenAPI's `nullable`: null fits beside everything else that the schema says."""
    if not isinstance(node.get("nullable"), bool):
        return node
    rest = {keyword: argument for keyword, argument in node.items() if keyword != "nullable"}
    if not node["nullable"] or not _says_anything(rest):
        return rest
    if not _IN_PLACE.isdisjoint(rest):
        return {"anyOf": [rest, _NULL]}
    types = rest.get("type", [])
    types = types if isinstance(types, list) else [types]
    if types and "null" not in types:
        rest = {**rest, "type": [*types, "null"]}
    if isinstance(rest.get("enum"), list) and None not in rest["enum"]:
        rest = {**rest, "enum": [*rest["enum"], None]}
    return rest


def _says_anything(node: Node) -> bool:
    return "type" in node or "enum" in node or not _IN_PLACE.isdisjoint(node)


# A reference is a URI, in which these may not stand as they are. `%` stays: it is either
# an escape already or was meant as itself, and then the validator says so.
_URI = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!$&'()*+,;=:@/?#%"
)


def _quote_reference(node: Node) -> Node:
    """`#/$defs/Page<Item>` is written by generators that do not know of URIs."""
    reference = node.get("$ref")
    if not isinstance(reference, str) or _URI.issuperset(reference):
        return node
    return {**node, "$ref": "".join(c if c in _URI else quote(c) for c in reference)}


_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/$")
_PLAIN = frozenset(map(chr, _UNRESERVED))


def quote(text: str) -> str:
    """Escape what may not stand in the fragment of a URI."""
    if _PLAIN.issuperset(text):
        return text
    octets = text.encode("utf-8", "replace")
    return "".join(chr(octet) if octet in _UNRESERVED else f"%{octet:02X}" for octet in octets)


# In this order: types have their names before anyone asks for them.
_RULES: tuple[Callable[[Node], Node], ...] = (
    _drop_nulls,
    _drop_broken_remarks,
    _open_empty_lists,
    _read_counts,
    _name_types,
    _read_tuples,
    _read_bounds,
    _read_dependencies,
    _require_once,
    _lift_required,
    _infer_types,
    _allow_null,
    _quote_reference,
)

"""Compile a tool definition's schema, or say why it cannot be compiled.

The author of the tools may not be the one who pays for the CPU: at a gateway, clients send schemas
and models send values. So before a schema is compiled, everything that multiplies is counted: its
bytes, its nesting, and its size after the validator has expanded its references (`expansion`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache, reduce
from typing import Any

import jsonschema_rs
import msgspec

from wholecall.core.compiled import Compiled, Place, demands_integer
from wholecall.core.expansion import count_cost, patterns_of
from wholecall.core.parse import join_path
from wholecall.core.translate import Steps, children, infer_type, translate
from wholecall.core.values import Problem
from wholecall.core.words import cut, show

SCHEMA_BYTES = 64 * 1024
"""Of one tool's schema as JSON. Providers refuse far smaller ones."""
SCHEMA_DEPTH = 128
"""Nesting of one schema. The compiler recurses."""
CONTAINERS = 3000
"""Objects and arrays in one schema. Each is visited a dozen times before it is compiled; a tool
with hundreds of parameters has a third of them."""
CACHED = 256
"""Compiled schemas that are kept. One request has at most 128 tools."""


def prepare(parameters: Mapping[str, Any]) -> Compiled | Problem:
    """Make a tool's schema ready. A problem's path leads to the culprit in the schema.

    The cache goes by the schema's text. To write the text takes microseconds; to go by
    identity would take none, and miss that the caller has changed the dictionary.
    """
    try:
        text = _ENCODER.encode(parameters)
    except (TypeError, ValueError, RecursionError) as error:
        return _refuse((), "json", message=f"cannot be written as JSON: {error}")
    if len(text) > SCHEMA_BYTES:
        return _refuse(
            (), "limit", message=f"has {len(text)} bytes; at most {SCHEMA_BYTES} are allowed"
        )
    return _prepare(text)


def write_mapping(value: Any) -> dict[str, Any]:
    """Tell an encoder how to write what it does not know: a mapping of another make."""
    # Nothing else is taken for an object: of a set of pairs, `dict` would make one.
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


_ENCODER = msgspec.json.Encoder(enc_hook=write_mapping)


@lru_cache(maxsize=CACHED)
def _prepare(text: bytes) -> Compiled | Problem:
    schema = json.loads(text)
    excess = _find_excess(schema)
    if excess:
        return _refuse((), "limit", message=excess)
    schema = infer_type(translate(schema))
    try:
        jsonschema_rs.meta.validate(schema)
    except jsonschema_rs.ValidationError as error:
        return _refuse_invalid(error)
    # From here on, every value at a schema's place is one.
    root = Place("", schema)
    places = list(_walk(root))
    targets = _find_targets(places)
    if isinstance(targets, Problem):
        return targets
    patterns = [pattern for _, place in places for pattern in patterns_of(place.node)]
    cost = count_cost(root, targets, patterns=patterns)
    if isinstance(cost, str):
        return _refuse((), "limit", message=cost)
    try:
        integers = any(demands_integer(place.node) for _, place in places)
        return Compiled(root, targets, cost=cost, integers=integers)
    except ValueError as error:
        return _refuse_uncompiled(error)


def _find_excess(schema: Any) -> str:
    if is_deeper(schema, SCHEMA_DEPTH):
        return f"is nested more than {SCHEMA_DEPTH} deep"
    level, count = [schema], 1
    while level and count <= CONTAINERS:
        level = [child for parent in level for child in _containers_in(parent)]
        count += len(level)
    return f"has more than {CONTAINERS} objects and arrays" if level else ""


def is_deeper(value: Any, depth: int) -> bool:
    """Return True if a value has more levels. Works level by level, since recursion fails on deep
    values."""
    level = [value]
    for _ in range(depth):
        level = [child for parent in level for child in _containers_in(parent)]
        if not level:
            return False
    return True


def _containers_in(parent: Any) -> list[Any]:
    inside = parent.values() if isinstance(parent, (dict, Mapping)) else parent
    return [
        child
        for child in inside
        if type(child) not in _SCALARS and isinstance(child, (dict, list, tuple, Mapping))
    ]


# To ask what else is a mapping takes ten times longer.
_SCALARS = frozenset({str, int, float, bool, type(None)})


# ── References ──────────────────────────────────────────────────────────────────────

_DYNAMIC = ("$dynamicRef", "$recursiveRef")


def _find_targets(places: list[tuple[Steps, Place]]) -> dict[str, Place] | Problem:
    """Every reference in the schema, and the place inside it to which it leads.

    There must be one for each: what is not seen here is not counted below.
    """
    known = {f"#{place.pointer}": place for _, place in places}
    known |= {f"#{place.node['$anchor']}": place for _, place in places if "$anchor" in place.node}
    targets: dict[str, Place] = {}
    for steps, place in places:
        if dynamic := next((word for word in _DYNAMIC if word in place.node), None):
            return _refuse((*steps, dynamic), dynamic, message=f"uses {dynamic}; use $ref")
        if "$ref" not in place.node:
            continue
        reference = place.node["$ref"]
        if _unquote(reference) not in known:
            return _refuse_reference((*steps, "$ref"), reference)
        targets[reference] = known[_unquote(reference)]
    return targets


def _walk(root: Place) -> Iterator[tuple[Steps, Place]]:
    """Yield every place that holds a schema."""
    waiting: list[tuple[Steps, Place]] = [((), root)]
    while waiting:
        above, place = waiting.pop()
        yield above, place
        for steps, child in children(place.node):
            if isinstance(child, dict):
                waiting.append(((*above, *steps), place.inside(*steps)))


def _unquote(reference: str) -> str:
    head, *rest = reference.encode("utf-8", "replace").split(b"%")
    return b"".join([head, *map(_read_escape, rest)]).decode("utf-8", "replace")


def _read_escape(piece: bytes) -> bytes:
    try:
        return bytes([int(piece[:2], 16)]) + piece[2:]
    except ValueError:
        return b"%" + piece


def _refuse_reference(steps: Steps, reference: str) -> Problem:
    if reference.startswith("#"):
        return _refuse(
            steps, "$ref", message=f"refers to {show(reference)}, where no schema stands"
        )
    message = (
        f"refers to {show(reference)}; nothing outside the schema is fetched, "
        "so put the definition under $defs and refer to it as #/$defs/…"
    )
    return _refuse(steps, "$ref", message=message)


# ── Refusals ────────────────────────────────────────────────────────────────────────


def _refuse(steps: Iterable[str | int], kind: str, *, message: str, received: str = "") -> Problem:
    path = reduce(join_path, steps, "$")
    return Problem(path, kind, f"the schema {message}", received, "a JSON Schema of Draft 2020-12")


def _refuse_invalid(error: jsonschema_rs.ValidationError) -> Problem:
    """Describe what the draft's own schema says against a schema."""
    path = error.instance_path
    received = show(error.instance)
    return _refuse(
        path, error.kind.name, message=f"is not valid: {cut(error.message)}", received=received
    )


_PATTERNS = (
    "cannot be compiled: {message}. A pattern must be a regular expression of linear time, without "
    "look-around and backreferences, and lengths belong into minLength and maxLength"
)


def _refuse_uncompiled(error: ValueError) -> Problem:
    """After the draft's own schema has agreed, only a pattern can be wrong."""
    path = error.instance_path if isinstance(error, jsonschema_rs.ValidationError) else ()
    message = str(error).partition("\n")[0]
    return _refuse(path, "pattern", message=_PATTERNS.format(message=cut(message)))

"""Schemas of parameters behind a reference: `{"$ref": "#/$defs/Unit"}`.

A dialect without types takes the type of a raw value from the schema. Schema generators put every
named type into a reference, or into an `allOf` of one.
"""

from __future__ import annotations

from wholecall.core.compiled import Compiled
from wholecall.core.translate import Node

_MOST_STEPS = 8
"""References that lead to each other. Honest ones are one or two."""


def follow(schema: Node, compiled: Compiled) -> Node:
    """Return the schema of a parameter with its references resolved."""
    for _ in range(_MOST_STEPS):
        target = compiled.follow(schema)
        others = [*([target] if target != schema else []), *schema.get("allOf", ())]
        if not others:
            break
        own = {key: said for key, said in schema.items() if key not in ("$ref", "allOf")}
        schema = {key: said for other in others for key, said in other.items()} | own
    return schema

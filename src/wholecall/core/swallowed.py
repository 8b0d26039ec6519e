"""Parameters that stand as markup in the text of another one.

Where a model closes a parameter with the wrong tag, its provider takes what follows for a
part of the value: the call is valid, and its other parameters are silently missing.

    {"content": "long text</content>\n<parameter name=\"tags\">a, b"}

https://github.com/anthropics/claude-code/issues/44826

And where it fails to read GLM's tags, they end up in names and values
(https://github.com/exo-explore/exo/pull/2187).

    {"file<arg_key": "page</arg_key><arg_value>5"}
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from wholecall.core.values import JSON

# One tag is closed, and another opens that names a parameter. Everything is bounded, so that a text
# of nothing but brackets is read once.
_NAMED = re.compile(
    r"""</[^<>]{1,64}>\s{0,16}
    <(?: (?:\w{1,16}:)?parameter (?:\s{1,4}name\s?=\s?["']?|=) ([^"'<>\s=]{1,64})
       | arg_key> ([^<>]{1,64}) </arg_key> )""",
    re.VERBOSE,
)
_LEAKED = re.compile(r"\s{0,16}</antml[: ]parameter>")


_BETWEEN = re.compile(r"</arg_key>\s{0,16}<arg_value>|</arg_value>\s{0,16}\Z")
_IN_NAME = re.compile(r"</?(?:\w{1,16}:)?(?:arg_key|arg_value|parameter)")
_NOTHING: tuple[JSON, ...] = (None, "", [], {})


def find_swallowed(arguments: Mapping[str, JSON], names: Collection[str] | None) -> str:
    """Return the parameter whose value holds markup of this call, or nothing.

    `names` are the tool's parameters; None if it takes any.
    """
    for key, value in arguments.items():
        torn = "<" in key and _IN_NAME.search(key)
        held = isinstance(value, str) and "</" in value and _holds(value, arguments, names=names)
        if torn or held:
            return key
    return ""


def _holds(text: str, given: Mapping[str, JSON], *, names: Collection[str] | None) -> bool:
    if _LEAKED.match(text) or _is_torn(text):
        return True
    named = (found[1] or found[2] for found in _NAMED.finditer(text))
    missing = (name for name in named if given.get(name) in _NOTHING)
    return any(names is None or name in names for name in missing)


def _is_torn(text: str) -> bool:
    """Return True if a pair of GLM's tags ends in the text but did not begin there."""
    if _BETWEEN.search(text) is None:
        return False
    return any(text.count(f"<{tag}>") < text.count(f"</{tag}>") for tag in ("arg_key", "arg_value"))

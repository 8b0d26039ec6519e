"""Arguments written as a block of YAML that `yaml_calls` reads back unchanged.

Strings are in JSON's quotes, which are YAML's as well; a text of several lines is written under
`|-` if it can be read in only one way.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from wholecall.core.values import JSON

_STEP = "  "
_PLAIN_KEY = re.compile(r"[A-Za-z_][\w\-]*\Z")
# Lines that begin with no blank and hold nothing but what is seen, and no empty one at the end.
_PLAIN_TEXT = re.compile(r"[^\s\x00-\x1f\x7f-\x9f][^\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]*\Z")


def write_yaml(arguments: Mapping[str, JSON]) -> str:
    """A mapping, each line with its end."""
    return "".join(f"{line}\n" for line in _members(arguments, ""))


def _members(mapping: Mapping[str, JSON], indent: str) -> Iterator[str]:
    for key, value in mapping.items():
        spelled = key if _PLAIN_KEY.match(key) else _dump(key)
        first, *rest = _lines(value, indent)
        yield f"{indent}{spelled}:{first}"
        yield from rest


def _items(items: list[JSON] | tuple[JSON, ...], indent: str) -> Iterator[str]:
    for value in items:
        first, *rest = _lines(value, indent)
        yield f"{indent}-{first}"
        yield from rest


def _lines(value: JSON, indent: str) -> Iterator[str]:
    """Yield the text after a key or a dash, and the lines below it."""
    if value and isinstance(value, Mapping):
        yield ""
        yield from _members(value, indent + _STEP)
    elif value and isinstance(value, (list, tuple)):
        yield ""
        yield from _items(value, indent + _STEP)
    elif isinstance(value, str) and _is_block(value):
        yield " |-"
        yield from (indent + _STEP + line if line else "" for line in value.split("\n"))
    else:
        yield f" {_dump(value)}"


def _is_block(text: str) -> bool:
    return "\n" in text and not text.endswith("\n") and bool(_PLAIN_TEXT.match(text))


def _dump(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)

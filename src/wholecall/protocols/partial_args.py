"""Arguments that Gemini streams as values at JSON paths.

`{"jsonPath": "$.recipe.steps[0]", "stringValue": "Mix", "willContinue": true}` puts a string at its
place; the next one for the same path is appended to it, until one comes without `willContinue`.
Objects and arrays are implied by the paths.

A value that contradicts an earlier one at its place is an error: it would be a guess which of the
two the model means.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, TypeAlias

from msgspec import UNSET, UnsetType

from wholecall.core.limits import DEFAULT
from wholecall.errors import ProtocolError
from wholecall.protocols.pieces import Pieces

Scalar: TypeAlias = str | int | float | bool | None
_Step: TypeAlias = str | int

# One step of a path: `.name`, `[0]`, `["any name"]` or `['any name']` (RFC 9535). Nothing is
# tried twice: the repetitions are possessive.
_STEP = re.compile(
    r"""\.(?P<name>[^.\[]+)
      | \[(?P<index>\d{1,9})\]
      | \["(?P<double>(?:[^"\\]++|\\.)*+)"\]
      | \['(?P<single>(?:[^'\\]++|\\.)*+)'\]""",
    re.VERBOSE,
)
# A double holds every integer up to here; the API has no other numbers.
_EXACT = 2**53


class GrowingObject:
    """The arguments of one call, as far as they came."""

    __slots__ = ("_growing", "_room", "_root")

    def __init__(self, begun: Mapping[str, Any]) -> None:
        self._root: dict[str, Any] = dict(begun)
        self._growing: dict[tuple[_Step, ...], Pieces] = {}
        self._room = DEFAULT.characters

    @property
    def is_whole(self) -> bool:
        """True if no string is incomplete."""
        return not self._growing

    def put(self, path: str, value: Scalar | UnsetType, *, continues: bool) -> None:
        """Take the value, or the next piece of the string, at a path."""
        self._room -= len(path)
        if self._room < 0:
            raise ProtocolError(f"partial arguments have more than {DEFAULT.characters} characters")
        steps = parse_path(path)
        if steps in self._growing:
            self._append(steps, value, path=path)
        elif continues and (value is UNSET or isinstance(value, str)):
            self._growing[steps] = Pieces(f"the string at {path}")
            self._growing[steps].add(value or "")
            _place(self._root, steps, value=self._growing[steps], path=path)
        elif value is not UNSET:
            _place(self._root, steps, value=_whole_number(value), path=path)
        else:
            raise ProtocolError(f"no value came for {path}")
        if not continues:
            self._growing.pop(steps, None)

    def _append(self, steps: tuple[_Step, ...], value: Scalar | UnsetType, *, path: str) -> None:
        # The last piece may be empty, and the empty value is left out by some clients.
        if isinstance(value, str):
            self._growing[steps].add(value)
        elif value is not UNSET and value is not None:
            raise ProtocolError(f"the string at {path} goes on as {value!r}")

    def encode(self) -> str:
        """The arguments as JSON text."""
        return json.dumps(self._root, default=Pieces.join, ensure_ascii=False)


def parse_path(path: str) -> tuple[_Step, ...]:
    """The names and indices of a JSON path that leads to one value."""
    steps: list[_Step] = []
    at = 1
    while at < len(path) and len(steps) < DEFAULT.depth:
        step = _STEP.match(path, at)
        if step is None:
            break
        steps.append(_read_step(step))
        at = step.end()
    if not path.startswith("$") or at < len(path) or not steps:
        raise ProtocolError(f"JSON path {path[:200]!r} cannot be followed")
    return tuple(steps)


def _read_step(step: re.Match[str]) -> _Step:
    if step["index"] is not None:
        return int(step["index"])
    if step["name"] is not None:
        return step["name"]
    quoted = step["double"]
    if quoted is None:
        quoted = step["single"].replace("\\'", "'").replace('"', '\\"')
    try:
        return str(json.loads(f'"{quoted}"', strict=False))
    except ValueError:
        raise ProtocolError(f"JSON path holds a name that cannot be read: {quoted!r}") from None


def _place(root: dict[str, Any], steps: tuple[_Step, ...], *, value: Any, path: str) -> None:
    node: Any = root
    for step, following in pairwise((*steps, None)):
        if not _can_hold(node, step):
            raise ProtocolError(f"{path} contradicts the arguments that came before")
        if following is None and _has(node, step):
            raise ProtocolError(f"a second value came for {path}")
        new = value if following is None else [] if isinstance(following, int) else {}
        node = _get_or_set(node, step, new=new)


def _can_hold(node: Any, step: _Step | None) -> bool:
    if isinstance(step, str):
        return isinstance(node, dict)
    # An array grows at its end: an index beyond it would leave a hole.
    return isinstance(node, list) and step is not None and step <= len(node)


def _has(node: Any, step: Any) -> bool:
    return step in node if isinstance(node, dict) else step < len(node)


def _get_or_set(node: Any, step: Any, *, new: Any) -> Any:
    if not _has(node, step):
        if isinstance(node, dict):
            node[step] = new
        else:
            node.append(new)
    return node[step]


def _whole_number(value: Scalar | UnsetType) -> Scalar | UnsetType:
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    return value

"""A look at arguments that are still being written. For display, never for execution.

What is open is closed, what is half or broken is left out. Every such change is an
unsafe repair, and a `Call` refuses to be built on one.
"""

from __future__ import annotations

from collections.abc import Mapping

from wholecall.core.extent import find_too_many
from wholecall.core.grammar import walk
from wholecall.core.limits import DEFAULT, Limits
from wholecall.core.parse import Parsed, excerpt, parse
from wholecall.core.values import JSON, Repair, Value

_MARKS = 10_000
"""Members and items that are shown. A preview may be made for every piece that arrives, and takes a
microsecond for each mark; more would not be read."""
_CLOSINGS = {'"': "close_string", "]": "close_array", "}": "close_object"}


class Preview(Value, frozen=True):
    """The visible part of an object so far, and what was invented to show it."""

    value: Mapping[str, JSON]
    repairs: tuple[Repair, ...] = ()


def preview(text: str, *, limits: Limits = DEFAULT) -> Preview:
    """Complete the beginning of an object. Without one there is nothing to show.

    It is for display: no call is ever made of it.

    ```python
    from wholecall import preview

    print(preview('{"city": "Os').value)
    ```

    ```text
    {'city': 'Os'}
    ```
    """
    end_of_view = find_too_many(text, _MARKS)
    walked = walk(text[:end_of_view], depth=limits.depth)
    end, ending = walked.completable, "".join(reversed(walked.closers))
    if walked.open_string is not None:
        end, ending = walked.open_string, f'"{ending}'
    parsed = parse(text[:end] + ending, limits=limits)
    if not isinstance(parsed, Parsed) or not isinstance(parsed.value, Mapping):
        return Preview({})
    repairs = [*parsed.changes]
    if rest := text[end:].strip():
        repairs.append(Repair("drop_unfinished", excerpt(rest), "", safe=False))
    repairs += [Repair(_CLOSINGS[mark], "", mark, safe=False) for mark in dict.fromkeys(ending)]
    return Preview(parsed.value, tuple(repairs))

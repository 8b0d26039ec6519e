"""Whether somebody who was let in would be let in again.

A stream has no end of its own, and a key may be revoked while it is read. Whoever stands before
the routes puts into the scope of a request how to find out.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

_KEY = "wholecall.admission"


def put_admission(scope: MutableMapping[str, Any], is_admitted: Callable[[], bool]) -> None:
    """Let the routes ask."""
    scope[_KEY] = is_admitted


def is_admitted(scope: MutableMapping[str, Any]) -> bool:
    """Whether who sent the request may still read; yes, where nobody looks at keys."""
    ask: Callable[[], bool] | None = scope.get(_KEY)
    return ask is None or ask()

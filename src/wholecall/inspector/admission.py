"""Check whether an admitted reader would still be admitted.

A stream has no end of its own, and a key may be revoked while it is read. The middleware puts a
check into the scope of a request.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

_KEY = "wholecall.admission"


def put_admission(scope: MutableMapping[str, Any], is_admitted: Callable[[], bool]) -> None:
    """Let the routes ask."""
    scope[_KEY] = is_admitted


def is_admitted(scope: MutableMapping[str, Any]) -> bool:
    """Return True if the sender of the request may still read; always True without keys."""
    ask: Callable[[], bool] | None = scope.get(_KEY)
    return ask is None or ask()

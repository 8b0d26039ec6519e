"""Taps of users: functions that look on, and must not change what they look at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

_Event = TypeVar("_Event")


def show(event: _Event, tap: Callable[[_Event], None], *, of: str) -> None:
    """Show an event to a tap `of` something. What it raises goes to the event loop's exception
    handler, which logs it, and nowhere else."""
    try:
        tap(event)
    # It is the user's code, and may raise anything.
    except Exception as error:  # noqa: BLE001
        message = f"a tap of {of} raised at {type(event).__name__}"
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})

"""Wrappers around calls: to time, cache, deny or fake them, or to write them down first.

    async def timed(call: Call, run_next: RunNext) -> Result:
        began = time.perf_counter()
        result = await run_next(call)
        print(call.name, time.perf_counter() - began)
        return result

The first of a list is the outermost. A wrapper that does not call `run_next` answers by
itself, and the tool does not run. It runs anew for each attempt, within the tool's time,
and sees the whole result, before it is cut to size.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from wholecall.events import Call
from wholecall.messages import Result
from wholecall.tools.results import to_result

RunNext: TypeAlias = Callable[[Call], Awaitable[Result]]
"""Runs the call, or another one of the same tool: a wrapper may change the arguments."""
Around: TypeAlias = Callable[[Call, RunNext], Awaitable[Result]]


def wrap(around: Sequence[Around], run: RunNext) -> RunNext:
    """Put the wrappers around `run`."""
    for wrapper in reversed(around):
        run = _put_around(wrapper, run)
    return run


def only_once(run: RunNext) -> RunNext:
    """Guard a tool that may not be repeated against a wrapper that would."""
    begun = False

    async def run_once(call: Call) -> Result:
        nonlocal begun
        if begun:
            raise RuntimeError(
                f"run_next was called twice for {call.name!r}, which is neither "
                "read-only nor idempotent"
            )
        begun = True
        return await run(call)

    return run_once


def _put_around(wrapper: Around, run: RunNext) -> RunNext:
    async def run_wrapped(call: Call) -> Result:
        return to_result(await wrapper(call, run))

    return run_wrapped

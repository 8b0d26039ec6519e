"""What a request leaves behind: nothing that only the garbage collector could free."""

from __future__ import annotations

import gc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from e2e.test_proxy_clients import CALL, PATH, STOP, STREAMED, TEXT, answering, between
from proxying import in_loop

TOOLS = [{"type": "function", "function": {"name": "work"}}]
ROWS: dict[str, tuple[list[bytes], dict[str, Any]]] = {
    "text that passes through": ([TEXT, STOP], STREAMED),
    "a call that is checked": ([CALL], {**STREAMED, "tools": TOOLS}),
    "a model that is not served": ([], {**STREAMED, "model": "none"}),
    "a stream that is cut": ([TEXT], STREAMED),
}


@pytest.mark.parametrize(("answer", "asked"), ROWS.values(), ids=ROWS)
@in_loop
async def test_a_request_leaves_no_cycles(
    tmp_path: Path, answer: list[bytes], *, asked: dict[str, Any]
) -> None:
    async with between(answering(*answer), tmp_path) as (served, _):
        await served.post(PATH, asked)  # the first one also imports and connects
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            await served.post(PATH, asked)
            gc.collect()
            found = Counter(f"{type(each).__module__}.{type(each).__name__}" for each in gc.garbage)
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
    ours = {name: count for name, count in found.items() if name.startswith("wholecall.")}
    assert not ours

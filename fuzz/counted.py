"""`wholecall serve` that counts what it holds: tasks, and objects by their types.

    WHOLECALL_CONFIG=FILE python fuzz/counted.py FILE

SIGUSR2 writes the counts to FILE.
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from wholecall.__main__ import main
from wholecall.proxy import server
from wholecall.proxy.app import Proxy
from wholecall.proxy.server import lifespan

OUT = Path(sys.argv[-1])


def write_counts(out: Path) -> None:
    """Write how many tasks and objects there are."""
    gc.collect()
    types = Counter(
        f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.get_objects()
    )
    counts = {"tasks": len(asyncio.all_tasks()), "objects": sum(types.values()), "types": types}
    fresh = out.with_suffix(".new")
    fresh.write_text(json.dumps(counts))
    fresh.rename(out)


@asynccontextmanager
async def counted(proxy: Proxy) -> AsyncIterator[None]:
    """Count while the proxy runs."""
    async with lifespan(proxy):
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, write_counts, OUT)
        yield


if __name__ == "__main__":
    vars(server).update(lifespan=counted)
    sys.argv[1:] = ["serve"]
    main()

"""What is freed without the collector of garbage."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_collector() -> Iterator[None]:
    """Whatever is freed in here, it is not freed by chance."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()

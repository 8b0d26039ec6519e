"""Real models. `make test-model` runs these tests, `make test` does not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from wholecall.errors import UnknownModel
from wholecall.upstreams.local_upstream import LocalUpstream, find_file
from wholecall.upstreams.model_process import LocalSettings

_T = TypeVar("_T")
# A small model on a busy machine writes some tokens a second.
SECONDS = 300.0


class Model:
    """A model that is loaded once for all tests of a file."""

    def __init__(self, upstream: LocalUpstream, runner: asyncio.Runner) -> None:
        self.upstream = upstream
        self._runner = runner

    def run(self, work: Callable[[LocalUpstream], Awaitable[_T]]) -> _T:
        async def bounded() -> _T:
            async with asyncio.timeout(SECONDS):
                return await work(self.upstream)

        return self._runner.run(bounded())


@contextmanager
def loaded(name: str, *, context: int) -> Iterator[Model]:
    try:
        path = find_file(name, os.environ)
    except UnknownModel as error:
        pytest.skip(str(error))
    upstream = LocalUpstream(path, settings=LocalSettings(context=context))
    with asyncio.Runner() as runner:
        yield Model(upstream, runner)
        runner.run(upstream.close())


@pytest.fixture(scope="module")
def smollm2() -> Iterator[Model]:
    with loaded("smollm2", context=4096) as model:
        yield model


@pytest.fixture(scope="module")
def qwen() -> Iterator[Model]:
    with loaded("qwen2.5-coder-1.5b", context=4096) as model:
        yield model

"""The models of an upstream, by its own list: for `*`.

{"data": [{"id": "…"}]}       OpenAI, Anthropic, and most others
{"models": [{"name": "…"}]}   Ollama, and Gemini, whose names begin with `models/`
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import msgspec

from wholecall.errors import UpstreamError
from wholecall.proxy.piping import Pipe

FRESH_SECONDS = 60.0
"""Seconds for which a list, or its absence, is cached."""
MOST_LISTED = 1000
_GEMINI = "models/"


class _Model(msgspec.Struct):
    id: str = ""
    name: str = ""


class _Page(msgspec.Struct):
    data: list[_Model] | None = None
    models: list[_Model] | None = None


_PAGE = msgspec.json.Decoder(_Page)


class Listing:
    """The models of one pipe. An unavailable list is empty: nothing depends on it."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._asking = asyncio.Lock()
        self._pipe: Pipe | None = None
        self._asked_at = 0.0
        self._names: tuple[str, ...] = ()

    async def find_names(self, pipe: Pipe) -> tuple[str, ...]:
        """The names of the models, as the upstream writes them."""
        async with self._asking:  # who comes meanwhile waits for the same list
            if pipe is not self._pipe or self._clock() >= self._asked_at + FRESH_SECONDS:
                self._names = await _ask(pipe)
                self._pipe, self._asked_at = pipe, self._clock()
            return self._names


async def _ask(pipe: Pipe) -> tuple[str, ...]:
    try:
        return read_names(await pipe.fetch_models())
    except UpstreamError:
        return ()


def read_names(page: bytes) -> tuple[str, ...]:
    """Return the names in a list of models; none if it is not such a list."""
    try:
        read = _PAGE.decode(page)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ()
    models = (*(read.data or ()), *(read.models or ()))
    names = (model.id or model.name.removeprefix(_GEMINI) for model in models)
    return tuple(dict.fromkeys(name for name in names if name))[:MOST_LISTED]

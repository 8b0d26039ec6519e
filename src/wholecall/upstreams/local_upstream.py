"""A model in a local file, served by llama.cpp on this machine."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec
from yarl import URL

from wholecall.errors import UnknownModel, UpstreamError
from wholecall.messages import Request
from wholecall.protocols.registry import CHAT
from wholecall.upstreams.base import Answer
from wholecall.upstreams.connection_pool import ConnectionPool
from wholecall.upstreams.http import HttpSettings, HttpUpstream
from wholecall.upstreams.http_connection import Timeouts, read_some
from wholecall.upstreams.model_files import SUFFIX, find_model, models_folder
from wholecall.upstreams.model_process import (
    CODE,
    PROGRAM,
    LocalSettings,
    ModelKeeper,
    ModelProcess,
    ServerOrder,
    demand_fit,
)

_GOOD = 200
_MOST_BYTES = 4 * 1024 * 1024
"""It holds the template itself, and the parameters of the start."""
_SECONDS = 30.0
"""It answers at once, but not while it generates another answer."""


class _Abilities(msgspec.Struct, frozen=True):
    supports_tools: bool | None = None


class _Properties(msgspec.Struct, frozen=True):
    chat_template_caps: _Abilities = _Abilities()


async def takes_tools(address: str, key: str) -> bool | None:
    """Ask llama.cpp. None if it does not say."""
    url = URL(address) / "props"
    pool = ConnectionPool(url, timeouts=Timeouts())
    try:
        async with asyncio.timeout(_SECONDS):
            response = await pool.get(url, headers={"Authorization": f"Bearer {key}"})
            said = await read_some(response, _MOST_BYTES) if response.status == _GOOD else b"{}"
        return msgspec.json.decode(said, type=_Properties).chat_template_caps.supports_tools
    except (OSError, msgspec.DecodeError):
        return None
    finally:
        await pool.close()


# `LocalUpstream`: a model in a file of yours, served by llama.cpp on this machine.


MOST_WAYS = 4
"""To processes of one model: that of the moment, and some that have ended."""
_CONNECTION = "connection"
_BAD_REQUEST = 400


class LocalUpstream:
    """Asks llama.cpp, which runs in a process of its own.

    The first question loads the model; `close` ends the process, and so does our own end,
    however it comes about. If the process dies, the next question starts it again.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        settings: LocalSettings | None = None,
        program: Sequence[str] = PROGRAM,
    ) -> None:
        self.path = Path(path)
        self._settings = settings or LocalSettings()
        self._program = program
        self._key = secrets.token_urlsafe(32)
        self._keeper = ModelKeeper(self._launch, start_seconds=self._settings.start_seconds)
        self._ways: dict[str, HttpUpstream] = {}
        """By the addresses of the last processes, the newest at the end."""
        self._template: tuple[str, bool] | None = None

    @property
    def protocol(self) -> str:
        """The protocol that it speaks."""
        return CHAT

    @property
    def is_loaded(self) -> bool:
        """True if the next question finds the model loaded."""
        return self._keeper.is_loaded

    @asynccontextmanager
    async def answer(self, request: Request) -> AsyncIterator[Answer]:
        """Ask, and read the answer inside of the context."""
        async with AsyncExitStack() as stack:
            address = await self._keeper.find_address()
            try:
                answer = await stack.enter_async_context(self._ask(address, request))
            except UpstreamError as error:
                # A process that died a moment ago still looks alive. Nothing of the answer came, so
                # it is requested once more, from the next process.
                if error.code != _CONNECTION:
                    raise
                current = await self._keeper.find_address()
                if current == address:
                    raise
                answer = await stack.enter_async_context(self._ask(current, request))
            yield answer

    @asynccontextmanager
    async def _ask(self, address: str, request: Request) -> AsyncIterator[Answer]:
        if request.tools:
            await self._demand_template(address)
        async with (await self._connect(address)).answer(request) as answer:
            yield answer

    async def close(self) -> None:
        """End the process. The next question starts another."""
        await asyncio.to_thread(self._keeper.stop)
        ways, self._ways = self._ways, {}
        for way in ways.values():
            await way.close()

    async def _demand_template(self, address: str) -> None:
        if self._template is None or self._template[0] != address:
            taken = await takes_tools(address, self._key)
            if taken is None:
                return  # believed this time, and asked again with the next question
            self._template = address, taken
        if not self._template[1]:
            raise UpstreamError(
                f"the chat template of {self.path.name} has no place for tools: offer them "
                "constrained, or in a dialect",
                status=_BAD_REQUEST,
                code=CODE,
            )

    async def _connect(self, address: str) -> HttpUpstream:
        """The way to a process; each has a port of its own. Who has the address of one that ended
        meanwhile must not take the next one's away from others."""
        way = self._ways.get(address)
        if way is not None:
            return way
        # Without our environment: this machine needs no proxy to reach itself.
        settings = HttpSettings(environ={})
        way = self._ways[address] = HttpUpstream(
            CHAT, address, api_key=self._key, settings=settings
        )
        if len(self._ways) > MOST_WAYS:
            await self._ways.pop(next(iter(self._ways))).close()
        return way

    def _launch(self) -> ModelProcess:
        demand_fit(self.path)
        settings = self._settings
        order = ServerOrder(
            path=str(self.path),
            key=self._key,
            context=settings.context,
            parallel=settings.parallel,
            threads=settings.threads or os.cpu_count() or 1,
            output_tokens=settings.output_tokens,
            temperature=settings.temperature,
        )
        return ModelProcess(order, self._program)


def find_file(name: str, environ: Mapping[str, str]) -> Path:
    """The file of a model: a path that ends with `.gguf`, or a name in the user's cache."""
    if name.endswith(SUFFIX):
        path = Path(name).expanduser()
        if not path.is_file():
            raise UnknownModel(f"there is no file {path}")
        return path
    folder = models_folder(environ)
    own = folder / (name + SUFFIX)
    if own.is_file():
        return own
    model = find_model(name)
    path = folder / model.file_name
    if not path.is_file():
        raise UnknownModel(
            f"{model.name} is not on this machine yet: run `wholecall model pull {model.name}`"
        )
    return path

"""`LocalUpstream`: a model in a file of yours, served by llama.cpp on this machine."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from wholecall.core.conversation import Request
from wholecall.errors import UnknownModel, UpstreamError
from wholecall.upstreams.base import Answer
from wholecall.upstreams.http import HttpSettings, HttpUpstream
from wholecall.upstreams.local.catalogue import find_model
from wholecall.upstreams.local.fitness import CODE, demand_fit
from wholecall.upstreams.local.folder import SUFFIX, models_folder
from wholecall.upstreams.local.keeper import Keeper
from wholecall.upstreams.local.process import PROGRAM, ModelProcess
from wholecall.upstreams.local.settings import LocalSettings, Order
from wholecall.upstreams.local.template import takes_tools

_PROTOCOL = "openai-chat"
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
        self._keeper = Keeper(self._launch, start_seconds=self._settings.start_seconds)
        self._ways: dict[str, HttpUpstream] = {}
        """By the addresses of the last processes, the newest at the end."""
        self._template: tuple[str, bool] | None = None

    @property
    def protocol(self) -> str:
        """The protocol that it speaks."""
        return _PROTOCOL

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
        # Without our environment: there is no proxy between this machine and itself.
        settings = HttpSettings(environ={})
        way = self._ways[address] = HttpUpstream(
            _PROTOCOL, address, api_key=self._key, settings=settings
        )
        if len(self._ways) > MOST_WAYS:
            await self._ways.pop(next(iter(self._ways))).close()
        return way

    def _launch(self) -> ModelProcess:
        demand_fit(self.path)
        settings = self._settings
        order = Order(
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

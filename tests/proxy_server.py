"""The proxy on a real socket, for tests."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ParamSpec

import aiohttp
import anthropic
import openai
import uvicorn

from wholecall.proxy.app import Proxy, make_app
from wholecall.proxy.config.schema import Config, KeysConfig, ModelConfig
from wholecall.tools.tool import Tool

_Arguments = ParamSpec("_Arguments")
# Long enough for a busy machine; a test that waits for it has failed.
PATIENCE = 30.0
KEY = "sk-upstream-secret"


def within(
    seconds: float,
) -> Callable[[Callable[_Arguments, Awaitable[None]]], Callable[_Arguments, None]]:
    """Run an asynchronous test, and not for longer than this."""

    def decorate(test: Callable[_Arguments, Awaitable[None]]) -> Callable[_Arguments, None]:
        @functools.wraps(test)
        def run(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
            async def bounded() -> None:
                async with asyncio.timeout(seconds):
                    await test(*args, **kwargs)

            asyncio.run(bounded())

        return run

    return decorate


def in_loop(test: Callable[_Arguments, Awaitable[None]]) -> Callable[_Arguments, None]:
    """Run an asynchronous test, and not for longer than a busy machine may need."""
    return within(PATIENCE)(test)


@dataclass
class Served:
    """A proxy that listens, and clients for it."""

    proxy: Proxy
    url: str
    http: aiohttp.ClientSession
    openai: openai.AsyncOpenAI
    anthropic: anthropic.AsyncAnthropic
    server: uvicorn.Server

    async def post(
        self, path: str, body: Any, **headers: str
    ) -> tuple[int, Any, Mapping[str, str]]:
        """Ask without an SDK; the body is what JSON says, or the text of a stream."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.http.post(self.url + path, json=body, headers=named) as response:
            if response.content_type == "application/json":
                return response.status, await response.json(), response.headers
            return response.status, await response.text(), response.headers


@dataclass(frozen=True)
class Offer:
    """What a proxy serves in a test."""

    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    tools: tuple[Tool, ...] = ()
    folder: Path | None = None
    """Where its files lie; without it, it keeps none."""

    def make(self) -> Proxy:
        keys = KeysConfig(path=str((self.folder or Path("/nonexistent")) / "keys.sqlite"))
        return make_app(Config(models=self.models, keys=keys), environ={}, tools=self.tools)


def upstream(name: str, base_url: str, **settings: Any) -> ModelConfig:
    """A model behind an address on loopback."""
    return replace(ModelConfig(upstream=name, base_url=base_url, retries=0), **settings)


@asynccontextmanager
async def proxying(offer: Offer | Proxy, *, port: int = 0) -> AsyncIterator[Served]:
    """Serve on loopback, and end."""
    proxy = offer if isinstance(offer, Proxy) else offer.make()
    config = uvicorn.Config(
        proxy,
        port=port,
        http="wholecall.proxy.http.uvicorn_protocol:TimedProtocol",
        ws="wholecall.proxy.http.uvicorn_protocol:TimedWebSocket",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
        timeout_keep_alive=75,  # as in the product: a busy machine takes its time between two
    )
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        if task.done():
            await task
        await asyncio.sleep(0.01)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    chat = openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)
    messages = anthropic.AsyncAnthropic(base_url=url, api_key="any", max_retries=0)
    try:
        async with aiohttp.ClientSession() as http, chat, messages:
            yield Served(proxy, url, http, chat, messages, server)
    finally:
        server.should_exit = True
        await task


@contextmanager
def proxy_in_thread(offer: Offer | Proxy) -> Iterator[str]:
    """The same for tests that use synchronous clients; yields the address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    serving = proxying(offer)

    def wait(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(PATIENCE)

    try:
        served: Served = wait(serving.__aenter__())
        try:
            yield served.url
        finally:
            wait(serving.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

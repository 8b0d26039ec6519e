"""The proxy of the demo: one model, four example tools that run here, and the inspector.

So that the page has something to show, questions are asked from the start: the scripted model
is asked all that it knows, again and again; a real one is asked once, which also loads it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from wholecall.core.conversation import Message, Request, Role
from wholecall.core.outcome import collect
from wholecall.core.values import Text
from wholecall.demo.scripted import NAME, PROTOCOL, ScriptedModel
from wholecall.demo.tools import TOOLS
from wholecall.errors import UpstreamError
from wholecall.protocols.reader import Reader
from wholecall.proxy.app import Proxy, make_app
from wholecall.proxy.config.settings import (
    Config,
    InspectorConfig,
    KeysConfig,
    ListenConfig,
    LogConfig,
    ModelConfig,
    ServerLimits,
)
from wholecall.proxy.serving import Mode, Served
from wholecall.runs.limits import default_limits
from wholecall.tools.toolbox import Toolbox
from wholecall.upstreams.http import HttpSettings, HttpUpstream
from wholecall.upstreams.retry import RetryPolicy

FIRST_QUESTION = "What is the weather in Oslo?"
BETWEEN_SECONDS = 2.0
"""Between two questions to the scripted model: ten seconds show three of them."""
_KEYS = "keys.sqlite"
_DRAIN_SECONDS = 1.0
"""A user who ends a demo does not wait for the rest of an answer."""
_DAYS = 1.0
_MEGABYTES = 64
# It asks itself: no proxy stands between, and what it refuses it will refuse again.
_SETTINGS = HttpSettings(environ={}, retry=RetryPolicy(retries=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """What is shown, and where."""

    listen: ListenConfig
    folder: Path
    """For what the inspector keeps."""
    local: str | None = None
    """A model on this machine, as in `local/qwen2.5-coder-1.5b`; None: only the scripted one."""

    @property
    def model(self) -> str:
        """The name under which clients ask for it."""
        if self.local is None:
            return NAME
        name = Path(self.local).name.removesuffix(".gguf")
        return self.local if name == NAME else name  # the script keeps its own

    def make_config(self) -> Config:
        """The settings of its proxy."""
        models = {}
        if self.local is not None:
            models[self.model] = ModelConfig(
                upstream=self.local, mode=Mode.RUN.value, limits=default_limits(self.local)
            )
        return Config(
            listen=self.listen,
            models=models,
            keys=KeysConfig(path=str(self.folder / _KEYS)),
            limits=ServerLimits(drain_seconds=_DRAIN_SECONDS),
            # Warnings tell of faulty answers, and those are what is shown.
            log=LogConfig(level="error", format="text"),
            inspector=InspectorConfig(enabled=True, bodies=True, days=_DAYS, megabytes=_MEGABYTES),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """Who hears of what the demo does by itself."""

    answered: Callable[[str], None] = lambda _: None
    """What the real model said to the first question."""
    failed: Callable[[UpstreamError], None] = lambda _: None
    """The real model does not run here; the scripted one takes its place."""


class Asking:
    """Asks on, as long as the proxy lives and until it is stopped."""

    def __init__(self, work: Callable[[], Coroutine[None, None, None]]) -> None:
        self._work = work
        self._cancel: Callable[[], object] = lambda: None

    @asynccontextmanager
    async def around(self, _: Proxy) -> AsyncIterator[None]:
        """While this lasts, it asks."""
        task = asyncio.create_task(self._work())
        loop = asyncio.get_running_loop()
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    def stop(self) -> None:
        """Ask nothing more; also from a handler of signals."""
        self._cancel()


class Shown(NamedTuple):
    """A demo that can be served."""

    proxy: Proxy
    asking: Asking


def make_demo(demo: Demo, address: str, *, audience: Audience) -> Shown:
    """The proxy, and the questions that it is asked as long as it lives."""
    scripted = ScriptedModel()
    asking = Asking(lambda: _ask_on(demo, address, scripted=scripted, audience=audience))
    proxy = make_app(
        demo.make_config(),
        tools=Toolbox(TOOLS),
        models=[Served(name=NAME, upstream=scripted, model=NAME, mode=Mode.RUN)],
        around=asking.around,
    )
    return Shown(proxy, asking)


async def _ask_on(demo: Demo, address: str, *, scripted: ScriptedModel, audience: Audience) -> None:
    if demo.local is not None:
        try:
            said = await ask(address, demo.model, question=FIRST_QUESTION)
        except UpstreamError as error:
            audience.failed(error)
        else:
            audience.answered(said)
            return
    for question in cycle(scripted.questions):
        # Some of its answers fail: that is what they are there for.
        with suppress(UpstreamError):
            await ask(address, NAME, question=question)
        await asyncio.sleep(BETWEEN_SECONDS)


async def ask(address: str, model: str, *, question: str) -> str:
    """Ask as any client would; the text of the answer."""
    upstream = HttpUpstream(PROTOCOL, f"{address}/v1", settings=_SETTINGS)
    request = Request(model=model, messages=(Message(Role.USER, (Text(question),)),))
    try:
        async with upstream.answer(request) as answer:
            reader = Reader(answer.protocol)
            events = [event async for chunk in answer.chunks for event in reader.feed(chunk)]
    finally:
        await upstream.close()
    outcome = collect([*events, *reader.end()])
    if outcome.error is not None:
        raise UpstreamError(f"the answer broke off: {outcome.error}")
    return outcome.text

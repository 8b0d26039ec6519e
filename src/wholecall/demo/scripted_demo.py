"""The demo's scripted model and the proxy that serves it."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib import resources
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from wholecall.agent.budget import default_limits
from wholecall.assembly.outcome import collect
from wholecall.demo.example_tools import TOOLS
from wholecall.errors import UpstreamError
from wholecall.events import Text
from wholecall.messages import Message, PastCall, Request, Role
from wholecall.protocols.reader import CUT, Reader
from wholecall.proxy.app import Proxy, make_app
from wholecall.proxy.config.schema import (
    Config,
    InspectorConfig,
    KeysConfig,
    ListenConfig,
    LogConfig,
    ModelConfig,
    ServerLimits,
)
from wholecall.proxy.handlers.model_routes import ModelRoute, ProxyMode
from wholecall.tools.toolbox import Toolbox
from wholecall.upstreams.base import Answer
from wholecall.upstreams.http import HttpSettings, HttpUpstream
from wholecall.upstreams.retry import RetryPolicy

NAME = "demo"
"""The name under which it is served."""
PROTOCOL = "openai-chat"
PAUSE_SECONDS = 0.07
"""Before each chunk: slow enough to be watched, as a model of that size would be."""
_DATA = b"data: "
_WORD = re.compile(r"[a-z0-9]{3,}")


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded answer."""

    question: str
    turn: int
    """Counted from 1."""
    title: str
    events: tuple[Any, ...]
    """The payloads. A string is a raw line, and `!EOF` is the end of the connection."""


def load_script() -> tuple[Scene, ...]:
    """The scenes that come with the package."""
    text = (resources.files("wholecall") / "demo" / "script.jsonl").read_bytes()
    return tuple(msgspec.json.Decoder(Scene).decode_lines(text))


class ScriptedModel:
    """An upstream. What it is asked only decides which of its scenes it plays."""

    def __init__(
        self,
        scenes: Iterable[Scene] | None = None,
        *,
        pause: float = PAUSE_SECONDS,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._scenes: dict[str, list[Scene]] = {}
        for scene in load_script() if scenes is None else scenes:
            self._scenes.setdefault(scene.question, []).append(scene)
        self._pause = pause
        self._sleep = sleep
        self._played: Counter[tuple[str, int]] = Counter()

    @property
    def protocol(self) -> str:
        """The protocol that it speaks."""
        return PROTOCOL

    @property
    def questions(self) -> tuple[str, ...]:
        """The questions that it can answer."""
        return tuple(self._scenes)

    @asynccontextmanager
    async def answer(self, request: Request) -> AsyncIterator[Answer]:
        """Play the scene that fits best."""
        yield Answer(protocol=PROTOCOL, chunks=self._play(self._choose(request)))

    async def close(self) -> None:
        """There is nothing to give back."""

    def _choose(self, request: Request) -> Scene:
        asked, turn = find_place(request.messages)
        scenes = self._scenes[find_question(asked, self.questions)]
        # Where no tool is offered, or after the last turn, there is only the final answer.
        last = max(scene.turn for scene in scenes)
        turn = min(turn, last) if request.tools else last
        attempts = [scene for scene in scenes if scene.turn == turn]
        key = attempts[0].question, turn
        scene = attempts[self._played[key] % len(attempts)]
        self._played[key] += 1
        return scene

    async def _play(self, scene: Scene) -> AsyncIterator[bytes]:
        for event in scene.events:
            if event == CUT:
                return
            await self._sleep(self._pause)
            line = event.encode() if isinstance(event, str) else _DATA + msgspec.json.encode(event)
            yield line + b"\n\n"


def find_place(messages: Sequence[Message]) -> tuple[str, int]:
    """Return the last question of a conversation, and the turn of its answer that comes next.

    A user message after a call is not a question: it is feedback on the call.
    """
    asked, turn, in_run = "", 1, False
    for message in messages:
        if message.role is Role.USER and not in_run:
            asked, turn = message.text, 1
        elif message.role is Role.ASSISTANT:
            turn += 1
            in_run = any(isinstance(part, PastCall) for part in message.parts)
    return asked, turn


def find_question(asked: str, known: Sequence[str]) -> str:
    """The known question that shares most words; without any, always the same for a text."""
    words = set(_WORD.findall(asked.casefold()))
    shared = {each: len(words.intersection(_WORD.findall(each.casefold()))) for each in known}
    best = max(known, key=lambda each: shared[each])
    return (
        best if shared[best] else known[zlib.crc32(asked.encode("utf-8", "replace")) % len(known)]
    )


# The proxy of the demo: one model, four example tools that run here, and the inspector.
#
# So that the page has something to show, questions are asked from the start: the scripted model is
# asked all that it knows, again and again; a real one is asked once, which also loads it.


FIRST_QUESTION = "What is the weather in Oslo?"
BETWEEN_SECONDS = 2.0
"""Between two questions to the scripted model: ten seconds show three of them."""
_KEYS = "keys.sqlite"
_DRAIN_SECONDS = 1.0
"""A user who ends a demo does not wait for the rest of an answer."""
_DAYS = 1.0
_MEGABYTES = 64
# The demo sends requests to itself: no proxy is in between, and a refused request would be refused
# again.
_SETTINGS = HttpSettings(environ={}, retry=RetryPolicy(retries=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """The address, folder and model of a demo."""

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
                upstream=self.local, mode=ProxyMode.RUN.value, limits=default_limits(self.local)
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
    """Callbacks for what the demo does by itself."""

    answered: Callable[[str], None] = lambda _: None
    """Called with the real model's answer to the first question."""
    failed: Callable[[UpstreamError], None] = lambda _: None
    """The real model does not run here; the scripted one takes its place."""


class DemoPrompts:
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


class ServedDemo(NamedTuple):
    """A demo that can be served."""

    proxy: Proxy
    asking: DemoPrompts


def make_demo(demo: Demo, address: str, *, audience: Audience) -> ServedDemo:
    """The proxy, and the questions that it is asked as long as it lives."""
    scripted = ScriptedModel()
    asking = DemoPrompts(lambda: _ask_on(demo, address, scripted=scripted, audience=audience))
    proxy = make_app(
        demo.make_config(),
        tools=Toolbox(TOOLS),
        models=[ModelRoute(name=NAME, upstream=scripted, model=NAME, mode=ProxyMode.RUN)],
        around=asking.around,
    )
    return ServedDemo(proxy, asking)


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

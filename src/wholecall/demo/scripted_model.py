"""A scripted model: it plays recorded answers, and needs neither a download nor a key."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from importlib import resources
from typing import Any

import msgspec

from wholecall.messages import Message, PastCall, Request, Role
from wholecall.protocols.reader import CUT
from wholecall.protocols.registry import CHAT
from wholecall.upstreams.base import Answer

NAME = "demo"
"""The name under which it is served."""
PROTOCOL = CHAT
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

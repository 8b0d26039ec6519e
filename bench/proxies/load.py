"""The clients: connections that ask one request after the other, and look at what they get."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import cast

import httptools
import msgspec

from proxies.answers import DELTAS, arguments, request_body, spoken, whole_body

LONGEST = 90.0
"""Seconds that a client waits for an answer."""
_OK = 200


@dataclass(frozen=True)
class Address:
    """Where to ask, and how."""

    port: int
    key: str = "none"
    headers: tuple[tuple[str, str], ...] = ()

    def write(self, kind: str) -> bytes:
        body = request_body(kind)
        lines = [
            "POST /v1/chat/completions HTTP/1.1",
            f"host: 127.0.0.1:{self.port}",
            "content-type: application/json",
            f"authorization: Bearer {self.key}",
            f"content-length: {len(body)}",
            *(f"{name}: {value}" for name, value in self.headers),
        ]
        return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass
class Load:
    """What some seconds of asking gave."""

    seconds: float
    latencies: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return len(self.latencies) / self.seconds

    @property
    def median(self) -> float:
        return sorted(self.latencies)[len(self.latencies) // 2] if self.latencies else 0.0


class Client(asyncio.Protocol):
    """One connection. Its answer is complete when the parser says so."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("closed before the answer's end"))

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)

    def on_message_complete(self) -> None:
        body, status = b"".join(self._pieces), self._parser.get_status_code()
        self._pieces.clear()
        self._parser = httptools.HttpResponseParser(self)
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(body if status == _OK else b"status %d: " % status + body)

    async def ask(self, request: bytes) -> bytes:
        assert self._transport is not None
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        async with asyncio.timeout(LONGEST):
            return await self._answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


async def connect(address: Address) -> Client:
    loop = asyncio.get_running_loop()
    _, client = await loop.create_connection(Client, "127.0.0.1", address.port)
    return client


async def ask_for(address: Address, kind: str, *, connections: int, seconds: float) -> Load:
    """Ask over so many connections at a time, for so long."""
    load = Load(seconds)
    request = address.write(kind)
    clients = [await connect(address) for _ in range(connections)]
    begun = time.perf_counter()

    async def work(client: Client) -> None:
        while time.perf_counter() - begun < seconds:
            asked = time.perf_counter()
            try:
                body = await client.ask(request)
            except OSError as error:
                load.errors.append(repr(error))
                return
            load.latencies.append(time.perf_counter() - asked)
            wrong = complain(kind, body) if len(load.latencies) % 64 == 1 else ""
            if wrong:
                load.errors.append(wrong)
                return

    await asyncio.gather(*map(work, clients))
    load.seconds = time.perf_counter() - begun
    for client in clients:
        client.close()
    return load


# ── What was delivered ──────────────────────────────────────────────────────────────


def complain(kind: str, body: bytes, *, deltas: int = DELTAS) -> str:
    """What is wrong with an answer; nothing if it is the upstream's, word for word."""
    try:
        text, call = _read_whole(body) if kind == "whole" else _read_stream(body)
    except (msgspec.DecodeError, KeyError, IndexError):
        return f"unreadable: {body[:200]!r}"
    if kind == "whole":
        return "" if text == _read_whole(whole_body())[0] else f"another text: {text[:200]!r}"
    given, expected = (call, arguments(deltas)) if kind.endswith("call") else (text, spoken(deltas))
    return "" if given == expected else f"another answer: {given[:200]!r} {body[-200:]!r}"


def _read_whole(body: bytes) -> tuple[str, str]:
    return msgspec.json.decode(body)["choices"][0]["message"]["content"], ""


def _read_stream(body: bytes) -> tuple[str, str]:
    texts: list[str] = []
    calls: list[str] = []
    for frame in body.split(b"\n\n"):
        if not frame.startswith(b"data: {"):
            continue
        choices = msgspec.json.decode(frame[6:]).get("choices") or [{}]
        delta = choices[0].get("delta") or {}
        texts.append(delta.get("content") or "")
        calls += (call["function"].get("arguments", "") for call in delta.get("tool_calls") or ())
    return "".join(texts), "".join(calls)

"""Load a real `wholecall serve`, and see that it stays what it is.

    python fuzz/soak.py --minutes 4

Four parts share the time. L1: steady streams, each answer compared byte by byte. L2: idle
connections beside active ones. L3: bursts to four times what is admitted. Soak: half the load with
a tenth of bad streams, and a reload every minute (every ten seconds where a part is short). Memory
is compared between the first and the last tenth of a part; tasks, objects, descriptors and
connections between the moment after its first requests and the one after its last. `--streams 60`
is a load that a busy machine can keep up with.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import uvloop

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))

from attacks import Proxy, serve
from proxies.answers import TOOL, text_frames

PACE = 20
"""Chunks a second of a stream."""
SECONDS = 5
"""Of one stream."""
WARM_SECONDS = 8.0
STREAMS = 300
PACED = "--unpaced" not in sys.argv
COUNTS = "counts.json"
IDLE, ACTIVE = 1_000, 100
ADMITTED = 50
"""Requests that L3's proxy serves at a time."""
FLAT = 1.05
"""The most that memory may grow between the first and the last tenth."""
SPARE_BYTES = 4_000_000
"""What memory may grow all the same: of a short trial one page more or less decides."""
SPARE_OBJECTS = 500
"""Objects that may be new: what a library makes once, at its first use."""
_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
_FRAMES = text_frames(PACE * SECONDS)
_STREAM = b"".join(_FRAMES)


# ── The upstream ────────────────────────────────────────────────────────────────────


class Upstream:
    """Streams at its pace; a bad one is cut, falls silent or says what is no chunk."""

    def __init__(self) -> None:
        self.open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one request."""
        self.open += 1
        with suppress(OSError, asyncio.IncompleteReadError, ValueError):
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0] or 0)
            model = json.loads(await reader.readexactly(length))["model"]
            await self._stream(writer, model)
        self.open -= 1
        writer.close()

    async def _stream(self, writer: asyncio.StreamWriter, model: str) -> None:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        writer.write(_HEAD)
        for number, frame in enumerate(_FRAMES):
            if model != "quick" and PACED:
                await asyncio.sleep(begun + number / PACE - loop.time())
            if model == "bad" and number == PACE:
                writer.write(b"data: {\n\n")
                return
            writer.write(frame)
            await writer.drain()


# ── Clients ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Held:
    """What the proxy holds while it has nothing to do."""

    tasks: int
    objects: int
    types: dict[str, int]
    descriptors: int

    @classmethod
    async def of(cls, proxy: Proxy) -> Held:
        """Ask it, as soon as idle connections had time to close."""
        await asyncio.sleep(3.0)
        out = proxy.home / COUNTS
        out.unlink(missing_ok=True)
        os.kill(proxy.process.pid, signal.SIGUSR2)
        while not out.exists():
            await asyncio.sleep(0.05)
        return cls(**json.loads(out.read_text()), descriptors=proxy.descriptors)

    def __str__(self) -> str:
        return f"{self.tasks} tasks, {self.objects:,} objects, {self.descriptors} descriptors"


@dataclass
class Figures:
    """What one part did."""

    name: str
    answers: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    """Seconds to the head of an answer."""
    memory: list[float] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    held: str = ""
    """What was there before and after the load."""

    def demand(self, holds: bool, wrong: str) -> None:
        """Note what does not hold."""
        if not holds:
            self.wrong.append(wrong)

    def compare(self, before: Held, after: Held) -> None:
        """Demand that nothing is left of the load."""
        self.held = f"{before} before, {after} after"
        self.demand(after.tasks <= before.tasks, f"tasks: {self.held}")
        self.demand(after.descriptors <= before.descriptors + 4, f"descriptors: {self.held}")
        more = Counter(after.types) - Counter(before.types)
        grown = ", ".join(f"{name} +{count}" for name, count in more.most_common(5))
        enough = before.objects + SPARE_OBJECTS
        self.demand(after.objects <= enough, f"objects: {self.held}: {grown}")

    def judge(self) -> None:
        """Compare the last tenth with the first."""
        tenth = max(len(self.memory) // 10, 1)
        before, after = median(self.memory[:tenth]), median(self.memory[-tenth:])
        grown = f"memory grew from {before / 1e6:.1f} to {after / 1e6:.1f} MB"
        self.demand(after <= before * FLAT + SPARE_BYTES, grown)

    def show(self) -> str:
        """One line."""
        verdict = "FAILED" if self.wrong else "holds "
        waits = sorted(self.waits) or [0.0]
        late = waits[int(len(waits) * 0.99)]
        wait = f"head after {median(waits) * 1e3:.0f} ms, 99 %: {late * 1e3:.0f}"
        tenth = max(len(self.memory) // 10, 1)
        tenths = [self.memory[at : at + tenth] for at in range(0, len(self.memory), tenth)]
        kept = f"memory {' '.join(f'{median(part) / 1e6:.1f}' for part in tenths[:10])} MB"
        said = [f"{verdict} {self.name}: {dict(self.answers)}", wait, kept, self.held]
        return "; ".join([*said, *self.wrong])


async def ask(
    proxy: Proxy, model: str, *, figures: Figures, tools: bool = False
) -> tuple[str, bytes]:
    """Ask once; return the status and the body, and the headers with a status that is not 200."""
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": True}
    content = json.dumps({**body, "tools": [TOOL]} if tools else body).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{proxy.port}\r\nconnection: close"
    )
    begun = time.perf_counter()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(f"{head}\r\ncontent-length: {len(content)}\r\n\r\n".encode() + content)
        told = await reader.readuntil(b"\r\n\r\n")
        figures.waits.append(time.perf_counter() - begun)
        said = await reader.read()
        while more := await reader.read():
            said += more
        writer.close()
    except (OSError, asyncio.IncompleteReadError) as error:
        return repr(error), b""
    status = told.split(b" ", 2)[1].decode()
    return status, _unchunk(said) if status == "200" else told


def _unchunk(body: bytes) -> bytes:
    pieces = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        pieces.append(rest[:length])
        body = rest[length + 2 :] if length else b""
    return b"".join(pieces)


async def _watch(proxy: Proxy, figures: Figures) -> None:
    while True:
        figures.memory.append(proxy.megabytes * 1e6)
        figures.descriptors.append(proxy.descriptors)
        await asyncio.sleep(0.25)


async def _stream_on(
    proxy: Proxy, figures: Figures, *, until: float, number: int, bad: int = 0
) -> None:
    """Ask for one stream after the other."""
    await asyncio.sleep(number % 100 / 100 * SECONDS)  # not all at once
    count = 0
    while time.monotonic() < until:
        count += 1
        is_bad = bad > 0 and (number + count) % bad == 0
        status, said = await ask(proxy, "bad" if is_bad else "slow", figures=figures)
        if is_bad:
            figures.answers["bad, reported" if b"error" in said else "bad, unreported"] += 1
        elif status == "200" and said == _STREAM:
            figures.answers["byte-exact"] += 1
        else:
            figures.answers[f"other ({status})"] += 1
            figures.wrong.append(f"{status} {said[-200:]!r}")


async def steady(proxy: Proxy, seconds: float, *, count: int) -> Figures:
    """L1: streams at their pace."""
    figures, until = Figures("L1"), time.monotonic() + seconds
    streams = [
        asyncio.create_task(_stream_on(proxy, figures, until=until, number=number))
        for number in range(count)
    ]
    await asyncio.sleep(WARM_SECONDS)
    watching = asyncio.create_task(_watch(proxy, figures))
    await asyncio.sleep(max(until - time.monotonic(), 1.0))
    watching.cancel()
    await asyncio.gather(*streams)
    figures.judge()
    return figures


async def idle(proxy: Proxy, seconds: float) -> Figures:
    """L2: connections that say nothing, beside those that do."""
    figures, until = Figures("L2"), time.monotonic() + seconds
    kept = []
    for _ in range(IDLE):
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(f"GET /health HTTP/1.1\r\nhost: 127.0.0.1:{proxy.port}\r\n\r\n".encode())
        await reader.readuntil(b"}")
        kept.append(writer)
    streams = [
        asyncio.create_task(_stream_on(proxy, figures, until=until, number=number))
        for number in range(ACTIVE)
    ]
    await asyncio.sleep(min(WARM_SECONDS, seconds / 2))
    watching = asyncio.create_task(_watch(proxy, figures))
    await asyncio.gather(*streams)
    watching.cancel()
    open_still = sum(not writer.is_closing() for writer in kept)
    figures.answers["idle connections, open"] = open_still
    for writer in kept:
        writer.close()
    figures.judge()
    return figures


async def bursts(proxy: Proxy, seconds: float) -> Figures:
    """L3: four times as many requests as are admitted, again and again."""
    figures, until = Figures("L3"), time.monotonic() + seconds
    alone = Figures("alone")
    for _ in range(20):
        await ask(proxy, "quick", figures=alone)
    while time.monotonic() < until:
        told = await asyncio.gather(
            *(ask(proxy, "slow", figures=figures) for _ in range(4 * ADMITTED))
        )
        for status, said in told:
            figures.answers[status] += 1
            if status == "200":
                figures.demand(said == _STREAM, "an admitted stream was changed")
            else:
                figures.demand(status in ("429", "503"), f"status {status}")
                figures.demand(b"retry-after" in said.lower(), "no Retry-After")
        figures.memory.append(proxy.megabytes * 1e6)
        figures.answers["bursts"] += 1
    await asyncio.sleep(2.0)
    after = Figures("after")
    for _ in range(20):
        await ask(proxy, "quick", figures=after)
    before, now = median(alone.waits), median(after.waits)
    back = f"latency is {now * 1e3:.0f} ms 2 s after it, {before * 1e3:.0f} before"
    figures.demand(now <= 2 * before + 0.05, back)
    figures.demand(figures.answers["200"] >= ADMITTED, "fewer were served than are admitted")
    figures.judge()
    return figures


def reload(proxy: Proxy, drain_seconds: int) -> None:
    """Change a setting, and have the file read again."""
    file = proxy.home / "wholecall.yaml"
    config = json.loads(file.read_text())
    config["limits"] = {**config.get("limits", {}), "drain_seconds": drain_seconds}
    file.write_text(json.dumps(config))
    os.kill(proxy.process.pid, signal.SIGHUP)


async def soak(proxy: Proxy, seconds: float, *, count: int) -> Figures:
    """Half the load, a tenth of bad streams, reloads."""
    figures, until = Figures("soak"), time.monotonic() + seconds
    streams = [
        asyncio.create_task(_stream_on(proxy, figures, until=until, number=number, bad=10))
        for number in range(count // 2)
    ]
    await asyncio.sleep(WARM_SECONDS)
    before = proxy.descriptors
    watching = asyncio.create_task(_watch(proxy, figures))
    pause = min(60.0, max(seconds / 6, 5.0))
    while time.monotonic() < until:
        reload(proxy, 6 + figures.answers["reloads"])
        figures.answers["reloads"] += 1
        await asyncio.sleep(pause)
    watching.cancel()
    await asyncio.gather(*streams)
    await asyncio.sleep(3.0)
    left = proxy.descriptors
    figures.demand(left < before, f"{left} descriptors are open after it, {before} during it")
    reloads = proxy.read_log().count("configuration reloaded") - 1
    figures.demand(reloads == figures.answers["reloads"], f"{reloads} reloads took effect")
    figures.demand(not figures.answers["bad, unreported"], "a bad stream looked good")
    figures.demand("Traceback" not in proxy.read_log(), "a traceback is in its log")
    figures.judge()
    return figures


PARTS = ("L1", "L2", "L3", "soak")


async def try_part(name: str, seconds: float, *, count: int) -> Figures:
    """Start an upstream and a proxy, and load them."""
    upstream = Upstream()
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    settings = {"limits": {"concurrent": ADMITTED}} if name == "L3" else {}
    model = {"base_url": f"http://127.0.0.1:{port}/v1", "retries": 0}
    folder = Path(tempfile.mkdtemp(prefix="wholecall-soak-"))
    program = (str(Path(__file__).with_name("counted.py")), str(folder / COUNTS))
    with serve(settings=settings, model=model, folder=folder, program=program) as proxy:
        for number in range(100):
            await ask(proxy, ("quick", "bad")[number % 2], figures=Figures("warm"), tools=True)
        reload(proxy, 5)  # the first one makes what is kept
        before = await Held.of(proxy)
        match name:
            case "L1":
                figures = await steady(proxy, seconds, count=count)
            case "L2":
                figures = await idle(proxy, seconds)
            case "L3":
                figures = await bursts(proxy, seconds)
            case _:
                figures = await soak(proxy, seconds, count=count)
        deadline = time.monotonic() + 10
        while upstream.open and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
        figures.compare(before, await Held.of(proxy))
        figures.demand(not upstream.open, f"{upstream.open} connections to the upstream are open")
    server.close()
    return figures


def main() -> int:
    """Load in each way, print the figures, and return 1 if something does not hold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=4.0)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--streams", type=int, default=STREAMS, help="of L1; the soak has half")
    parser.add_argument("--unpaced", action="store_true", help="streams as fast as they go")
    given = parser.parse_args()
    parts = [given.only] if given.only else PARTS
    failed = 0
    for name in parts:
        seconds = given.minutes * 60 / len(parts)
        figures = uvloop.run(try_part(name, seconds, count=given.streams))
        failed += bool(figures.wrong)
        print(f"{figures.show()} ({seconds:.0f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Attack a real `wholecall serve` on loopback, and count what came of it.

    python fuzz/attacks.py                   every row, about two minutes
    python fuzz/attacks.py --only slow       rows with this in their name

Each row starts a proxy of its own in front of an upstream that misbehaves, does one thing many
times, and checks that the proxy still answers, that nothing stays open, and that its memory came
back. A row that does not hold is printed with the reason, and the exit code is 1. Rows that need a
program which is missing (`faketime`, `openssl`) or rights (`mount`) say so and do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPConnection, HTTPException
from itertools import count
from pathlib import Path
from typing import Any

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
KEY = "attack-key-of-the-upstream"
SETTLE_SECONDS = 15.0
"""Seconds for connections and memory to come back."""
_FILL_SECONDS = 60.0
"""Seconds until the buffers of the system are full, which take megabytes for each client."""
_MEGABYTE = 1_000_000
_OK = 200


class NotPossibleHere(Exception):
    """The machine lacks what a row needs."""


def find_program(name: str) -> str:
    """Return the path of a program."""
    path = shutil.which(name)
    if path is None:
        raise NotPossibleHere(f"{name} is not installed")
    return path


# ── The upstream ────────────────────────────────────────────────────────────────────


def frame(text: str = "", finish: str | None = None) -> bytes:
    """One chunk of a chat completion."""
    delta = {"content": text} if text else {}
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "choices": [choice]}).encode() + b"\n\n"


def _good(peer: socket.socket) -> None:
    peer.sendall(HEAD + frame("sunny") + frame(finish="stop") + b"data: [DONE]\n\n")


def _endless(peer: socket.socket) -> None:
    peer.sendall(HEAD)
    piece = frame("word " * 200) * 50
    while True:
        peer.sendall(piece)


def _repeat(piece: bytes, peer: socket.socket) -> None:
    peer.sendall(HEAD + frame("begun"))
    while True:
        peer.sendall(piece)
        time.sleep(0.02)


def _hang(peer: socket.socket) -> None:
    peer.recv(1)


def _reset(peer: socket.socket) -> None:
    peer.sendall(HEAD + frame("begun"))
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _cut(peer: socket.socket) -> None:
    peer.sendall(HEAD + frame("begun")[:-9])


def _send(wire: bytes, peer: socket.socket) -> None:
    peer.sendall(wire)


ODD = (
    b"",
    b"\x00" * 5000,
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/9.9 banana\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\nnot gzip",
    b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\n\r\nxx",
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n[[[[",
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n" + b"[" * 100_000,
    b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<html>",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 301 Moved\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 500 Oops\r\ncontent-length: 4\r\n\r\noops",
    b"HTTP/1.1 999 Strange\r\ncontent-length: 0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
    HEAD + b"data: {\n\n",
    HEAD + b"data: " + b"9" * 100_000 + b"\n\n",
    HEAD + b'data: {"choices": 7}\n\n',
    HEAD + b"event: \xff\xfe\n\n",
    HEAD + b"data: [DONE]\n\ndata: [DONE]\n\n",
    HEAD + frame("x", "stop") + b"HTTP/1.1 200 OK\r\n\r\n",
)
CALL = "call "
"""Before the name of a tool, in the name of a model."""
WAYS: Mapping[str, Callable[[socket.socket], None]] = {
    "good": _good,
    "endless": _endless,
    "comments": partial(_repeat, b": still there\n\n"),
    "empty": partial(_repeat, frame()),
    "hang": _hang,
    "reset": _reset,
    "cut": _cut,
    **{f"odd{number}": partial(_send, wire) for number, wire in enumerate(ODD)},
}


class Upstream:
    """Answers each request in the way that its model is named after."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port: int = self._listening.getsockname()[1]
        self.open = 0
        self.asked = 0
        self.heads: list[bytes] = []
        """The beginnings of all requests."""
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with self._lock:
            self.open += 1
        with suppress(OSError), peer:
            head, body = _read_request(peer)
            if head:
                self.heads.append(head)
            if body:
                self.asked += 1
                self._answer(peer, body)
                peer.shutdown(socket.SHUT_WR)
        with self._lock:
            self.open -= 1

    def _answer(self, peer: socket.socket, body: bytes) -> None:
        model = ""
        with suppress(ValueError, TypeError, LookupError, RecursionError):
            model = str(json.loads(body)["model"])
        if model.startswith(CALL):
            _call(peer, model.removeprefix(CALL), body=body)
        else:
            WAYS.get(model, _good)(peer)

    def close(self) -> None:
        """Take no more connections."""
        self._listening.close()


def _call(peer: socket.socket, name: str, *, body: bytes) -> None:
    """Call a tool, whose name may be followed by its arguments; with its result, answer."""
    if b'"role":"tool"' in body.replace(b'": "', b'":"'):
        _good(peer)
        return
    name, _, arguments = name.partition(" ")
    called = {"index": 0, "id": "c1", "function": {"name": name, "arguments": arguments or "{}"}}
    choice = {"index": 0, "delta": {"tool_calls": [called]}, "finish_reason": None}
    said = b"data: " + json.dumps({"id": "c", "choices": [choice]}).encode() + b"\n\n"
    peer.sendall(HEAD + said + frame(finish="tool_calls") + b"data: [DONE]\n\n")


def _read_request(peer: socket.socket) -> tuple[bytes, bytes]:
    received = b""
    while b"\r\n\r\n" not in received:
        piece = peer.recv(65536)
        if not piece:
            return b"", b""
        received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0] or 0)
    while len(body) < length:
        body += peer.recv(65536)
    return head, body


# ── The proxy ───────────────────────────────────────────────────────────────────────


@dataclass
class Proxy:
    """A running `wholecall serve`."""

    process: subprocess.Popen[bytes]
    port: int
    folder: Path
    """Where its log is."""
    home: Path
    """Where its files are."""
    upstream: Upstream

    @property
    def megabytes(self) -> float:
        """What is resident."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / _MEGABYTE

    @property
    def descriptors(self) -> int:
        """Open files and sockets."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def ask(self, model: str = "good", *, path: str = "/v1/chat/completions", **more: Any) -> int:
        """Send a request, read its answer, and return the status; 0 if there was none."""
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": True}
        headers = {"content-type": "application/json", **more.pop("headers", {})}
        with suppress(OSError, HTTPException), closing(self._connect()) as connection:
            connection.request("POST", path, json.dumps({**body, **more}), headers)
            told = connection.getresponse()
            told.read()
            return told.status
        return 0

    def get(self, path: str, **headers: str) -> int:
        """Send a request for a page, and return the status; 0 if there was no answer."""
        with suppress(OSError, HTTPException), closing(self._connect()) as connection:
            connection.request("GET", path, headers=headers)
            told = connection.getresponse()
            told.read()
            return told.status
        return 0

    def begin(self, model: str, **more: Any) -> socket.socket:
        """Send a request over a socket that takes little in, and do not read."""
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.connect(("127.0.0.1", self.port))
        body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "stream": True}
        content = json.dumps({**body, **more}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {len(content)}"
        peer.sendall(head.replace("host: a", f"host: 127.0.0.1:{self.port}").encode())
        peer.sendall(b"\r\n\r\n" + content)
        return peer

    def wait_until(self, holds: Callable[[], bool], seconds: float = SETTLE_SECONDS) -> bool:
        """Return True as soon as something holds."""
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def _connect(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=60)

    def read_log(self) -> str:
        """All lines."""
        return (self.folder / "serve.log").read_text(errors="replace")


TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def find_port() -> int:
    """Return a free port outside of the range from which the system gives ports to clients."""
    ports = list(range(20_000, 30_000))
    random.shuffle(ports)
    for port in ports:
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise NotPossibleHere("no port is free")


@contextmanager
def serve(  # noqa: PLR0913 - what rows differ in
    *,
    prefix: tuple[str, ...] = (),
    settings: Mapping[str, Any] | None = None,
    model: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    program: tuple[str, ...] = ("-m", "wholecall", "serve"),
    tools: str = "def look() -> str:\n    return 'sunny'\n",
) -> Iterator[Proxy]:
    """A proxy whose one model is `*`."""
    upstream = Upstream()
    folder = folder or Path(tempfile.mkdtemp(prefix="wholecall-attack-"))
    port = find_port()
    address = f"http://127.0.0.1:{upstream.port}/v1"
    served = {"upstream": "openai/*", "base_url": address, "api_key": "${ATTACK_KEY}"}
    config = {
        "listen": {"port": port},
        "models": {"*": {**served, **(model or {})}},
        "keys": {"path": str(folder / "keys.sqlite")},
        **(settings or {}),
    }
    (folder / "wholecall.yaml").write_text(json.dumps(config))
    (folder / "attack_tools.py").write_text(tools)
    environ = {**os.environ, "WHOLECALL_CONFIG": str(folder / "wholecall.yaml")}
    environ |= {"ATTACK_KEY": KEY, "NO_PROXY": "*"}
    command = [*prefix, sys.executable, *program]
    log_folder = Path(tempfile.mkdtemp(prefix="wholecall-attack-log-"))
    with (log_folder / "serve.log").open("ab") as log:
        process = subprocess.Popen(command, env=environ, cwd=folder, stdout=log, stderr=log)
    proxy = Proxy(process, port, log_folder, home=folder, upstream=upstream)
    try:
        if not proxy.wait_until(lambda: proxy.get("/health") == _OK, 90.0):
            raise RuntimeError(f"it does not start: {proxy.read_log()[-2000:]}")
        yield proxy
    finally:
        process.send_signal(signal.SIGCONT)
        process.kill()
        process.wait()
        upstream.close()


# ── Rows ────────────────────────────────────────────────────────────────────────────


@dataclass
class Finding:
    """What one row found."""

    tries: int
    said: str
    wrong: list[str] = field(default_factory=list)

    def demand(self, holds: bool, wrong: str) -> None:
        """Note what does not hold."""
        if not holds:
            self.wrong.append(wrong)


def many(times: int, work: Callable[[int], object]) -> None:
    """Do something so many times, sixteen at a time."""
    numbers = iter(range(times))
    lock = threading.Lock()

    def go() -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            work(number)

    threads = [threading.Thread(target=go) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def settled(proxy: Proxy, finding: Finding, *, descriptors: int) -> None:
    """Demand that the proxy answers and nothing stays open."""
    finding.demand(proxy.ask() == _OK, "it does not answer any more")
    closed = proxy.wait_until(lambda: proxy.upstream.open <= 1)
    finding.demand(closed, f"{proxy.upstream.open} connections to the upstream stay open")
    back = proxy.wait_until(lambda: proxy.descriptors <= descriptors + 4)
    finding.demand(back, f"{proxy.descriptors} descriptors are open, before {descriptors}")
    finding.demand("Traceback" not in proxy.read_log(), "a traceback is in its log")


def slow_readers(way: str) -> Finding:
    """Clients that read nothing of an endless answer."""
    clients, seconds = 8, 4.0
    tools: dict[str, Any] = {"tools": [TOOL]} if way == "gate" else {}
    run = {"tools": [{"python": "attack_tools:look"}]} if way == "run" else {}
    settings = {"limits": {"write_seconds": seconds}, **run}
    with serve(settings=settings, model={"mode": "run" if run else "gate"}) as proxy:
        for _ in range(20):
            proxy.ask("good", **tools)
        descriptors, before = proxy.descriptors, proxy.megabytes
        peers = [proxy.begin("endless", **tools) for _ in range(clients)]
        time.sleep(seconds / 2)
        each = (proxy.megabytes - before) / clients
        finding = Finding(clients, f"{each:.2f} MB each")
        finding.demand(each <= 1.0, f"each costs {each:.2f} MB")
        given_up = proxy.wait_until(lambda: proxy.upstream.open <= 1, seconds + _FILL_SECONDS)
        finding.demand(given_up, "they are not given up")
        settled(proxy, finding, descriptors=descriptors)
        for peer in peers:
            peer.close()
    return finding


def leaving_clients() -> Finding:
    """Clients that disconnect in the middle of an answer."""
    times = 200
    with serve() as proxy:
        proxy.ask()
        descriptors = proxy.descriptors

        def leave(number: int) -> None:
            peer = proxy.begin(
                ("endless", "hang", "comments")[number % 3], tools=[TOOL] * (number % 2)
            )
            time.sleep(0.05)
            peer.close()

        many(times, leave)
        finding = Finding(times, "every upstream was closed")
        settled(proxy, finding, descriptors=descriptors)
    return finding


def nothing_useful(way: str) -> Finding:
    """Comments and empty deltas without an end."""
    timeouts = {"between_chunks": 1.5, "first_byte": 1.5}
    with serve(model={"timeouts": timeouts}) as proxy:
        proxy.ask()
        descriptors = proxy.descriptors
        tools: dict[str, Any] = {"tools": [TOOL]} if way == "gate" else {}
        begun = time.monotonic()
        models = ("comments", "empty", "hang")
        many(24, lambda number: proxy.ask(models[number % 3], **tools))
        took = time.monotonic() - begun
        finding = Finding(24, f"all ended after {took:.0f} s at a limit of 1.5 s of silence")
        finding.demand(took < 40, f"they took {took:.0f} s")
        settled(proxy, finding, descriptors=descriptors)
    return finding


def total_limit(way: str) -> Finding:
    """An answer that says something all the time, and never ends."""
    with serve(model={"timeouts": {"total": 2.0}}) as proxy:
        proxy.ask()
        descriptors = proxy.descriptors
        tools: dict[str, Any] = {"tools": [TOOL]} if way == "gate" else {}
        begun = time.monotonic()
        many(4, lambda _: proxy.ask("endless", **tools))
        took = time.monotonic() - begun
        finding = Finding(4, f"ended after {took:.0f} s at a limit of 2 s")
        finding.demand(took < 40, f"they took {took:.0f} s")
        settled(proxy, finding, descriptors=descriptors)
    return finding


def odd_answers() -> Finding:
    """Answers that are no answers, streamed and whole, passed through and checked."""
    with serve(
        model={"retries": 0, "timeouts": {"first_byte": 2.0, "between_chunks": 2.0}}
    ) as proxy:
        proxy.ask()
        descriptors = proxy.descriptors
        names = [name for name in WAYS if name.startswith(("odd", "cut", "reset"))]
        tries = [(name, stream, tools) for name in names for stream in (0, 1) for tools in (0, 1)]
        statuses: list[int] = []

        def go(number: int) -> None:
            name, stream, tools = tries[number]
            statuses.append(proxy.ask(name, stream=bool(stream), tools=[TOOL] * tools))

        many(len(tries), go)
        finding = Finding(len(tries), "each got an answer")
        finding.demand(0 not in statuses, f"{statuses.count(0)} got no answer")
        finding.demand(500 not in statuses, f"{statuses.count(500)} got a 500")
        settled(proxy, finding, descriptors=descriptors)
    return finding


def raw_http() -> Finding:
    """Bytes that are no requests."""
    with serve(settings={"limits": {"body_seconds": 2}}) as proxy:
        proxy.ask()
        descriptors = proxy.descriptors
        many(len(RAW) * 5, lambda number: _say(proxy.port, RAW[number % len(RAW)]))
        finding = Finding(len(RAW) * 5, "none was let in, and none ended it")
        settled(proxy, finding, descriptors=descriptors)
    return finding


_POST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n"
RAW = (
    b"\x00\x01\x02\x03" * 100,
    b"GET / HTTP/1.1\r\n",
    b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nhost: evil.example\r\n\r\n",
    b"GET / HTTP/3.7\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT evil.example:443 HTTP/1.1\r\nhost: evil.example\r\n\r\n",
    b"GET http://evil.example/ HTTP/1.1\r\nhost: evil.example\r\n\r\n",
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 5_000 + b"\r\n",
    b"GET / HTTP/1.1\r\nx: " + b"y" * 200_000 + b"\r\n\r\n",
    _POST + b"content-length: 5\r\ncontent-length: 6\r\n\r\nhello",
    _POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET",
    _POST + b"content-length: 99999999999999999999\r\n\r\n",
    _POST + b"content-length: -1\r\n\r\n",
    _POST + b"transfer-encoding: chunked\r\n\r\nffffffffffffffff\r\n",
    _POST + b"transfer-encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    _POST + b"transfer-encoding: chunked\r\n\r\n0\r\n" + b"x: y\r\n" * 3_000 + b"\r\n",
    _POST + b"content-length: 2\r\n\r\n{}" * 50,
    _POST + b"expect: 100-continue\r\ncontent-length: 10\r\n\r\n",
    _POST + b"upgrade: h2c\r\nconnection: upgrade\r\ncontent-length: 2\r\n\r\n{}",
    b"GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\n\r\n\x81\xff",
)


def _say(port: int, said: bytes) -> None:
    """Say something, and read until the proxy closes or has nothing to say."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=4) as peer:
        peer.sendall(said)
        while peer.recv(65536):
            pass


def hosts_and_keys() -> Finding:
    """Every route with wrong hosts, origins and keys."""
    required = {"keys": {"required": True, "path": "keys.sqlite"}, "inspector": {"enabled": True}}
    paths = [
        *("/v1/models", "/v1/tools", "/v1/responses/r", "/v1/conversations/c", "/metrics"),
        *("/ready", "/inspector/api/runs", "/inspector/api/live", "/v1/files", "/v1/models/x"),
    ]
    posts = [
        *("/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/embeddings"),
        *("/v1/messages/count_tokens", "/v1/responses/input_tokens", "/v1/conversations"),
        *("/v1/files", "/v1/audio/speech", "/v1/rerank"),
    ]
    wrong: list[dict[str, str]] = [
        {},
        {"authorization": "Bearer wc_" + "0" * 43},
        {"x-api-key": "wc_' or 1=1 --"},
        {"authorization": "Basic YTpi"},
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"origin": "https://evil.example"},
        {"host": "localhost\tevil.example"},
    ]
    with serve(settings=required) as proxy:
        tries = [(path, given) for path in (*paths, *posts) for given in wrong]
        let_in: list[str] = []

        def go(number: int) -> None:
            path, given = tries[number]
            is_post = path in posts
            status = proxy.ask(path=path, headers=given) if is_post else proxy.get(path, **given)
            if status < 400:
                let_in.append(f"{path} {given}: {status}")

        many(len(tries), go)
        finding = Finding(len(tries), f"{len(let_in)} let in")
        finding.demand(not let_in, f"let in: {let_in[:3]}")
        finding.demand(proxy.upstream.asked == 0, "the upstream was asked")
    return finding


def _begin_many(proxy: Proxy, times: int) -> list[socket.socket]:
    peers = []
    for _ in range(times):
        with suppress(OSError):
            peers.append(proxy.begin("hang"))
    return peers


def few_descriptors() -> Finding:
    """A process with 64 descriptors, and more clients than these."""
    with serve(prefix=(find_program("prlimit"), "--nofile=64")) as proxy:
        proxy.ask()
        peers = _begin_many(proxy, 200)
        time.sleep(1.0)
        finding = Finding(len(peers), "it answers as soon as they are gone")
        for peer in peers:
            peer.close()
        answers = proxy.wait_until(lambda: proxy.ask() == _OK, 30.0)
        finding.demand(answers, "it does not answer any more")
        finding.demand(proxy.process.poll() is None, "it ended")
    return finding


def full_disk() -> Finding:
    """A folder without room: keys, journal, inspector and stored responses live in it."""
    folder = Path(tempfile.mkdtemp(prefix="wholecall-full-"))
    mount, unmount = find_program("mount"), find_program("umount")
    command = [mount, "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, check=False)
    if mounted.returncode:
        raise NotPossibleHere(f"mount: {mounted.stderr.decode().strip()}")
    settings = {"inspector": {"enabled": True, "bodies": True}}
    try:
        with serve(folder=folder, settings=settings) as proxy:
            return _ask_without_room(proxy, folder / "filler")
    finally:
        subprocess.run([unmount, "-l", str(folder)], check=False, capture_output=True)


def _ask_without_room(proxy: Proxy, filler: Path) -> Finding:
    _fill(filler)
    statuses = [proxy.ask(tools=[TOOL] * (number % 2)) for number in range(50)]
    finding = Finding(len(statuses), f"{statuses.count(_OK)} answered while it was full")
    finding.demand(statuses.count(_OK) == len(statuses), f"statuses {set(statuses)}")
    filler.unlink()
    finding.demand(proxy.ask() == _OK, "it does not answer after there is room again")
    finding.demand("Traceback" not in proxy.read_log(), "a traceback is in its log")
    return finding


def _fill(filler: Path) -> None:
    """Write until there is no room."""
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 4096)


def clock_jumps() -> Finding:
    """A wall clock that runs a hundred times as fast, while answers wait and keys are checked."""
    prefix = (find_program("faketime"), "-m", "--exclude-monotonic", "-f", "+0 x100")
    with serve(prefix=prefix) as proxy:
        statuses = [proxy.ask(tools=[TOOL] * (number % 2)) for number in range(100)]
        time.sleep(2.0)  # three minutes and more, by its clock
        statuses += [proxy.ask() for _ in range(20)]
        finding = Finding(len(statuses), f"{statuses.count(_OK)} answered")
        finding.demand(set(statuses) == {_OK}, f"statuses {set(statuses)}")
        finding.demand("Traceback" not in proxy.read_log(), "a traceback is in its log")
    return finding


def tls_errors() -> Finding:
    """Upstreams whose certificates are not trusted, and that break the handshake."""
    openssl = find_program("openssl")
    folder = Path(tempfile.mkdtemp(prefix="wholecall-tls-"))
    made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    made += ["-subj", "/CN=other.example"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run([openssl, *made, *files], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        stack.callback(listening.close)
        threading.Thread(target=_break_handshakes, args=(listening, context), daemon=True).start()
        address = f"https://127.0.0.1:{listening.getsockname()[1]}/v1"
        model = {"base_url": address, "retries": 0, "timeouts": {"connect": 3.0}}
        proxy = stack.enter_context(serve(model=model))
        statuses = [proxy.ask(tools=[TOOL] * (number % 2)) for number in range(30)]
        finding = Finding(len(statuses), f"statuses {sorted(set(statuses))}")
        finding.demand(set(statuses) <= {502, 504}, f"statuses {set(statuses)}")
        finding.demand(KEY not in proxy.read_log(), "the key is in its log")
        finding.demand("Traceback" not in proxy.read_log(), "a traceback is in its log")
    return finding


def _break_handshakes(listening: socket.socket, context: ssl.SSLContext) -> None:
    """Refuse each handshake in one of three ways."""
    with suppress(OSError):
        for number in count():
            peer, _ = listening.accept()
            _break(peer, context, number=number)


def _break(peer: socket.socket, context: ssl.SSLContext, *, number: int) -> None:
    with suppress(OSError), peer:
        if number % 3 == 0:
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        elif number % 3 == 1:
            context.wrap_socket(peer, server_side=True).close()


def first_start_killed() -> Finding:
    """A first start that is killed, at several times; the next one serves."""
    folder = Path(tempfile.mkdtemp(prefix="wholecall-first-"))
    finding = Finding(0, "the next start serves")
    (folder / "wholecall.yaml").write_text(
        json.dumps({"keys": {"path": str(folder / "keys.sqlite"), "required": True}})
    )
    environ = {**os.environ, "WHOLECALL_CONFIG": str(folder / "wholecall.yaml")}
    for wait in (0.3, 0.6, 0.9, 1.2, 1.6, 2.0):
        command = [sys.executable, "-m", "wholecall", "serve", "--port", "0"]
        process = subprocess.Popen(
            command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(wait)
        process.kill()
        process.wait()
        finding.tries += 1
    with serve(folder=folder) as proxy:
        finding.demand(proxy.ask() == _OK, "the next start does not serve")
    return finding


ROWS: Mapping[str, Callable[[], Finding]] = {
    "F1 silence, passed through": partial(nothing_useful, "forward"),
    "F1 silence, checked": partial(nothing_useful, "gate"),
    "F1 an answer without an end, passed through": partial(total_limit, "forward"),
    "F1 an answer without an end, checked": partial(total_limit, "gate"),
    "F2-F4 cuts, resets, odd answers": odd_answers,
    "F4 TLS errors": tls_errors,
    "F5 slow readers, passed through": partial(slow_readers, "forward"),
    "F5 slow readers, checked": partial(slow_readers, "gate"),
    "F5 slow readers, of a run": partial(slow_readers, "run"),
    "F6 leaving clients": leaving_clients,
    "F10 first start killed": first_start_killed,
    "F13 full disk": full_disk,
    "F14 64 descriptors": few_descriptors,
    "F15 clock jumps": clock_jumps,
    "S1 raw HTTP": raw_http,
    "S4 keys and hosts on every route": hosts_and_keys,
}


def main() -> int:
    """Try every row, print what came of it, and return 1 if one does not hold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="rows with this in their name")
    given = parser.parse_args()
    from hostile_requests import MORE  # noqa: PLC0415 - it needs this module

    failed = 0
    for name, row in {**ROWS, **MORE}.items():
        if given.only not in name:
            continue
        begun = time.monotonic()
        try:
            finding = row()
        except NotPossibleHere as error:
            print(f"NOT RUN  {name}: {error}", flush=True)
            continue
        took = time.monotonic() - begun
        verdict = "FAILED " if finding.wrong else "holds  "
        failed += bool(finding.wrong)
        said = "; ".join(finding.wrong) or finding.said
        print(f"{verdict}  {name}: {finding.tries} tries, {said} ({took:.0f} s)", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

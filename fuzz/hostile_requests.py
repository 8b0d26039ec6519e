"""Rows of `attacks.py`: what is in requests, in schemas, in answers and in WebSockets."""

from __future__ import annotations

import gzip
import json
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from itertools import product
from typing import Any

from attacks import HEAD, KEY, TOOL, WAYS, Finding, Proxy, frame, many, serve, settled

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
_SLOW = 10.0
"""Seconds that no refusal may take, on a machine that does other work."""


def send(  # noqa: PLR0917 - as a request line has them
    proxy: Proxy, method: str, path: str, *, body: bytes = b"", **headers: str
) -> tuple[int, bytes]:
    """Send a request as it is; return the status and the body, or 0."""
    with suppress(OSError, HTTPException, ValueError):
        connection = HTTPConnection("127.0.0.1", proxy.port, timeout=60)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in {"content-length": str(len(body)), **named}.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        told = connection.getresponse()
        said = told.read()
        connection.close()
        return told.status, said
    return 0, b""


def try_all(proxy: Proxy, tries: Sequence[Callable[[], int]], *, said: str) -> Finding:
    """Try everything; demand answers in time that are no 500."""
    proxy.ask()
    descriptors = proxy.descriptors
    statuses: Counter[int] = Counter()
    slowest = [0.0]

    def go(number: int) -> None:
        begun = time.monotonic()
        status = tries[number]()
        slowest[0] = max(slowest[0], time.monotonic() - begun)
        statuses[status] += 1
        if status == 500:
            print(f"500: {tries[number]}"[:300], flush=True)

    many(len(tries), go)
    finding = Finding(len(tries), f"{said}: {dict(sorted(statuses.items()))}")
    finding.demand(not statuses[500], f"{statuses[500]} got a 500")
    finding.demand(not statuses[0], f"{statuses[0]} got no answer")
    finding.demand(slowest[0] < _SLOW, f"one took {slowest[0]:.0f} s")
    settled(proxy, finding, descriptors=descriptors)
    return finding


# ── Bodies and paths on every route ─────────────────────────────────────────────────

POSTS = (
    *(CHAT, RESPONSES, MESSAGES, "/v1/messages/count_tokens", "/v1/responses/input_tokens"),
    *("/v1/responses/compact", "/v1/responses/r/cancel", "/v1/conversations"),
    *("/v1/conversations/c", "/v1/conversations/c/items", "/v1/completions", "/v1/embeddings"),
    *("/v1/audio/speech", "/v1/audio/transcriptions", "/v1/images/generations", "/v1/images/edits"),
    *("/v1/moderations", "/v1/rerank", "/v1/files", "/v1/batches", "/v1/runs/r/resume"),
    *("/v1/runs/r/decide", "/inspector/api/live", "/inspector/api/runs", "/inspector/api/decide"),
)
_DEEP = 50_000
BODIES = (
    *(b"", b"null", b"[]", b"7", b'"x"', b"{}", b"{", b"\xff\xfe{\x00}\x00", b"\xef\xbb\xbf{}"),
    b"[" * _DEEP,
    b'{"a":' * _DEEP + b"1" + b"}" * _DEEP,
    b'{"model":"good","messages":' + b"[" * _DEEP + b"]" * _DEEP + b"}",
    b'{"model":' + b"9" * 1_000_000 + b"}",
    b'{"model":1e999999,"messages":[NaN,Infinity]}',
    b'{"model":"good","model":"evil","messages":[],"input":"x","messages":7}',
    b'{"model":"\\ud800","messages":[{"role":"user","content":"\\udfff\\ud800"}],"input":"\\ud83d"}',
    b'{"model":"good\\u0000","messages":[{"role":"user","content":"\\u0000"}],"input":"\\u0000"}',
    b'{"model":"' + b"m" * 1_000_000 + b'","messages":[]}',
    b'{"model":"good","messages":{"0":{"role":"user"}},"input":{"a":[]},"items":[[]]}',
    b'{"model":"good","input":[{"type":"item_reference","id":"../../x"}],"items":[null]}',
    b'{"model":"good","previous_response_id":"../../etc/passwd","conversation":{"id":"%00"}}',
    b"{" + b",".join(b'"k%d":0' % number for number in range(100_000)) + b"}",
    b'--x\r\ncontent-disposition: form-data; name="model"\r\n\r\ngood\r\n--x--\r\n',
    b'--x\r\ncontent-disposition: form-data; name="file"; filename="../../a"\r\n\r\n',
)
_BOMB = gzip.compress(b"x" * 50_000_000)
_TYPES = ("application/json", "multipart/form-data; boundary=x", "text/plain; charset=utf-16")


def bodies_on_routes() -> Finding:
    """Bodies that are none, on every route that takes one."""
    with serve(settings={"inspector": {"enabled": True}}) as proxy:

        def go(path: str, body: bytes, kind: str, **more: str) -> int:  # noqa: PLR0917 - a row
            return send(proxy, "POST", path, body=body, content_type=kind, **more)[0]

        tries = [
            partial(go, path, body, _TYPES[(at + number) % len(_TYPES)])
            for at, path in enumerate(POSTS)
            for number, body in enumerate(BODIES)
        ]
        tries += [partial(go, path, body, _TYPES[0]) for path in POSTS[:8] for body in BODIES]
        tries += [partial(go, path, _BOMB, _TYPES[0], content_encoding="gzip") for path in POSTS]
        return try_all(proxy, tries, said="statuses")


_STEPS = ("..", "%2e%2e", "..%2f..", "%2e%2e%2f%2e%2e", "..%5c..", "%00", "%ff", "a" * 5_000)
_PLACES = (
    *("/{}", "/v1/{}", "/v1/{}/models", "/v1/models/{}", "/v1/responses/{}", "/v1/files/{}"),
    *("/v1/files/x/{}", "/v1/responses/{}/input_items", "/v1/conversations/{}/items/{}"),
    *("/inspector/{}", "/inspector/api/runs/{}", "/v1/runs/{}", "/v1/batches/{}/cancel"),
    *("//{}/v1/models", "/v1//{}", "/v1/audio/{}", "/v1/images/{}", "/metrics/{}"),
)
_METHODS = ("GET", "POST", "DELETE", "PUT", "PATCH", "OPTIONS", "HEAD", "TRACE")


def paths() -> Finding:
    """Paths that lead elsewhere, with every method."""
    routes = ["files", "batches", "audio", "images", "embeddings"]
    settings = {"inspector": {"enabled": True}}
    with serve(settings=settings, model={"routes": routes}) as proxy:

        def go(method: str, path: str) -> int:
            return send(proxy, method, path)[0]

        tries = [
            partial(go, method, place.replace("{}", step))
            for place in _PLACES
            for step in _STEPS
            for method in _METHODS
        ]
        finding = try_all(proxy, tries, said="statuses")
        asked = [head.split(b" ")[1] for head in proxy.upstream.heads]
        wrong = [path for path in asked if b".." in path or not path.startswith(b"/v1/")]
        finding.demand(not wrong, f"the upstream was asked for {wrong[:3]}")
    return finding


# ── Request smuggling ───────────────────────────────────────────────────────────────

_INNER = json.dumps({"model": "smuggled", "messages": [{"role": "user", "content": "x"}]}).encode()
_SECOND = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: %d\r\n\r\n"
    % len(_INNER)
) + _INNER
_LENGTHS = (
    b"content-length: 0\r\ntransfer-encoding: chunked",
    b"transfer-encoding: chunked\r\ncontent-length: 0",
    b"transfer-encoding: xchunked",
    b"transfer-encoding : chunked",
    b"transfer-encoding: chunked\r\ntransfer-encoding: identity",
    b"transfer-encoding: identity, chunked, identity",
    b"transfer-encoding:\x0bchunked",
    b"transfer-encoding: chunked\r\n\tx",
    b"transfer-encoding\x00: chunked",
    b"x: y\ntransfer-encoding: chunked",
    b"x: y\rtransfer-encoding: chunked",
    b"content-length: 0, 0",
    b"content-length: +0",
    b"content-length: 0x0",
    b"content-length: 00 0",
    b"content-length : 0",
    b"content_length: 99",
    b"content-length: \xb2",
)


def smuggling() -> Finding:
    """Requests whose end is open to question, with another one in what may be their body."""
    keys = {"keys": {"required": True, "path": "keys.sqlite"}, "limits": {"body_seconds": 2}}
    with serve(settings=keys) as proxy:
        proxy.ask()
        descriptors = proxy.descriptors
        heads = [b"POST /v1/chat/completions", b"GET /health", b"POST /v1/files"]
        bodies = [b"0\r\n\r\n" + _SECOND, _SECOND, b"1;x=\x00\r\nZ\r\n0\r\n\r\n" + _SECOND]
        bodies += [
            b"0x0\r\n\r\n" + _SECOND,
            b"-1\r\n\r\n" + _SECOND,
            b"0\r\nx: y\r\n\r\n" + _SECOND,
        ]
        tries = [
            head + b" HTTP/1.1\r\nhost: 127.0.0.1\r\n" + length + b"\r\n\r\n" + body
            for head in heads
            for length in _LENGTHS
            for body in bodies
        ]
        many(len(tries), lambda number: _say(proxy.port, tries[number]))
        finding = Finding(len(tries), "the upstream was never asked")
        finding.demand(not proxy.upstream.asked, "the upstream was asked")
        proxy_open = proxy.get("/health")
        finding.demand(proxy_open == 200, "it does not answer any more")
        back = proxy.wait_until(lambda: proxy.descriptors <= descriptors + 4)
        finding.demand(back, f"{proxy.descriptors} descriptors are open, before {descriptors}")
        finding.demand("Traceback" not in proxy.read_log(), "a traceback is in its log")
    return finding


def _say(port: int, said: bytes, *, half: bool = True) -> bytes:
    """Say something, close our half, and return what comes."""
    heard = b""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=10) as peer:
        peer.sendall(said)
        if half:
            peer.shutdown(socket.SHUT_WR)
        while piece := peer.recv(65536):
            heard += piece
    return heard


# ── Schemas ─────────────────────────────────────────────────────────────────────────

_LEVELS = 60
SCHEMAS: tuple[Any, ...] = (
    {"$ref": "#"},
    {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    {"properties": {"a": {"$ref": "http://169.254.169.254/latest/meta-data"}}},
    {"properties": {"a": {"$ref": "file:///etc/passwd"}}},
    {"$defs": {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(_LEVELS)}}
    | {"properties": {"a": {"$ref": "#/$defs/d0"}}},
    {"properties": {"a": {"type": "string", "pattern": "(a+)+$"}}},
    {"properties": {"a": {"type": "string", "pattern": "(a|a)*(a|a)*(a|a)*b"}}},
    {"properties": {"a": {"type": "string", "pattern": "((a{1,1000}){1,1000}){1,1000}"}}},
    {"properties": {"a": {"type": "string", "pattern": "(?<=a)(?=b)\\1" * 100}}},
    {"properties": {"a": {"type": "string", "pattern": "[" * 1_000}}},
    {"patternProperties": {"^(.*,)*$": {"pattern": "^(.*,)*$"}}},
    {"properties": {"a": {"enum": [f"value {n}" for n in range(50_000)]}}},
    {"properties": {f"p{n}": {"type": "string"} for n in range(20_000)}},
    {"allOf": [{"anyOf": [{"oneOf": [{"type": "object"}] * 30}] * 30}] * 30},
    {"properties": {"a": {"uniqueItems": True, "minItems": 10**9, "maxItems": 10**18}}},
    {"properties": {"a": {"multipleOf": 1e-300, "minimum": -1e308, "maximum": 1e308}}},
    {"type": ["object"] * 10_000, "required": ["a"] * 10_000},
    {"properties": {"\ud800": {"title": "\udfff"}}, "required": ["\ud800"]},
    {"properties": {"__proto__": {}, "constructor": {}, "": {}, "$ref": {}, "a/b~c": {}}},
    {"unevaluatedProperties": {"$dynamicRef": "#x"}, "$dynamicAnchor": "x"},
    {"properties": 7, "type": "object"},
    *({"not": {"not": {}}}, True, False, None, [], "object"),
)


def _nest(levels: int) -> Any:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def schemas() -> Finding:
    """Schemas that explode, in tools and response formats, with arguments that make them."""
    arguments = ("{}", json.dumps({"a": "a" * 30_000 + "!"}), json.dumps({"a": ["x"] * 2_000}))
    with serve(model={"reask": 0, "timeouts": {"first_byte": 5.0}}) as proxy:

        def go(path: str, schema: Any, said: str, place: str) -> int:  # noqa: PLR0917 - a row
            call = f"call look {said}"
            chat: Any = {"name": "look", "parameters": schema}
            tools: Any = {
                CHAT: [{"type": "function", "function": chat}],
                RESPONSES: [{"type": "function", **chat}],
                MESSAGES: [{"name": "look", "input_schema": schema}],
            }[path]
            body: dict[str, Any] = {"model": call, "max_tokens": 9, "tools": tools}
            if place == "format":
                form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
                body |= {"response_format": form} if path == CHAT else {}
            talk = [{"role": "user", "content": "hi"}]
            body |= {"input": "hi"} if path == RESPONSES else {"messages": talk}
            content = json.dumps(body).encode()
            return send(proxy, "POST", path, body=content, content_type="application/json")[0]

        tries = [
            partial(go, path, schema, said, "tool")
            for path in (CHAT, RESPONSES, MESSAGES)
            for schema in (*SCHEMAS, _nest(50), _nest(300))
            for said in arguments
        ]
        tries += [partial(go, CHAT, schema, "{}", "format") for schema in SCHEMAS]
        return try_all(proxy, tries, said="refused or checked")


# ── Addresses ───────────────────────────────────────────────────────────────────────


class Canary:
    """An address that nothing may connect to."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.heard = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with suppress(OSError):
            while True:
                self._listening.accept()[0].close()
                self.heard += 1


def _requests_with(url: str) -> list[tuple[str, dict[str, Any]]]:
    """Requests that name an address, in each place that has one."""
    chat: list[Any] = [
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "file", "file": {"file_data": url, "filename": "a.pdf"}},
        {"type": "input_audio", "input_audio": {"data": url, "format": "wav"}},
    ]
    responses = [
        {"type": "input_image", "image_url": url},
        {"type": "input_file", "file_url": url},
    ]
    source = {"type": "url", "url": url}
    messages = [{"type": kind, "source": source} for kind in ("image", "document")]
    mcp = {"type": "mcp", "server_label": "x", "server_url": url, "require_approval": "never"}
    talk = [{"role": "user", "content": "hi"}]
    said: list[tuple[str, dict[str, Any]]] = []
    said += [(CHAT, {"messages": [{"role": "user", "content": [part]}]}) for part in chat]
    said += [(RESPONSES, {"input": [{"role": "user", "content": [part]}]}) for part in responses]
    said += [(MESSAGES, {"messages": [{"role": "user", "content": [part]}]}) for part in messages]
    said.append((RESPONSES, {"input": "hi", "tools": [mcp]}))
    server = {"type": "url", "url": url, "name": "x"}
    said.append((MESSAGES, {"messages": talk, "mcp_servers": [server]}))
    schema = {"type": "object", "properties": {"a": {"$ref": url}}}
    function = {"name": "look", "parameters": schema}
    said.append((CHAT, {"messages": talk, "tools": [{"type": "function", "function": function}]}))
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    said.append((CHAT, {"messages": talk, "response_format": form}))
    return [(path, {"model": "good", "max_tokens": 9, **body}) for path, body in said]


def addresses() -> Finding:
    """Addresses in requests, and redirects of upstreams: the proxy itself never follows one."""
    canary = Canary()
    urls = [f"http://127.0.0.1:{canary.port}/x", f"http://localhost:{canary.port}/$defs/a#/x"]
    moved = [
        f"HTTP/1.1 {status} Moved\r\nlocation: {urls[0]}\r\ncontent-length: 0\r\n\r\n".encode()
        for status in (301, 302, 303, 307, 308)
    ]
    ways = {f"moved{at}": partial(_send, wire) for at, wire in enumerate(moved)}
    vars_of_ways: Any = WAYS
    vars_of_ways.update(ways)
    finding = Finding(0, "none was followed")
    for prefix in ("openai", "responses", "anthropic", "gemini", "ollama"):
        with serve(model={"upstream": f"{prefix}/*", "retries": 0}) as proxy:
            tries = [(path, body) for url in urls for path, body in _requests_with(url)]
            tries += [(CHAT, {"model": way, "messages": []}) for way in ways]
            statuses = []
            for path, body in tries:
                content = json.dumps(body).encode()
                told = send(proxy, "POST", path, body=content, content_type="application/json")
                statuses.append(told[0])
            finding.tries += len(tries)
            finding.demand(500 not in statuses, f"{prefix}: {statuses.count(500)} got a 500")
            finding.demand("Traceback" not in proxy.read_log(), f"{prefix}: a traceback")
    finding.demand(not canary.heard, f"{canary.heard} connections to the address")
    return finding


def _send(wire: bytes, peer: socket.socket) -> None:
    peer.sendall(wire)


# ── Secrets, and the page ───────────────────────────────────────────────────────────


def secrets() -> Finding:
    """Upstreams that repeat the key that they were sent."""
    wires = []
    for status in (400, 401, 403, 404, 429, 500, 503):
        for said in (
            json.dumps({"error": {"message": f"bad key {KEY}", "type": KEY, "code": KEY}}),
            f"<html>Authorization: Bearer {KEY}</html>",
            json.dumps({"detail": [{"msg": KEY, KEY: KEY}]}),
        ):
            head = f"HTTP/1.1 {status} No\r\nx-key: {KEY}\r\ncontent-length: {len(said)}\r\n\r\n"
            wires.append((head + said).encode())
    failure = json.dumps({"error": {"message": f"key {KEY} expired", "code": 401}})
    wires.append(HEAD + frame("begun") + f"data: {failure}\n\n".encode())
    wires.append(
        HEAD.replace(b"\r\n\r\n", f"\r\nx-key: {KEY}\r\n\r\n".encode()) + frame("x", "stop")
    )
    ways: Any = WAYS
    ways.update({f"tells{at}": partial(_send, wire) for at, wire in enumerate(wires)})
    settings = {"inspector": {"enabled": True, "bodies": True}, "log": {"bodies": True}}
    finding = Finding(0, "the key is in no answer, no log and no file")
    with serve(settings=settings, model={"retries": 0}) as proxy:
        for at, path, tools in product(range(len(wires)), (CHAT, RESPONSES, MESSAGES), (0, 1)):
            talk: Any = [{"role": "user", "content": "hi"}]
            body: dict[str, Any] = {"model": f"tells{at}", "stream": True, "max_tokens": 9}
            body |= {"input": "hi"} if path == RESPONSES else {"messages": talk}
            body |= {"tools": [TOOL]} if tools and path == CHAT else {}
            told = send(proxy, "POST", path, body=json.dumps(body).encode())
            finding.tries += 1
            finding.demand(KEY.encode() not in told[1], f"{path} tells{at}: in the answer")
        finding.demand(KEY not in proxy.read_log(), "the key is in its log")
        for file in proxy.home.rglob("*"):
            if file.is_file() and KEY.encode() in file.read_bytes():
                finding.demand(False, f"the key is in {file.name}")
    return finding


HTML = ("</script><script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{7*7}}", "\u202e")


def page() -> Finding:
    """Hostile texts in names, questions and answers: the page gets them as JSON and runs none."""
    settings = {"inspector": {"enabled": True, "bodies": True}}
    finding = Finding(0, "sent as JSON, on a page that runs no script of theirs")
    with serve(settings=settings) as proxy:
        for text in HTML:
            for stream in (False, True):
                proxy.ask("good", messages=[{"role": "user", "content": text}], stream=stream)
                proxy.ask(text, tools=[TOOL], user=text)
                finding.tries += 2
        connection = HTTPConnection("127.0.0.1", proxy.port, timeout=60)
        for path in ("/inspector", "/inspector/", "/inspector/api/runs", "/inspector/api/nothing"):
            connection.request("GET", path)
            told = connection.getresponse()
            said, kind = told.read().decode(), told.headers.get("content-type", "")
            safe = "html" not in kind or not any(text in said for text in HTML[:2])
            finding.demand(safe, f"{path} holds it as HTML")
            exact = told.headers.get("x-content-type-options") == "nosniff"
            finding.demand(exact or told.status != 200, f"{path}: sniffed")
            policy = told.headers.get("content-security-policy", "")
            guarded = "script-src" in policy or "default-src 'none'" in policy
            finding.demand("html" not in kind or guarded, f"{path}: policy {policy!r}")
            finding.tries += 1
    return finding


# ── Tools ───────────────────────────────────────────────────────────────────────────

TOOLS = """
import asyncio, sys, threading, time

def raises(): raise ValueError("x" * 100_000)
def leaves(): sys.exit(3)
def interrupts(): raise KeyboardInterrupt
def deep():
    value = []
    for _ in range(100_000): value = [value]
    return value
def ring():
    value = []; value.append(value); return value
def odd(): return object()
def nan(): return {"a": float("nan"), "b": {1, 2}, "c": b"\\xff", "\\ud800": "\\udfff"}
def large(): return "x" * 50_000_000
def prints():
    for _ in range(100_000): print("x" * 100)
    return "done"
def recurses(): return recurses()
async def cancels(): raise asyncio.CancelledError
async def stops(): raise StopAsyncIteration
def hangs(): time.sleep(600)
async def waits(): await asyncio.sleep(600)
async def stubborn():
    while True:
        try: await asyncio.sleep(600)
        except asyncio.CancelledError: pass
def yields():
    while True:
        yield "more"
        time.sleep(0.01)
"""
BAD: tuple[str, ...] = (
    "raises",
    "leaves",
    "interrupts",
    "deep",
    "ring",
    "odd",
    "nan",
    "large",
    "prints",
)
BAD += ("recurses", "cancels", "stops")
ENDLESS = ("hangs", "waits", "stubborn", "yields")


def bad_tools(names: tuple[str, ...], times: int) -> Finding:
    """Tools that fail or never end; the model is told, and the run comes to its end."""
    run = {"tools": [{"python": f"attack_tools:{name}"} for name in (*BAD, *ENDLESS)]}
    model = {"mode": "run", "limits": {"tool_timeout": 1.0, "lost_threads": 100}}
    with serve(settings=run, model=model, tools=TOOLS) as proxy:
        body = {"messages": [{"role": "user", "content": "go"}]}

        def go(name: str) -> int:
            content = json.dumps({"model": f"call {name}", **body}).encode()
            status, said = send(proxy, "POST", CHAT, body=content)
            return status if b"sunny" in said else 0

        tries = [partial(go, name) for name in names for _ in range(times)]
        return try_all(proxy, tries, said="each run went on to its answer")


# ── WebSockets ──────────────────────────────────────────────────────────────────────


def _frame(content: bytes, *, first: int = 0x81, masked: bool = True) -> bytes:
    length, mask = len(content), 0x80 if masked else 0
    if length < 126:
        head = bytes([first, mask | length])
    else:
        head = bytes([first, mask | 127]) + struct.pack("!Q", length)
    return head + (b"\0\0\0\0" if masked else b"") + content


_ASK = json.dumps({"type": "response.create", "model": "good", "input": "hi"}).encode()
FRAMES = (
    _frame(_ASK, masked=False),
    _frame(_ASK, first=0xF1),
    _frame(_ASK, first=0x83),
    b"\x81\xff" + struct.pack("!Q", 2**62) + b"\0\0\0\0x",
    b"\x81\xff" + struct.pack("!Q", 2**63 + 1) + b"\0\0\0\0x",
    _frame(b"{", first=0x01) + _frame(b"x", first=0x00) * 20_000,
    _frame(b"", first=0x89) * 20_000,
    _frame(b"x" * 200, first=0x89),
    _frame(b"x", first=0x09),
    _frame(b"\xff\xfe\xfd"),
    _frame(b"\x03", first=0x88),
    _frame(struct.pack("!H", 99), first=0x88),
    _frame(b"x", first=0x80),
    _frame(b"not json") * 200,
    _frame(_ASK) * 300,
    _frame(json.dumps({"type": "x" * 100_000}).encode()),
    _frame(b"[" * _DEEP),
    _frame(_ASK.replace(b'"hi"', b'"\\ud800"')),
    _frame(_ASK.replace(b"good", b"endless")),
    _frame(_ASK.replace(b"good", b"hang")),
    _frame(_ASK, first=0x82),
    _frame(_ASK)[:10],
    b"",
)


def _open_socket(port: int, extra: str = "") -> socket.socket:
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.settimeout(5)
    peer.connect(("127.0.0.1", port))
    peer.sendall(
        f"GET /v1/responses HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nconnection: upgrade\r\n"
        "upgrade: websocket\r\nsec-websocket-version: 13\r\n"
        f"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{extra}\r\n".encode()
    )
    return peer


def websockets() -> Finding:
    """Frames that are none, too many, too large or cut, and clients that close their half."""
    deflate = "sec-websocket-extensions: permessage-deflate\r\n"
    with serve(model={"answer_bytes": 4_000_000}) as proxy:
        proxy.ask()
        descriptors, before = proxy.descriptors, proxy.megabytes

        def go(number: int) -> None:
            with suppress(OSError), _open_socket(proxy.port, deflate * (number % 2)) as peer:
                peer.sendall(FRAMES[number % len(FRAMES)])
                if number % 3:
                    peer.shutdown(socket.SHUT_WR)
                until = time.monotonic() + 3
                while time.monotonic() < until and peer.recv(65536):
                    pass

        many(len(FRAMES) * 6, go)
        finding = Finding(len(FRAMES) * 6, "each was closed")
        settled(proxy, finding, descriptors=descriptors)
        grown = proxy.megabytes - before
        finding.demand(grown < 150, f"memory grew by {grown:.0f} MB")
    return finding


def slow_sockets() -> Finding:
    """WebSocket clients that read nothing of an endless answer."""
    clients, seconds = 8, 4.0
    with serve(settings={"limits": {"write_seconds": seconds}}) as proxy:
        proxy.ask()
        descriptors = proxy.descriptors
        peers = [_open_socket(proxy.port) for _ in range(clients)]
        for peer in peers:
            peer.sendall(_frame(_ASK.replace(b"good", b"endless")))
        finding = Finding(clients, "all given up after write_seconds")
        proxy.wait_until(lambda: proxy.upstream.open > 0)
        given_up = proxy.wait_until(lambda: proxy.upstream.open == 0, seconds + 60)
        finding.demand(given_up, "they are not given up")
        settled(proxy, finding, descriptors=descriptors)
        for peer in peers:
            peer.close()
    return finding


# ── Answers ─────────────────────────────────────────────────────────────────────────


def large_answers() -> Finding:
    """Answers without an end, checked, with a limit of 4 MB."""
    with serve(model={"answer_bytes": 4_000_000}) as proxy:
        proxy.ask()
        descriptors, before = proxy.descriptors, proxy.megabytes
        said: list[bytes] = []

        def go(_: int) -> None:
            body: dict[str, Any] = {"model": "endless", "stream": True, "tools": [TOOL]}
            body["messages"] = [{"role": "user", "content": "hi"}]
            said.append(send(proxy, "POST", CHAT, body=json.dumps(body).encode())[1][-2000:])

        many(8, go)
        finding = Finding(8, f"ended with an error; {proxy.megabytes - before:.0f} MB more")
        finding.demand(
            all(b"more than 4000000 bytes" in each for each in said), f"{said[0][-200:]!r}"
        )
        settled(proxy, finding, descriptors=descriptors)
    return finding


def cut_everywhere() -> Finding:
    """Clients that leave after each byte of the beginning of an answer, and after each event."""
    with serve() as proxy:
        proxy.ask()
        descriptors = proxy.descriptors
        places = [*range(0, 2_000, 25), *range(2_000, 40_000, 1_000)]
        tries = [(path, at) for path in (CHAT, RESPONSES, MESSAGES) for at in places]

        def go(number: int) -> None:
            path, at = tries[number]
            body: dict[str, Any] = {"model": ("endless", "comments")[number % 2], "stream": True}
            body |= {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
            body |= {"input": "hi"} if path == RESPONSES else {}
            content = json.dumps(body).encode()
            head = f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(content)}"
            with suppress(OSError), socket.create_connection(("127.0.0.1", proxy.port)) as peer:
                peer.settimeout(2)
                peer.sendall(f"{head}\r\n\r\n".encode() + content)
                left = at
                while left > 0 and (piece := peer.recv(min(left, 4096))):
                    left -= len(piece)

        many(len(tries), go)
        finding = Finding(len(tries), "every upstream was closed")
        settled(proxy, finding, descriptors=descriptors)
    return finding


MORE: Mapping[str, Callable[[], Finding]] = {
    "F1 answers of any size": large_answers,
    "F5 slow readers, of a WebSocket": slow_sockets,
    "F6 clients that leave at every event": cut_everywhere,
    "F7 bad tools": partial(bad_tools, BAD, 5),
    "F8 tools that never end": partial(bad_tools, ENDLESS, 6),
    "S1 smuggling": smuggling,
    "S1 WebSockets": websockets,
    "S1 bodies on every route": bodies_on_routes,
    "S1 paths": paths,
    "S2 schemas": schemas,
    "S3 addresses": addresses,
    "S5 secrets": secrets,
    "S6 page": page,
}

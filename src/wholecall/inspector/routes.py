"""The routes of the inspector: the page, and what it reads.

The page itself holds nothing that is anybody's; what it shows comes from below `/inspector/api`,
for which the proxy may want a key. All of it is JSON or plain text, never markup.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from wholecall.inspector.approval_queue import HEADERS, FindOwner, guard, refuse
from wholecall.inspector.captured_answer import decode_case, read
from wholecall.inspector.run_store import Filter, RunStore
from wholecall.inspector.tap import Listener, LiveMessage, LiveRuns, is_admitted
from wholecall.storage import decoding

PAGE = "/inspector"
API = "/inspector/api"
STATIC = "/inspector/page"
BEAT_SECONDS = 10.0
"""The longest silence of an event stream, in seconds. The heartbeat reveals a page that has
disconnected, and a key that is not valid any more."""

_NONCE = "{{nonce}}"
_MEDIA_TYPES = {"js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
_FILES = (
    "app.js",
    "approvals.js",
    "charts.js",
    "dom.js",
    "durable.js",
    "folding.js",
    "forms.js",
    "json_view.js",
    "lanes.js",
    "live.js",
    "looking.js",
    "reading.js",
    "style.css",
    "trying.js",
)
_Found = TypeVar("_Found")
_FILTERS = (*("model", "tool", "verdict", "reason", "status", "oddity", "fate", "code", "stop"),)
_LONGEST_NUMBER = 15


def _see_all(_: Request) -> str | None:
    return None


def make_routes(
    store: RunStore, live: LiveRuns, *, approvals: Sequence[Route] = (), owner: FindOwner = _see_all
) -> list[Route]:
    """The page and its data; `approvals` are the routes of the calls that wait."""
    reading = _Reading(store, live, owner=owner)
    return [
        Route(PAGE, _show_page),
        Route(f"{STATIC}/{{name}}", _show_file),
        Route(f"{API}/runs", guard(reading.list_runs)),
        Route(f"{API}/runs/{{id}}", guard(reading.show_run)),
        Route(f"{API}/runs/{{id}}/chunks", guard(reading.show_chunks)),
        Route(f"{API}/runs/{{id}}/case", guard(reading.export)),
        Route(f"{API}/live", reading.stream),
        Route(f"{API}/figures", guard(reading.show_figures)),
        *approvals,
    ]


# ── The page ────────────────────────────────────────────────────────────────────────


def _load(name: str) -> bytes:
    return files("wholecall.inspector").joinpath("page", name).read_bytes()


def _write_policy(nonce: str) -> str:
    """Only our own files run, and only because this answer says so; nothing else is fetched."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src 'nonce-{nonce}'",
            f"style-src 'nonce-{nonce}'",
            "connect-src 'self'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


async def _show_page(_: Request) -> Response:
    nonce = secrets.token_urlsafe(16)
    content = _load("index.html").decode().replace(_NONCE, nonce)
    policy = {"content-security-policy": _write_policy(nonce)}
    return Response(content, media_type="text/html", headers={**HEADERS, **policy})


async def _show_file(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _FILES:
        return refuse(404, "there is no such file")
    media_type = _MEDIA_TYPES[name.rpartition(".")[2]]
    return Response(_load(name), media_type=media_type, headers=HEADERS)


# ── What it reads ───────────────────────────────────────────────────────────────────


class _Reading:
    """Answers what the page asks."""

    def __init__(self, store: RunStore, live: LiveRuns, *, owner: FindOwner) -> None:
        self._store = store
        self._live = live
        self._owner = owner

    async def list_runs(self, request: Request) -> Response:
        """Runs in a line each: those under way, and those of the file."""
        owner, asked = self._owner(request), request.query_params
        texts = {name: asked.get(name, "") for name in _FILTERS}
        wanted = Filter(
            **texts,
            before=_read_number(asked.get("before"), 0),
            limit=_read_number(asked.get("limit"), 50),
            owner=owner,
        )
        await self._live.catch_up()
        runs = await self._ask(partial(self._store.list_runs, wanted))
        plain = not any(texts.values()) and not wanted.before
        running = [record.about.head for record in self._live.show(owner)] if plain else []
        body = {"running": running, "runs": runs, "failed": self._live.failed}
        return await _write(body)

    async def show_run(self, request: Request) -> Response:
        """All events of a run."""
        id, owner = request.path_params["id"], self._owner(request)
        await self._live.catch_up()
        record = self._live.find(id, owner=owner)
        if record is not None:
            return await _write({"summary": record.about.head, "events": record.events[:]})
        found = await self._ask(partial(self._store.find, id, owner=owner))
        if found is None:
            return refuse(404, "there is no such run, or it is not kept any more")
        summary, events = found
        return await _write({"summary": summary, "events": msgspec.Raw(events)})

    async def show_chunks(self, request: Request) -> Response:
        """Return the upstreams' chunks, and what was made of them."""
        cases = await self._find_answers(request)
        answers = [await asyncio.to_thread(decode_case, case) for case in cases]
        return await _write({"answers": answers})

    async def export(self, request: Request) -> Response:
        """The answers of a run as a file for `wholecall replay` and `wholecall check`."""
        cases = await self._find_answers(request)
        if not cases:
            return refuse(
                404,
                "the answers of this run were not kept: it is not over, bodies are not kept "
                "(inspector.bodies), events were dropped, or a secret was in it",
            )
        name = f'attachment; filename="{_plain(request.path_params["id"])}.jsonl"'
        headers = {**HEADERS, "content-disposition": name}
        content = "".join(f"{case}\n" for case in cases)
        return Response(content, media_type="application/jsonl", headers=headers)

    async def show_figures(self, request: Request) -> Response:
        """Sums over all runs."""
        owner = self._owner(request)
        return await _write(await self._ask(partial(self._store.read_figures, owner=owner)))

    async def stream(self, request: Request) -> Response:
        """Events as they happen."""
        content = self._listen(request)
        return StreamingResponse(content, media_type="text/event-stream", headers=HEADERS)

    async def _listen(self, request: Request) -> AsyncIterator[bytes]:
        owner = self._owner(request)
        with self._live.listen(owner) as listener:
            running = self._live.show(owner)
            # A page that comes again has runs which ended while it was away.
            yield _frame(msgspec.json.encode([{"running": [record.id for record in running]}]))
            for record in running:
                # What is long is written elsewhere: other streams are served by this loop.
                events = record.events[:]
                message = await asyncio.to_thread(LiveMessage.of, record, events)
                yield _frame(b"[" + message.content + b"]")
            while is_admitted(request.scope):
                yield await _next_frame(listener, seconds=BEAT_SECONDS)

    async def _ask(self, read: Callable[[], _Found]) -> _Found:
        """Read the file; raise `StoreFailed` if it cannot be read."""
        with decoding("the file of the inspector cannot be read", self._store.path):
            return await asyncio.to_thread(read)

    async def _find_answers(self, request: Request) -> list[str]:
        id, owner = request.path_params["id"], self._owner(request)
        return await self._ask(partial(self._read_answers, id, owner))

    def _read_answers(self, id: str, owner: str | None) -> list[str]:
        return [read(answer) for answer in self._store.find_answers(id, owner=owner)]


async def _next_frame(listener: Listener, *, seconds: float) -> bytes:
    try:
        async with asyncio.timeout(seconds):
            return _frame(await listener.next())
    except TimeoutError:
        return b": nothing new\n\n"


def _frame(content: bytes) -> bytes:
    return b"data: " + content + b"\n\n"


async def _write(body: Mapping[str, object]) -> Response:
    content = await asyncio.to_thread(msgspec.json.encode, body)
    return Response(content, media_type="application/json", headers=HEADERS)


def _read_number(text: str | None, usual: int) -> int:
    return int(text) if text and text.isdecimal() and len(text) <= _LONGEST_NUMBER else usual


def _plain(id: str) -> str:
    return "".join(character for character in id if character.isalnum() or character == "_")

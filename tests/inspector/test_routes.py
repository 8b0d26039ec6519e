"""The page and what it reads, from a real application."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import msgspec
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request

from inspector.payloads import PAYLOADS
from inspector.recorded import OVER, STORY, describing, end, kept, record, released, told
from upstreams.fake_endpoint import in_loop
from wholecall.events import Grew, Inconsistent, Oddity, Opened, Text
from wholecall.inspector import routes
from wholecall.inspector.captured_answer import write_case
from wholecall.inspector.page_encoder import Quoting
from wholecall.inspector.routes import make_routes
from wholecall.inspector.run_store import RunStore
from wholecall.inspector.tap import InspectorTap, LiveMessage, LiveRuns, Paces
from wholecall.proxy.observe.redaction import Redactor

KEY = "x-test-owner"


@dataclass
class Inspector:
    """A server that listens on loopback."""

    store: RunStore
    live: LiveRuns
    url: str
    http: aiohttp.ClientSession

    async def get(self, path: str, **headers: str) -> tuple[int, Any, aiohttp.ClientResponse]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.http.get(f"{self.url}/inspector{path}", headers=named) as response:
            text = await response.text()
            is_json = response.content_type == "application/json"
            return response.status, json.loads(text) if is_json else text, response


def test_without_keys_whoever_comes_sees_all() -> None:
    assert routes._see_all(Request({"type": "http"})) is None


def _find_owner(request: Request) -> str | None:
    return request.headers.get(KEY)


@asynccontextmanager
async def inspecting() -> AsyncIterator[Inspector]:
    store, live = RunStore(clock=lambda: 2000.0), LiveRuns()
    app = Starlette(routes=make_routes(store, live, owner=_find_owner))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="off"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        async with aiohttp.ClientSession() as http:
            yield Inspector(store, live, f"http://127.0.0.1:{port}", http)
    finally:
        server.should_exit = True
        await task
        store.close()


# ── The page ────────────────────────────────────────────────────────────────────────


@in_loop
async def test_the_page_runs_only_what_this_answer_names() -> None:
    async with inspecting() as inspector:
        _, first, response = await inspector.get("")
        _, second, _ = await inspector.get("")
    policy = response.headers["content-security-policy"]
    [nonce] = set(re.findall(r'nonce="([^"]+)"', first))
    assert nonce not in second
    assert f"script-src 'nonce-{nonce}';" in policy
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "{{" not in first


@in_loop
async def test_every_file_that_the_page_names_is_there_and_no_other() -> None:
    async with inspecting() as inspector:
        _, page, _ = await inspector.get("")
        names = set(re.findall(r'"inspector/page/([\w.]+)"', page))
        waiting = sorted(names)
        while waiting:
            status, text, response = await inspector.get(f"/page/{waiting.pop()}")
            assert status == 200
            assert response.content_type in {"text/javascript", "text/css"}
            fresh = set(re.findall(r'from "\./([\w.]+)"', text)) - names
            names |= fresh
            waiting += fresh
        assert names == set(routes._FILES)
        for name in ("index.html", "nothing.js", "..%2frecord.py", "%2e%2e/record.py"):
            assert (await inspector.get(f"/page/{name}"))[0] == 404


# ── Runs ────────────────────────────────────────────────────────────────────────────


@in_loop
async def test_runs_are_listed_and_filtered() -> None:
    async with inspecting() as inspector:
        inspector.store.put(kept("a"))
        inspector.store.put(kept("b", model="other", key="k1"))
        running = record(key="k1")
        inspector.live.running[running.id] = running
        _, page, _ = await inspector.get("/api/runs")
        assert [run["id"] for run in page["runs"]] == ["b", "a"]
        assert [run["id"] for run in page["running"]] == [running.id]
        _, page, _ = await inspector.get("/api/runs?model=m&before=99&limit=5")
        assert [run["id"] for run in page["runs"]] == ["a"]
        assert page["running"] == []
        for nonsense in ("-1", "x", "9" * 400):
            _, page, _ = await inspector.get(f"/api/runs?limit={nonsense}&before={nonsense}")
            assert len(page["runs"]) == 2
        _, page, _ = await inspector.get("/api/runs", x_test_owner="k2")
        assert (page["runs"], page["running"]) == ([], [])


@in_loop
async def test_a_run_is_shown_with_its_events() -> None:
    async with inspecting() as inspector:
        made = record([*STORY, OVER], key="k1")
        inspector.store.put(msgspec.structs.replace(made.keep(), began=1999.0))
        status, page, _ = await inspector.get(f"/api/runs/{made.id}")
        assert (status, page["events"]) == (200, told(made))
        assert page["summary"]["id"] == made.id
        assert (await inspector.get(f"/api/runs/{made.id}", x_test_owner="k2"))[0] == 404
        status, page, _ = await inspector.get("/api/runs/nothing")
        assert (status, list(page["error"])) == (404, ["message"])


@in_loop
async def test_a_run_under_way_is_shown_as_far_as_it_has_come() -> None:
    async with inspecting() as inspector:
        running = record(STORY)
        inspector.live.running[running.id] = running
        _, page, _ = await inspector.get(f"/api/runs/{running.id}")
    assert page == {"summary": told(running)[0], "events": told(running)}


@in_loop
async def test_who_asks_for_a_run_under_way_gets_what_nobody_has_looked_at_yet() -> None:
    async with inspecting() as inspector:
        tap = InspectorTap(inspector.store, inspector.live, paces=Paces(3600, 3600))
        writer = tap.open(describing(), Quoting(bodies=True, hides=Redactor()))
        for event in STORY:
            writer.take(event)
        _, page, _ = await inspector.get("/api/runs")
        [running] = page["running"]
        writer.take(Opened(1, "c2", "dig"))
        _, page, _ = await inspector.get(f"/api/runs/{running['id']}")
        await tap.close()
    assert [event["type"] for event in page["events"]][-2:] == ["Ended", "Opened"]


# ── What upstreams sent ─────────────────────────────────────────────────────────────

STREAMED = (
    '{"protocol":"openai-chat","events":["data: {}\\n",{"n":12345678901234567890}],"pauses":[0.5]}'
)
WHOLE = '{"protocol":"openai-chat","response":{"n":1.0}}'
ANSWERS = [write_case(case.encode()) for case in (STREAMED, WHOLE)]


@in_loop
async def test_chunks_are_sent_as_texts_so_that_numbers_keep_their_digits() -> None:
    async with inspecting() as inspector:
        inspector.store.put(kept(answers=ANSWERS))
        _, page, _ = await inspector.get("/api/runs/run_1/chunks")
    assert [
        (answer["protocol"], [chunk["text"] for chunk in answer["chunks"]])
        for answer in page["answers"]
    ] == [
        ("openai-chat", ["data: {}\n", '{"n":12345678901234567890}', ""]),
        ("openai-chat", ['{"n":1.0}', ""]),
    ]


@in_loop
async def test_a_run_is_exported_as_lines() -> None:
    async with inspecting() as inspector:
        inspector.store.put(kept("run_<1>", answers=ANSWERS))
        inspector.store.put(kept("empty"))
        _, text, response = await inspector.get("/api/runs/run_<1>/case")
        assert text == f"{STREAMED}\n{WHOLE}\n"
        named = response.headers["content-disposition"]
        assert named == 'attachment; filename="run_1.jsonl"'
        status, page, _ = await inspector.get("/api/runs/empty/case")
        assert status == 404
        assert "inspector.bodies" in page["error"]["message"]


@in_loop
async def test_figures_are_shown() -> None:
    async with inspecting() as inspector:
        inspector.store.put(kept(events=[released(), Inconsistent(Oddity.ID_MISSING)]))
        _, page, _ = await inspector.get("/api/figures")
        assert page["oddities"] == [{"kind": "id_missing", "count": 1}]
        _, page, _ = await inspector.get("/api/figures", x_test_owner="k1")
        assert page["oddities"] == []


# ── Live ────────────────────────────────────────────────────────────────────────────


async def _read_message(response: aiohttp.ClientResponse) -> Any:
    while True:
        line = await response.content.readline()
        if line.startswith(b"data: "):
            return json.loads(line[6:])


@in_loop
async def test_events_are_streamed_and_what_came_before_is_told_first() -> None:
    async with inspecting() as inspector:
        before, hidden = record(STORY, key="k1"), record(STORY, key="k2")
        inspector.live.running |= {before.id: before, hidden.id: hidden}
        address, headers = f"{inspector.url}/inspector/api/live", {KEY: "k1"}
        async with inspector.http.get(address, headers=headers) as response:
            assert response.content_type == "text/event-stream"
            assert await _read_message(response) == [{"running": [before.id]}]
            assert await _read_message(response) == [{"run": before.id, "events": told(before)}]
            inspector.live.publish([LiveMessage("k2", b"0"), LiveMessage("k1", b"1")])
            assert await _read_message(response) == [1]
        while inspector.live.is_watched:
            inspector.live.publish([LiveMessage("k1", b"2")])
            await asyncio.sleep(0.001)


@in_loop
async def test_a_stream_is_never_silent_for_long() -> None:
    live = LiveRuns()
    with live.listen(None) as listener:
        assert await routes._next_frame(listener, seconds=0.001) == b": nothing new\n\n"
        live.publish([LiveMessage("", b"1")])
        assert await routes._next_frame(listener, seconds=20.0) == b"data: [1]\n\n"


# ── Hostile words ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("payload", PAYLOADS)
@in_loop
async def test_hostile_words_are_served_as_json_and_stay_what_they_are(payload: str) -> None:
    async with inspecting() as inspector:
        story = [Opened(0, payload, payload), Grew(0, payload), Text(payload)]
        over = end("failed", payload)
        made = record([*story, over], model=payload)
        case = json.dumps({"protocol": "openai-chat", "events": [payload]})
        answers = [write_case(case.encode())]
        inspector.store.put(msgspec.structs.replace(made.keep(), answers=answers))
        run = f"/api/runs/{made.id}"
        paths = [run, f"{run}/chunks", "/api/runs", "/api/figures"]
        for path in paths:
            _, _, response = await inspector.get(path)
            assert response.content_type == "application/json"
            assert response.headers["x-content-type-options"] == "nosniff"
        _, page, _ = await inspector.get(run)
        assert [event["text"] for event in page["events"] if "text" in event] == [payload] * 2
        assert page["summary"]["model"] == page["summary"]["message"] == payload
        _, page, _ = await inspector.get(f"{run}/chunks")
        assert page["answers"][0]["chunks"][0]["text"] == payload
        inspector.live.running[made.id] = made
        async with inspector.http.get(f"{inspector.url}/inspector/api/live") as response:
            await _read_message(response)
            [message] = await _read_message(response)
            assert message["events"] == told(made)


def test_there_are_enough_of_them() -> None:
    assert len(set(PAYLOADS)) >= 30

"""An endpoint as ASGI sees it: requests that are read, refused, run, sent again and left."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from proxy_server import in_loop
from scripted import calls, says
from wholecall.journal.sqlite_journal import SqliteJournal
from wholecall.proxy.config.schema import Mode, ModelConfig, ServerLimits
from wholecall.proxy.handlers.background import BackgroundResponses
from wholecall.proxy.handlers.idempotency import DurableRuns
from wholecall.proxy.handlers.request_handler import HandlerFactory
from wholecall.proxy.handlers.request_plan import ModelRoute, ModelRoutes, RequestPlanner
from wholecall.proxy.handlers.response_store import ResponseStore
from wholecall.proxy.handlers.run_mode import MixedTools
from wholecall.proxy.http.api_keys import ANONYMOUS
from wholecall.proxy.http.client_connection import ClientConnections
from wholecall.proxy.http.client_request import CALLER, Caller
from wholecall.proxy.http.refusals import RequestRefused
from wholecall.proxy.http.shutdown import WorkInProgress
from wholecall.proxy.observe.inspector_feed import ApprovalRequests
from wholecall.proxy.observe.taps import (
    Exchange,
    ExchangeEnded,
    ExchangeWatch,
    Fate,
    Reading,
    Reads,
)
from wholecall.proxy.routes.client_route import CHAT_CLIENT, ClientRoute
from wholecall.tools.function_tool import make_tool
from wholecall.tools.tool import Tool
from wholecall.upstreams.replay import Reaction, ReplayUpstream

BODY = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}


class Client:
    """One request: what it says, and what it hears."""

    def __init__(self, body: Any = BODY, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._body = json.dumps(body).encode()
        self.scope = {
            "type": "http",
            CALLER: Caller(ANONYMOUS, "req_1", named),
        }
        self.leaves = asyncio.Event()
        self.messages: list[Message] = []
        self._asked = False

    async def receive(self) -> Message:
        if not self._asked and not self.leaves.is_set():
            self._asked = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def heard(self) -> str:
        return b"".join(each.get("body", b"") for each in self.messages).decode()


class Ends:
    """A tap that remembers how exchanges ended, and what they were."""

    def __init__(self) -> None:
        self.ended: list[tuple[str, Fate, int]] = []
        self.codes: list[str] = []

    def open(self, exchange: Exchange) -> Reading:
        def end(_: Ends, event: ExchangeEnded) -> None:
            self.ended.append((exchange.way, event.fate, event.status))
            self.codes.append(event.code)

        return self, Reads({ExchangeEnded: end})


class Bench:
    """A service with one model, a tool that can be held up, and an endpoint."""

    def __init__(self, path: Path, *turns: Reaction, mode: Mode = "run") -> None:
        self.path = path / "runs.sqlite"
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.times = 0
        self.ends = Ends()
        self.upstream = ReplayUpstream(turns)
        route = ModelRoute(
            name="m",
            upstream=self.upstream,
            model="m",
            settings=ModelConfig(upstream="", mode=mode),
        )
        self.models = ModelRoutes([route], tools=lambda: [self._make_tool()])
        self.work, self.runs = WorkInProgress(), DurableRuns(self.open_store)
        responses, mixed_tools = ResponseStore(), MixedTools(self.runs.find_store)
        handlers = HandlerFactory(
            watch=partial(ExchangeWatch, taps=[self.ends]),
            responses=responses,
            mixed_tools=mixed_tools,
            approvals=ApprovalRequests(),
        )
        self.endpoint = ClientRoute(
            client=CHAT_CLIENT,
            planner=RequestPlanner(
                routes=self.models,
                responses=responses,
                mixed_tools=mixed_tools,
                limits=ServerLimits(),
            ),
            connections=ClientConnections(self.work),
            handlers=handlers,
            runs=self.runs,
            background=BackgroundResponses(
                runs=self.runs,
                responses=responses,
                make_handler=handlers.make,
                hold=self.work.hold,
            ),
        )

    def open_store(self) -> SqliteJournal:
        return SqliteJournal(self.path)

    def _make_tool(self) -> Tool:
        async def work() -> str:
            self.times += 1
            self.begun.set()
            await self.go_on.wait()
            return "done"

        return make_tool(work)

    async def reads_along(self, readers: int) -> None:
        """Wait until so many clients read the one answer."""
        (answer,) = self.runs.live.values()
        while answer._readers < readers:
            await asyncio.sleep(0.01)

    def ask(self, client: Client) -> asyncio.Task[None]:
        async def serve() -> None:
            await self.endpoint(client.scope, client.receive, client.send)

        return asyncio.create_task(serve())


WORK = calls(("work", {}))


class Silent:
    """An upstream that lets one wait, the first time."""

    protocol = "openai-chat"

    def __init__(self, then: ReplayUpstream | None = None) -> None:
        self.asked = asyncio.Event()
        self._then = then

    def answer(self, request: Any) -> Any:
        if self._then is not None and self.asked.is_set():
            return self._then.answer(request)
        self.asked.set()
        return _Forever()

    async def close(self) -> None:
        """Nothing is open."""


class _Forever:
    async def __aenter__(self) -> None:
        await asyncio.Event().wait()

    async def __aexit__(self, *_: object) -> None:
        """Nothing is open."""


@in_loop
async def test_a_question_is_answered_and_told_of(tmp_path: Path) -> None:
    bench = Bench(tmp_path, says("Hello"), mode="gate")
    client = Client()
    await bench.ask(client)
    assert client.heard.endswith("data: [DONE]\n\n")
    assert bench.ends.ended == [("gate", Fate.DONE, 200)]


@in_loop
async def test_a_wrong_request_is_refused_and_told_of(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    client = Client({"model": "none"})
    await bench.ask(client)
    assert client.status == 404
    assert bench.ends.ended == [("", Fate.FAILED, 404)]


@in_loop
async def test_a_client_that_leaves_before_it_has_asked_gets_nothing(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    client = Client()
    client.leaves.set()
    await bench.ask(client)
    assert not client.messages


@in_loop
async def test_a_run_is_read_by_all_who_ask_for_it(tmp_path: Path) -> None:
    bench = Bench(tmp_path, WORK, says("Done."))
    first, second, third = Client(), Client(), Client(x_stainless_retry_count="1")
    asking = bench.ask(first)
    await bench.begun.wait()
    again = bench.ask(second)
    await bench.reads_along(2)
    bench.go_on.set()
    await asyncio.gather(asking, again)
    await bench.ask(third)
    assert bench.times == 1
    assert first.heard == second.heard
    assert ["Done." in client.heard for client in (first, third)] == [True, True]
    assert [fate for _, fate, _ in bench.ends.ended] == [Fate.DONE] * 3


@in_loop
async def test_a_second_reader_may_leave(tmp_path: Path) -> None:
    bench = Bench(tmp_path, WORK, says("Done."))
    first, second = Client(), Client()
    asking = bench.ask(first)
    await bench.begun.wait()
    again = bench.ask(second)
    await bench.reads_along(2)
    second.leaves.set()
    await again
    bench.go_on.set()
    await asking
    assert "Done." in first.heard
    assert [end[1:] for end in bench.ends.ended] == [(Fate.GONE, 499), (Fate.DONE, 200)]


@in_loop
async def test_what_was_done_for_a_client_that_left_is_not_done_again(tmp_path: Path) -> None:
    bench = Bench(tmp_path, WORK, says("Done."))
    client, again = Client(), Client(x_stainless_retry_count="1")
    asking = bench.ask(client)
    await bench.begun.wait()
    client.leaves.set()
    await asking
    bench.go_on.set()
    await bench.work.settle(5.0)
    await bench.ask(again)
    assert bench.times == 1
    assert "Done." in again.heard
    assert len(bench.upstream.requests) == 2


INTERRUPTED: dict[str, tuple[dict[str, str], list[int], int]] = {
    "bare: refused, and refused again": ({}, [409, 409], 1),
    "not a resend: refused as well": ({"x_stainless_retry_count": "0"}, [409, 409], 1),
    "a key of its own: a new run": ({"idempotency_key": "another"}, [200, 200], 2),
    "a resend continues, and is answered again": ({"x_stainless_retry_count": "1"}, [200, 200], 1),
}


@pytest.mark.parametrize(("headers", "statuses", "times"), INTERRUPTED.values(), ids=INTERRUPTED)
@in_loop
async def test_after_a_crash_only_a_resend_continues_the_run(
    tmp_path: Path, *, headers: dict[str, str], statuses: list[int], times: int
) -> None:
    bench = Bench(tmp_path, WORK, says("Done."), WORK, says("Done."))
    bench.go_on.set()
    await bench.ask(Client())
    bench.runs.store.close()
    crash(bench.path)
    after = Bench(tmp_path, *([says("Done.")] if times == 1 else [WORK, says("Done.")]))
    after.go_on.set()
    clients = [Client(**headers), Client(**headers)]
    refusals: list[str] = []
    for client in clients:
        try:
            await after.ask(client)
        except RequestRefused as refused:
            refusals.append(refused.message)
            client.messages.append({"status": refused.status})
    assert [client.status for client in clients] == statuses
    assert all("'work' ended (done) and returned 'done'" in message for message in refusals)
    assert 1 + after.times == times


def crash(path: Path) -> None:
    """Leave the run as a crash after the result of its tool leaves it."""
    with sqlite3.connect(path) as database:
        database.execute("UPDATE runs SET status = 'running', owner = 'dead', due = 0")
        database.execute("DELETE FROM rows WHERE key IN ('turn 1', 'answer 2', 'turn 2', 'end')")
    database.close()


@in_loop
async def test_an_idempotency_key_with_another_body_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path, says("Done."), says("Done."))
    await bench.ask(Client(idempotency_key="k"))
    with pytest.raises(RequestRefused, match="Idempotency-Key") as refused:
        await bench.ask(Client({**BODY, "stream": False}, idempotency_key="k"))
    assert refused.value.status == 422


@in_loop
async def test_two_new_equal_requests_are_two_runs(tmp_path: Path) -> None:
    bench = Bench(tmp_path, WORK, WORK, says("Done."), says("Done."))
    asking = [bench.ask(Client(x_stainless_retry_count="0")) for _ in range(2)]
    bench.go_on.set()
    await asyncio.gather(*asking)
    assert bench.times == 2


@in_loop
async def test_a_run_in_which_nothing_was_done_is_run_anew(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    silent = Silent(ReplayUpstream([says("Done.")]))
    bench.models.replace(
        {
            "m": ModelRoute(
                name="m", upstream=silent, model="m", settings=ModelConfig(upstream="", mode="run")
            )
        }
    )
    client, again = Client(), Client(x_stainless_retry_count="1")
    asking = bench.ask(client)
    await silent.asked.wait()
    client.leaves.set()
    await asking
    await bench.work.settle(5.0)
    await bench.ask(again)
    assert "Done." in again.heard


# ── Who ended it ────────────────────────────────────────────────────────────────────

LEFT = (499, "client_gone")
CLOSED = (503, "shutting_down")
BREAKS: dict[str, tuple[Mode, bool, dict[str, tuple[int, str]]]] = {
    "gate": ("gate", False, {"client": LEFT, "server": CLOSED}),
    "run, nothing was done": ("run", False, {"client": LEFT, "server": CLOSED}),
    "run, a tool has begun": ("run", True, {"client": LEFT, "server": CLOSED}),
}
FATES = {"client": Fate.GONE, "server": Fate.STOPPED}


@pytest.mark.parametrize("who", FATES)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("name", BREAKS)
@in_loop
async def test_an_answer_that_is_broken_off_is_told_by_who_ended_it(
    tmp_path: Path, *, name: str, stream: bool, who: str
) -> None:
    mode, in_tool, told = BREAKS[name]
    bench = Bench(tmp_path, WORK)
    silent = Silent()
    if not in_tool:
        bench.models.replace(
            {
                "m": ModelRoute(
                    name="m",
                    upstream=silent,
                    model="m",
                    settings=ModelConfig(upstream="", mode=mode),
                )
            }
        )
    client = Client({**BODY, "stream": stream})
    asking = bench.ask(client)
    await (bench.begun if in_tool else silent.asked).wait()
    if who == "client":
        client.leaves.set()
    else:
        asking.cancel()
    await asyncio.wait([asking])
    bench.go_on.set()
    await bench.work.settle(5.0)
    status, code = told[who]
    assert bench.ends.ended == [(mode, FATES[who], status)]
    assert bench.ends.codes == [code]


@in_loop
async def test_who_reads_along_when_the_server_ends_did_not_leave_and_hears_of_it(
    tmp_path: Path,
) -> None:
    bench = Bench(tmp_path, WORK, says("Done."))
    clients = [Client(), Client()]
    asking = [bench.ask(clients[0])]
    await bench.begun.wait()
    asking.append(bench.ask(clients[1]))
    await bench.reads_along(2)
    for each in asking:
        each.cancel()
    await asyncio.wait(asking)
    bench.go_on.set()
    await bench.work.settle(5.0)
    assert bench.ends.ended == [("run", Fate.STOPPED, 503)] * 2
    assert all("the run continues where it stopped" in client.heard for client in clients)

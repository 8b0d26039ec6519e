"""Responses that are made in the background, cancelled and resumed, with OpenAI's SDK."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import openai
import pytest
from aiohttp import web

from proxy_server import in_loop, proxying, upstream
from responses_proxy import PREFIXES, Tools, serve, until
from upstreams.fake_endpoint import begin, serving
from wholecall.agent.run_events import ToolEnded
from wholecall.proxy.app import make_app
from wholecall.proxy.config.schema import Config, KeysConfig, ResponsesConfig, ServerLimits
from wholecall.proxy.http.api_keys import Key, KeyStore
from wholecall.proxy.observe.taps import Exchange, ExchangeEnded, Reading, Reads


@pytest.mark.parametrize("prefix", PREFIXES)
@in_loop
async def test_a_response_is_made_in_the_background(tmp_path: Path, prefix: str) -> None:
    tools = Tools()
    async with serve(tmp_path, tools=tools) as (served, faults):
        responses, model = served.openai.responses, f"{prefix}:good"
        begun = await responses.create(model=model, input="Do it.", background=True)
        assert (begun.status, begun.background, begun.output) == ("in_progress", True, [])
        await tools.begun.wait()
        working = await responses.retrieve(begun.id)
        assert working.status == "in_progress"
        with pytest.raises(openai.BadRequestError, match="not over"):
            await responses.create(model=model, input="x", previous_response_id=begun.id)
        tools.go_on.set()
        done = await until(served, begun.id, status="completed")
        sent = str([received.body for received in faults.received])
    assert (done.id, done.output_text) == (begun.id, "All done.")
    assert (done.background, tools.times) == (True, 1)
    assert "background" not in sent


@in_loop
async def test_work_in_the_background_can_be_cancelled(tmp_path: Path) -> None:
    tools = Tools()
    async with serve(tmp_path, tools=tools) as (served, _):
        responses = served.openai.responses
        begun = await responses.create(model="openai:good", input="Do it.", background=True)
        await tools.begun.wait()
        cancelled = await responses.cancel(begun.id)
        assert (cancelled.id, cancelled.status) == (begun.id, "cancelled")
        await tools.cancelled.wait()
        assert (await responses.cancel(begun.id)).status == "cancelled"
        assert (await responses.retrieve(begun.id)).status == "cancelled"
        with pytest.raises(openai.BadRequestError, match="cancelled"):
            await responses.create(model="openai:good", input="x", previous_response_id=begun.id)
        done = await responses.create(model="openai:answer-only", input="x", background=True)
        await until(served, done.id, status="completed")
        assert (await responses.cancel(done.id)).status == "completed"


class Seen:
    """A tap: how tools ended, and when the exchange did."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.over = asyncio.Event()

    def open(self, _: Exchange) -> Reading:
        return self, Reads({ToolEnded: Seen.take_result, ExchangeEnded: Seen.take_end})

    def take_result(self, event: ToolEnded) -> None:
        self.events.append(event.status.value)

    def take_end(self, event: ExchangeEnded) -> None:
        self.events.append(event.code)
        self.over.set()


@pytest.mark.parametrize("leave", ["cancel", "delete", "hang up"])
@in_loop
async def test_what_a_tool_did_after_all_was_broken_off_is_seen(tmp_path: Path, leave: str) -> None:
    tools, seen = Tools(read_only=False), Seen()
    async with serve(tmp_path, tools=tools) as (served, _):
        served.proxy.observers.taps[:] = [seen]
        responses = served.openai.responses
        asked: Any = {"model": "openai:good", "input": "Do it."}
        if leave == "hang up":
            asking = asyncio.create_task(responses.create(**asked))
            await tools.begun.wait()
            asking.cancel()
            while not any(task.cancelling() for task in asyncio.all_tasks() if task is not asking):
                await asyncio.sleep(0.01)
        else:
            begun = await responses.create(**asked, background=True)
            await tools.begun.wait()
            await getattr(responses, leave)(begun.id)
        tools.go_on.set()
        await seen.over.wait()
    assert seen.events[0] == "done"
    assert seen.events[1] == ("client_gone" if leave == "hang up" else "cancelled")
    assert len(seen.events) == 2


LATE = ResponsesConfig(background_seconds=0.05)
FAILING: dict[str, tuple[str, ResponsesConfig, str]] = {
    "an upstream that refuses": ("server-error-always", ResponsesConfig(), "server_error"),
    "an upstream that hangs": ("hang-before-headers", LATE, "timeout"),
}


@pytest.mark.parametrize(("scenario", "limits", "code"), FAILING.values(), ids=FAILING)
@in_loop
async def test_what_fails_in_the_background_says_so(
    tmp_path: Path, scenario: str, *, limits: ResponsesConfig, code: str
) -> None:
    async with serve(tmp_path, responses=limits) as (served, _):
        begun = await served.openai.responses.create(
            model=f"openai:{scenario}", input="x", background=True
        )
        failed = await until(served, begun.id, status="failed")
    assert failed.error is not None
    assert failed.error.code == code


@in_loop
async def test_a_stream_is_resumed_behind_the_last_event_that_was_seen(tmp_path: Path) -> None:
    tools = Tools()
    async with serve(tmp_path, tools=tools) as (served, _):
        responses = served.openai.responses
        stream = await responses.create(
            model="openai:good", input="Do it.", background=True, stream=True
        )
        seen = [await anext(aiter(stream)) for _ in range(2)]
        await stream.close()
        await tools.begun.wait()
        assert seen[0].type == "response.created"
        tools.go_on.set()
        id = seen[0].response.id
        rest = [
            event
            async for event in await responses.retrieve(
                id, stream=True, starting_after=seen[-1].sequence_number
            )
        ]
        every = [event async for event in await responses.retrieve(id, stream=True)]
        done = await responses.retrieve(id)
    numbers = [event.sequence_number for event in (*seen, *rest)]
    assert numbers == list(range(len(numbers)))
    assert rest[-1].type == "response.completed"
    assert [event.sequence_number for event in every] == numbers
    assert done.output_text == rest[-1].response.output_text == "All done."
    assert tools.times == 1


@in_loop
async def test_a_stream_that_is_cancelled_ends_with_an_error(tmp_path: Path) -> None:
    tools = Tools()
    async with serve(tmp_path, tools=tools) as (served, _):
        responses = served.openai.responses
        stream = await responses.create(
            model="openai:good", input="Do it.", background=True, stream=True
        )
        first = await anext(aiter(stream))
        assert first.type == "response.created"
        await tools.begun.wait()
        await responses.cancel(first.response.id)
        with pytest.raises(openai.APIError, match="cancelled"):
            async for _ in stream:
                pass


@in_loop
async def test_the_same_request_twice_is_begun_once(tmp_path: Path) -> None:
    tools = Tools()
    async with serve(tmp_path, tools=tools) as (served, _):
        asked: Any = {"model": "openai:good", "input": "Do it.", "background": True}
        named: Any = {"extra_headers": {"Idempotency-Key": "one"}}
        first = await served.openai.responses.create(**asked, **named)
        again = await served.openai.responses.create(**asked, **named)
        other = await served.openai.responses.create(**asked)
        tools.go_on.set()
        for id in (first.id, other.id):
            await until(served, id, status="completed")
    assert first.id == again.id != other.id
    assert tools.times == 2


FORGOTTEN: dict[str, ResponsesConfig] = {
    "deleted": ResponsesConfig(),
    "held for a moment only": ResponsesConfig(kept_seconds=0.001),
}


@pytest.mark.parametrize("name", FORGOTTEN)
@in_loop
async def test_what_is_not_held_any_more_is_not_begun_again_by_a_resend(
    tmp_path: Path, name: str
) -> None:
    tools = Tools()
    tools.go_on.set()
    async with serve(tmp_path, tools=tools, responses=FORGOTTEN[name]) as (served, _):
        asked: Any = {"model": "openai:good", "input": "Do it.", "background": True}
        asked["extra_headers"] = {"Idempotency-Key": "one"}
        responses = served.openai.responses
        stream = await responses.create(**asked, stream=True)
        events = [event async for event in stream]
        if name == "deleted":
            await responses.delete(events[0].response.id)
        with pytest.raises(openai.NotFoundError):
            await responses.retrieve(events[0].response.id)
        again = await responses.create(**asked, stream=True)
        assert [event async for event in again] == events
        with pytest.raises(openai.UnprocessableEntityError, match="another request"):
            await responses.create(**asked)
    assert tools.times == 1


@in_loop
async def test_a_resend_of_what_was_deleted_at_work_is_told_how_it_stands(tmp_path: Path) -> None:
    tools = Tools()
    async with serve(tmp_path, tools=tools) as (served, _):
        asked: Any = {"model": "openai:good", "input": "Do it.", "background": True}
        asked["extra_headers"] = {"Idempotency-Key": "one"}
        begun = await served.openai.responses.create(**asked)
        await tools.begun.wait()
        await served.openai.responses.delete(begun.id)
        again = await served.openai.responses.create(**asked)
    assert (again.id, again.status, tools.times) == (begun.id, "cancelled", 1)


@in_loop
async def test_there_are_so_many_places_in_the_background(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys.sqlite")
    rights = Key(id="", name="a", tools=("*",), concurrent=1)
    ours, theirs, third = (store.create(rights)[0] for _ in range(3))
    store.close()
    tools, limits = Tools(), ResponsesConfig(background=2)
    asked: Any = {"model": "openai:good", "input": "Do it.", "background": True}
    async with serve(tmp_path, tools=tools, locked=True, responses=limits) as (served, _):
        mine, other, last = (
            served.openai.with_options(api_key=key).responses for key in (ours, theirs, third)
        )
        first = await mine.create(**asked)
        with pytest.raises(openai.RateLimitError) as refused:
            await mine.create(**asked)
        assert refused.value.code == "concurrency_limit_exceeded"
        assert refused.value.response.headers["retry-after"] == "1"
        await other.create(**asked)
        with pytest.raises(openai.InternalServerError) as full:
            await last.create(**asked)
        assert (full.value.status_code, full.value.code) == (503, "overloaded")
        tools.go_on.set()
        while (await mine.retrieve(first.id)).status != "completed":
            await asyncio.sleep(0.01)
        await mine.create(**asked)


@in_loop
async def test_what_is_deleted_has_its_place_until_its_tools_have_ended(tmp_path: Path) -> None:
    tools, limits = Tools(read_only=False), ResponsesConfig(background=1)
    asked: Any = {"model": "openai:good", "input": "Do it.", "background": True}
    async with serve(tmp_path, tools=tools, responses=limits) as (served, _):
        responses = served.openai.responses
        begun = await responses.create(**asked)
        await tools.begun.wait()
        await responses.delete(begun.id)
        with pytest.raises(openai.NotFoundError):
            await responses.retrieve(begun.id)
        with pytest.raises(openai.InternalServerError) as full:
            await responses.create(**asked, instructions="Once more.")
        assert (full.value.code, tools.times) == ("overloaded", 1)
        tools.go_on.set()
        while served.proxy.api.background.live:
            await asyncio.sleep(0.01)
        await responses.create(**asked, instructions="Once more.")


@in_loop
async def test_where_nothing_is_held_nothing_is_made_in_the_background(tmp_path: Path) -> None:
    async with serve(tmp_path, responses=ResponsesConfig(kept_seconds=0.0)) as (served, _):
        responses = served.openai.responses
        with pytest.raises(openai.BadRequestError) as refused:
            await responses.create(model="openai:answer-only", input="hi", background=True)
    assert refused.value.param == "background"


@in_loop
async def test_when_the_server_ends_who_reads_is_told_that_it_is_not_the_end(
    tmp_path: Path,
) -> None:
    waiting = asyncio.Event()

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        response = await begin(request)
        await response.write(b'data: {"choices":[{"index":0,"delta":{"content":"Hello"}}]}\n\n')
        waiting.set()
        await asyncio.Event().wait()
        return response

    async with serving(handler) as behind:
        config = Config(
            models={"m": upstream("openai/m", f"{behind.url}/v1")},
            keys=KeysConfig(path=str(tmp_path / "keys.sqlite")),
            limits=ServerLimits(drain_seconds=0.1),
        )
        async with proxying(make_app(config, environ={})) as served:
            body = {"model": "m", "input": "hi", "background": True, "stream": True}
            reading = asyncio.create_task(served.post("/v1/responses", body))
            await waiting.wait()
            served.server.should_exit = True
            _, stream, _ = await reading
    assert '"type":"error"' in stream
    assert "stream_left" in stream
    # Who resumes behind the error goes on behind the last event before it.
    numbers = [int(number) for number in re.findall(r'"sequence_number":(\d+)', stream)]
    assert numbers == [*range(len(numbers) - 1), len(numbers) - 2]
    assert "response.completed" not in stream

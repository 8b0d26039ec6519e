"""Responses that are asked for again, continued, made in the background and resumed, with
OpenAI's SDK over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from aiohttp import web

from proxying import Served, in_loop, proxying, upstream
from upstreams.serving import begin, serving
from wholecall.faults.running import FaultServer
from wholecall.proxy.app import make_app
from wholecall.proxy.config import Config, KeysConfig
from wholecall.proxy.config.settings import ListenConfig, ResponsesConfig, ServerLimits
from wholecall.proxy.keys import Key, KeyStore
from wholecall.tools.from_function import make_tool
from wholecall.tools.tool import Tool

PREFIXES = ("openai", "responses", "anthropic")


class Tools:
    """A tool that goes on when it is let; it may be broken off if it only reads."""

    def __init__(self, *, read_only: bool = True) -> None:
        self._read_only = read_only
        self.begun, self.go_on, self.cancelled = (asyncio.Event() for _ in range(3))
        self.times = 0

    def make(self) -> tuple[Tool, ...]:
        async def send_email(to: str, body: str) -> str:  # noqa: ARG001 - what the model says
            self.times += 1
            self.begun.set()
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise
            return "sent"

        return (make_tool(send_email, read_only=self._read_only),)


@asynccontextmanager
async def serve(
    folder: Path,
    *,
    tools: Tools | None = None,
    responses: ResponsesConfig | None = None,
    locked: bool = False,
    workers: int = 1,
) -> AsyncIterator[tuple[Served, FaultServer]]:
    """The proxy in front of scenarios in three protocols: the model is `prefix:scenario`."""
    async with FaultServer(hang_seconds=20.0) as faults:
        models = {
            f"{prefix}:{name}": upstream(
                f"{prefix}/{name}",
                faults.address if prefix == "anthropic" else faults.base_url,
                mode="gate" if tools is None else "run",
            )
            for prefix in PREFIXES
            for name in ("answer-only", "good", "hang-before-headers", "server-error-always")
        }
        config = Config(
            models=models,
            keys=KeysConfig(path=str(folder / "keys.sqlite"), required=locked),
            responses=responses or ResponsesConfig(),
            listen=ListenConfig(workers=workers),
        )
        made = () if tools is None else tools.make()
        async with proxying(make_app(config, environ={}, tools=made)) as served:
            yield served, faults


async def until(served: Served, id: str, *, status: str) -> Any:
    """Ask until the response stands so."""
    while True:
        response = await served.openai.responses.retrieve(id)
        if response.status == status:
            return response
        assert response.status == "in_progress", response
        await asyncio.sleep(0.01)


# ── Held ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("streamed", [False, True])
@in_loop
async def test_a_response_can_be_asked_for_again_until_it_is_deleted(
    tmp_path: Path, prefix: str, *, streamed: bool
) -> None:
    asked: Any = {"model": f"{prefix}:answer-only", "input": "hi"}
    async with serve(tmp_path) as (served, _):
        responses = served.openai.responses
        if streamed:
            async with responses.stream(**asked) as stream:
                made: Any = await stream.get_final_response()
        else:
            made = await responses.create(**asked)
        again = await responses.retrieve(made.id)
        assert again.status == "completed"
        assert again.output_text == made.output_text == "All done."
        with pytest.raises(openai.BadRequestError, match="background"):
            await responses.cancel(made.id)
        with pytest.raises(openai.BadRequestError, match="stream"):
            await responses.retrieve(made.id, stream=True)
        await responses.delete(made.id)
        with pytest.raises(openai.NotFoundError):
            await responses.retrieve(made.id)


@in_loop
async def test_what_shall_not_be_stored_is_not(tmp_path: Path) -> None:
    async with serve(tmp_path) as (served, _):
        responses = served.openai.responses
        made = await responses.create(model="openai:answer-only", input="hi", store=False)
        with pytest.raises(openai.NotFoundError):
            await responses.retrieve(made.id)
        with pytest.raises(openai.BadRequestError) as refused:
            await responses.create(
                model="openai:answer-only", input="hi", store=False, background=True
            )
    assert refused.value.param == "store"


@pytest.mark.parametrize("prefix", PREFIXES)
@in_loop
async def test_a_conversation_goes_on_from_a_response(tmp_path: Path, prefix: str) -> None:
    async with serve(tmp_path) as (served, faults):
        responses, model = served.openai.responses, f"{prefix}:answer-only"
        first = await responses.create(model=model, input="one", instructions="Be brief.")
        second = await responses.create(model=model, input="two", previous_response_id=first.id)
        third = await responses.create(
            model=model,
            input=[{"role": "user", "content": "three"}],
            previous_response_id=second.id,
        )
        sent = faults.received[-1].body
    assert third.output_text == "All done."
    assert isinstance(sent, dict)
    assert "previous_response_id" not in sent
    said = str(sent)
    # All that was said, in order; and instructions hold for one response only.
    assert [said.index(word) for word in ("one", "two", "three")] == sorted(
        said.index(word) for word in ("one", "two", "three")
    )
    assert said.count("All done.") == 2
    assert "Be brief." not in said


@in_loop
async def test_what_is_not_held_is_refused_or_left_to_an_upstream_that_may_hold_it(
    tmp_path: Path,
) -> None:
    async with serve(tmp_path) as (served, faults):
        responses = served.openai.responses
        with pytest.raises(openai.BadRequestError) as refused:
            await responses.create(
                model="openai:answer-only", input="two", previous_response_id="resp_none"
            )
        assert refused.value.param == "previous_response_id"
        assert refused.value.code == "previous_response_not_found"
        assert not faults.received
        await responses.create(
            model="responses:answer-only", input="two", previous_response_id="resp_none"
        )
        sent = faults.received[-1].body
    assert isinstance(sent, dict)
    assert sent["previous_response_id"] == "resp_none"


@in_loop
async def test_a_response_is_found_by_its_own_key_only(tmp_path: Path) -> None:
    store = KeyStore(tmp_path / "keys.sqlite")
    ours, theirs = (store.create(Key(id="", name=name))[0] for name in ("a", "b"))
    store.close()
    async with serve(tmp_path, locked=True) as (served, _):
        mine = served.openai.with_options(api_key=ours).responses
        other = served.openai.with_options(api_key=theirs).responses
        made = await mine.create(model="responses:answer-only", input="hi")
        assert (await mine.retrieve(made.id)).id == made.id
        for ask in (other.retrieve, other.delete, other.cancel):
            with pytest.raises(openai.NotFoundError):
                await ask(made.id)
        with pytest.raises(openai.BadRequestError) as refused:
            await other.create(
                model="responses:answer-only", input="two", previous_response_id=made.id
            )
    assert refused.value.param == "previous_response_id"


# ── In the background ───────────────────────────────────────────────────────────────


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


@in_loop
async def test_what_fails_in_the_background_says_so(tmp_path: Path) -> None:
    limits = ResponsesConfig(background_seconds=0.2)
    async with serve(tmp_path, responses=limits) as (served, _):
        responses = served.openai.responses
        refused = await responses.create(
            model="openai:server-error-always", input="x", background=True
        )
        late = await responses.create(
            model="openai:hang-before-headers", input="x", background=True
        )
        failed = await until(served, refused.id, status="failed")
        assert failed.error is not None
        assert "500" in failed.error.message
        timed_out = await until(served, late.id, status="failed")
        assert timed_out.error is not None
        assert timed_out.error.code == "timeout"


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
        with pytest.raises(openai.BadRequestError, match="another request"):
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
        while served.proxy.service.holding.count_live():
            await asyncio.sleep(0.01)
        await responses.create(**asked, instructions="Once more.")


@in_loop
async def test_where_nothing_is_held_nothing_is_made_in_the_background(tmp_path: Path) -> None:
    for settings in ({"responses": ResponsesConfig(kept_seconds=0.0)}, {"workers": 2}):
        async with serve(tmp_path, **settings) as (served, _):
            responses = served.openai.responses
            made = await responses.create(model="openai:answer-only", input="hi")
            with pytest.raises(openai.NotFoundError):
                await responses.retrieve(made.id)
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
    assert "response.completed" not in stream

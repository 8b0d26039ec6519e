"""Responses that are asked for again and continued, with OpenAI's SDK over a real socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

from proxy_server import Offer, in_loop, proxying, upstream
from responses_proxy import PREFIXES, serve, until
from wholecall.faults.fault_server import FaultServer
from wholecall.faults.script import definitions
from wholecall.proxy.config.schema import ResponsesConfig
from wholecall.proxy.http.api_keys import Key, KeyStore
from wholecall.tools.function_tool import make_tool


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


@pytest.mark.parametrize("prefix", PREFIXES)
@in_loop
async def test_several_workers_hold_responses_together(tmp_path: Path, prefix: str) -> None:
    model = f"{prefix}:answer-only"
    async with (
        serve(tmp_path, workers=2) as (one, _),
        serve(tmp_path, workers=2) as (other, faults),
    ):
        made = await one.openai.responses.create(model=model, input="one")
        responses = other.openai.responses
        assert (await responses.retrieve(made.id)).output_text == "All done."
        listed: Any = await responses.input_items.list(made.id)
        assert listed.data[0].content[0].text == "one"
        await responses.create(model=model, input="two", previous_response_id=made.id)
        sent = str(faults.received[-1].body)
        assert sent.index("one") < sent.index("All done.") < sent.index("two")
        await responses.delete(made.id)
        with pytest.raises(openai.NotFoundError):
            await one.openai.responses.retrieve(made.id)
    assert (tmp_path / "wholecall-responses.sqlite").stat().st_mode & 0o077 == 0


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


@pytest.mark.parametrize("kept_seconds", [0.0, 3600.0], ids=["not held here", "held here"])
@pytest.mark.parametrize("streamed", [False, True])
@in_loop
async def test_what_an_upstream_holds_is_continued_by_its_own_key_only(
    tmp_path: Path, kept_seconds: float, *, streamed: bool
) -> None:
    store = KeyStore(tmp_path / "keys.sqlite")
    ours, theirs = (store.create(Key(id="", name=name))[0] for name in ("a", "b"))
    store.close()
    settings = ResponsesConfig(kept_seconds=kept_seconds)
    asked: Any = {"model": "responses:answer-only", "input": "hi"}
    async with serve(tmp_path, locked=True, responses=settings) as (served, _):
        mine = served.openai.with_options(api_key=ours).responses
        if streamed:
            async with mine.stream(**asked) as stream:
                made: Any = await stream.get_final_response()
        else:
            made = await mine.create(**asked)
    # After a restart the proxy holds nothing, but it still knows whose the id is.
    asked["previous_response_id"] = made.id
    async with serve(tmp_path, locked=True, responses=settings) as (served, faults):
        with pytest.raises(openai.BadRequestError) as refused:
            await served.openai.with_options(api_key=theirs).responses.create(**asked)
        assert not faults.received
        await served.openai.with_options(api_key=ours).responses.create(**asked)
        sent = faults.received[-1].body
    assert refused.value.code == "previous_response_not_found"
    assert isinstance(sent, dict)
    assert sent["previous_response_id"] == made.id


@pytest.mark.parametrize(
    ("locked", "prefix", "field"),
    [
        (False, "openai", "conversation"),
        (False, "anthropic", "prompt"),
        (True, "openai", "conversation"),
        (True, "responses", "conversation"),
    ],
)
@in_loop
async def test_what_only_an_account_has_is_refused_by_its_name(
    tmp_path: Path, locked: bool, *, prefix: str, field: str
) -> None:
    store = KeyStore(tmp_path / "keys.sqlite")
    key, _ = store.create(Key(id="", name="a"))
    store.close()
    async with serve(tmp_path, locked=locked) as (served, faults):
        responses = served.openai.with_options(api_key=key).responses
        named: Any = {"conversation": "conv_1", "prompt": {"id": "pmpt_1"}}
        asked: Any = {"model": f"{prefix}:answer-only", "input": "hi", field: named[field]}
        with pytest.raises(openai.BadRequestError) as refused:
            await responses.create(**asked)
    assert refused.value.param == field
    assert not faults.received


@pytest.mark.parametrize("prefix", PREFIXES)
@in_loop
async def test_what_a_response_answers_is_listed(tmp_path: Path, prefix: str) -> None:
    async with serve(tmp_path) as (served, _):
        responses, model = served.openai.responses, f"{prefix}:answer-only"
        first = await responses.create(model=model, input="one")
        said: Any = [{"role": "user", "content": f"{n}"} for n in range(24)]
        made = await responses.create(model=model, input=said, previous_response_id=first.id)
        listed: list[Any] = [item async for item in await responses.input_items.list(made.id)]
        oldest: Any = await responses.input_items.list(made.id, order="asc", limit=2)
        more: Any = await responses.input_items.list(
            made.id, order="asc", after=oldest.last_id, limit=1
        )
        with pytest.raises(openai.BadRequestError, match="limit"):
            await responses.input_items.list(made.id, limit=0)
        with pytest.raises(openai.NotFoundError):
            await responses.input_items.list("resp_none")
    texts = [item.content[0].text for item in listed]
    assert texts == [*(str(n) for n in reversed(range(24))), "All done.", "one"]
    assert len({item.id for item in listed}) == 26
    assert [item.content[0].text for item in oldest.data] == ["one", "All done."]
    assert (oldest.has_more, more.data[0].content[0].text) == (True, "0")


@pytest.mark.parametrize("background", [False, True])
@in_loop
async def test_tools_of_both_sides_go_on_from_a_response(
    tmp_path: Path, *, background: bool
) -> None:
    """The model calls get_weather twice (ours) and list_items (the client's)."""
    ran: list[str] = []

    def get_weather(city: str, unit: str = "C") -> str:
        ran.append(city)
        return f"12 {unit} in {city}"

    items: Any = [each for each in definitions("openai-responses") if each["name"] == "list_items"]
    async with FaultServer() as faults:
        offer = Offer(
            {"m": upstream("openai/parallel-calls", faults.base_url, mode="run")},
            tools=(make_tool(get_weather, read_only=True),),
            folder=tmp_path,
        )
        async with proxying(offer) as served:
            responses, asked = served.openai.responses, {"model": "m", "tools": items}
            first: Any = await responses.create(**asked, input="Do it.", background=background)
            if background:
                first = await until(served, first.id, status="completed")
            [call] = [item for item in first.output if item.type == "function_call"]
            brought: Any = {
                "type": "function_call_output",
                "call_id": call.call_id,
                "output": "1, 2",
            }
            last = await responses.create(**asked, input=[brought], previous_response_id=first.id)
            sent = faults.received[-1].body
    assert (call.name, call.arguments) == ("list_items", "{}")
    assert (last.output_text, ran) == ("All done.", ["Oslo", "Rome"])
    assert isinstance(sent, dict)
    said = [message["content"] for message in sent["messages"] if message["role"] == "tool"]
    assert said == ["12 C in Oslo", "12 C in Rome", "1, 2"]

"""Conversations that the proxy holds, with OpenAI's SDK over a real socket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openai
import pytest

from proxy_server import Served, in_loop
from responses_proxy import PREFIXES, serve
from wholecall.proxy.config.schema import ResponsesConfig
from wholecall.proxy.http.api_keys import Key, KeyStore

HELLO: Any = {"type": "message", "role": "user", "content": "one"}


@in_loop
async def test_a_conversation_is_made_changed_and_deleted(tmp_path: Path) -> None:
    async with serve(tmp_path) as (served, _):
        conversations = served.openai.conversations
        made = await conversations.create(metadata={"topic": "a"}, items=[HELLO])
        assert (made.object, made.metadata) == ("conversation", {"topic": "a"})
        assert await conversations.retrieve(made.id) == made
        changed = await conversations.update(made.id, metadata={"topic": "b"})
        assert changed == await conversations.retrieve(made.id)
        assert (changed.created_at, changed.metadata) == (made.created_at, {"topic": "b"})
        gone = await conversations.delete(made.id)
        assert (gone.id, gone.object, gone.deleted) == (made.id, "conversation.deleted", True)
        for again in (conversations.retrieve, conversations.delete, conversations.items.list):
            with pytest.raises(openai.NotFoundError, match="conversation"):
                await again(made.id)


@in_loop
async def test_its_items_are_listed_added_and_deleted(tmp_path: Path) -> None:
    async with serve(tmp_path) as (served, _):
        made = await served.openai.conversations.create(items=[HELLO])
        items = served.openai.conversations.items
        call: Any = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        done: Any = {"type": "function_call_output", "call_id": "c", "output": "7"}
        own: Any = {**HELLO, "id": "msg_own", "content": "two"}
        added = await items.create(made.id, items=[call, done, own])
        assert [item.type for item in added.data] == [call["type"], done["type"], "message"]
        assert added.data[2].id == "msg_own"
        listed = [item async for item in items.list(made.id, order="asc", limit=2)]
        assert [item.id for item in listed][1:] == [item.id for item in added.data]
        newest = await items.list(made.id)
        assert [item.id for item in newest.data] == [item.id for item in reversed(listed)]
        one: Any = await items.retrieve("msg_own", conversation_id=made.id)
        assert (one.role, one.content[0].text, one.status) == ("user", "two", "completed")
        assert (await items.delete("msg_own", conversation_id=made.id)).id == made.id
        with pytest.raises(openai.NotFoundError, match="no item"):
            await items.retrieve("msg_own", conversation_id=made.id)
        with pytest.raises(openai.NotFoundError, match="no item"):
            await items.delete("msg_own", conversation_id=made.id)
        assert len((await items.list(made.id)).data) == 3


async def ask(served: Served, asked: Any, *, streamed: bool) -> Any:
    if not streamed:
        return await served.openai.responses.create(**asked)
    async with served.openai.responses.stream(**asked) as stream:
        return await stream.get_final_response()


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("stored", [False, True])
@in_loop
async def test_a_response_continues_its_conversation(
    tmp_path: Path, prefix: str, *, streamed: bool, stored: bool
) -> None:
    async with serve(tmp_path) as (served, faults):
        made = await served.openai.conversations.create(items=[HELLO])
        asked: Any = {
            "model": f"{prefix}:answer-only",
            "conversation": made.id if streamed else {"id": made.id},
            "store": stored,
        }
        for said in ("two", "three"):
            response = await ask(served, {**asked, "input": said}, streamed=streamed)
            assert response.conversation.id == made.id
        sent = str(faults.received[-1].body)
        places = [sent.index(word) for word in ("one", "two", "All done.", "three")]
        assert places == sorted(places)
        assert "conv_" not in sent
        listed: Any = await served.openai.conversations.items.list(made.id, order="asc")
        assert [item.content[0].text for item in listed.data] == [
            "one",
            "two",
            "All done.",
            "three",
            "All done.",
        ]


@in_loop
async def test_a_failed_response_leaves_it_as_it_was(tmp_path: Path) -> None:
    async with serve(tmp_path) as (served, _):
        made = await served.openai.conversations.create(items=[HELLO])
        asked: Any = {"model": "openai:server-error-always", "input": "two"}
        with pytest.raises(openai.APIStatusError):
            await served.openai.responses.create(**asked, conversation=made.id)
        assert len((await served.openai.conversations.items.list(made.id)).data) == 1


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("with a previous response", {"previous_response_id": "resp_1"}, "exclude each other"),
    ("in the background", {"background": True}, "background"),
    ("of another form", {"conversation": 7}, "not the id"),
    ("that is not held", {"conversation": "conv_none"}, "no conversation of this id"),
    ("of a response's id", {"conversation": "resp_none"}, "no conversation of this id"),
]


@pytest.mark.parametrize(("_", "fields", "why"), REFUSED, ids=[row[0] for row in REFUSED])
@in_loop
async def test_what_a_conversation_cannot_be_used_with(
    tmp_path: Path, _: str, *, fields: dict[str, Any], why: str
) -> None:
    async with serve(tmp_path) as (served, faults):
        made = await served.openai.conversations.create()
        asked = {"model": "openai:answer-only", "input": "x", "conversation": made.id, **fields}
        with pytest.raises(openai.BadRequestError, match=why) as refused:
            await served.openai.responses.create(**asked)
        assert refused.value.param == "conversation"
        assert not faults.received


@in_loop
async def test_a_response_that_is_held_excludes_a_conversation_as_well(tmp_path: Path) -> None:
    async with serve(tmp_path) as (served, faults):
        made = await served.openai.conversations.create()
        asked: Any = {"model": "openai:answer-only", "input": "x"}
        before = await served.openai.responses.create(**asked)
        both: Any = {"previous_response_id": before.id, "conversation": made.id}
        with pytest.raises(openai.BadRequestError, match="exclude each other"):
            await served.openai.responses.create(**asked, **both)
        assert len(faults.received) == 1


BAD_BODIES: list[tuple[str, Any]] = [
    ("too many items", {"items": [HELLO] * 21}),
    ("an item that is none", {"items": [7]}),
    ("items that are no list", {"items": "x"}),
    ("metadata of another type", {"metadata": {"a": 1}}),
    ("too much metadata", {"metadata": {str(number): "" for number in range(17)}}),
    ("a long name", {"metadata": {"a" * 65: ""}}),
    ("a list", []),
]


@pytest.mark.parametrize(("_", "body"), BAD_BODIES, ids=[row[0] for row in BAD_BODIES])
@in_loop
async def test_a_body_that_cannot_be_used_is_refused(tmp_path: Path, _: str, body: Any) -> None:
    async with serve(tmp_path) as (served, _faults):
        status, told, _headers = await served.post("/v1/conversations", body)
        assert (status, told["error"]["code"]) == (400, "invalid_value")


@in_loop
async def test_several_workers_hold_conversations_together(tmp_path: Path) -> None:
    async with (
        serve(tmp_path, workers=2) as (one, _),
        serve(tmp_path, workers=2) as (other, _faults),
    ):
        made = await one.openai.conversations.create(items=[HELLO])
        model = "openai:answer-only"
        await other.openai.responses.create(model=model, input="two", conversation=made.id)
        await one.openai.responses.create(model=model, input="three", conversation=made.id)
        assert len((await other.openai.conversations.items.list(made.id)).data) == 5
        await one.openai.conversations.update(made.id, metadata={"a": "b"})
        assert (await other.openai.conversations.retrieve(made.id)).metadata == {"a": "b"}
        await one.openai.conversations.delete(made.id)
        with pytest.raises(openai.NotFoundError):
            await other.openai.conversations.retrieve(made.id)


@in_loop
async def test_a_conversation_is_for_its_own_key(tmp_path: Path) -> None:
    keys = KeyStore(tmp_path / "keys.sqlite")
    secrets = [keys.create(Key(id="", name=name))[0] for name in ("a", "b")]
    keys.close()
    async with serve(tmp_path, locked=True) as (served, _):
        one, two = (served.openai.with_options(api_key=secret) for secret in secrets)
        made = await one.conversations.create(items=[HELLO])
        for touch in (two.conversations.retrieve, two.conversations.items.list):
            with pytest.raises(openai.NotFoundError):
                await touch(made.id)
        with pytest.raises(openai.NotFoundError):
            await two.conversations.items.create(made.id, items=[HELLO])
        with pytest.raises(openai.NotFoundError):
            await two.conversations.update(made.id, metadata={})
        for prefix in PREFIXES:
            asked: Any = {"model": f"{prefix}:answer-only", "input": "x", "conversation": made.id}
            with pytest.raises(openai.BadRequestError, match="another key"):
                await two.responses.create(**asked)
            assert (await one.responses.create(**asked)).output_text == "All done."


@in_loop
async def test_conversations_and_responses_are_not_each_other(tmp_path: Path) -> None:
    async with serve(tmp_path) as (served, _):
        made = await served.openai.conversations.create()
        with pytest.raises(openai.NotFoundError):
            await served.openai.responses.retrieve(made.id)
        asked: Any = {"model": "openai:answer-only", "input": "x"}
        response = await served.openai.responses.create(**asked)
        with pytest.raises(openai.NotFoundError):
            await served.openai.conversations.retrieve(response.id)
        with pytest.raises(openai.BadRequestError):
            await served.openai.responses.create(**asked, previous_response_id=made.id)


@in_loop
async def test_nothing_is_held_where_nothing_is_stored(tmp_path: Path) -> None:
    async with serve(tmp_path, responses=ResponsesConfig(kept_seconds=0)) as (served, _):
        with pytest.raises(openai.NotFoundError, match="kept_seconds"):
            await served.openai.conversations.create()

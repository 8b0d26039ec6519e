"""Shorter conversations, and items that only name what they say, for every upstream."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from aiohttp import web

from any_upstream import UPSTREAMS, AnyUpstream, Said, in_front_of
from proxy_server import in_loop

COMPACT = "/v1/responses/compact"
SUMMARY = Said("Summary of the conversation so far: the answer is 42.")
RULES = {"role": "developer", "content": "Be brief."}
USER = {"role": "user", "content": "Read a.txt."}
TOOL = {
    "type": "function",
    "name": "read",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
}
CALL = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": '{"path": "a.txt"}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "forty-two"}
ANSWER = {"role": "assistant", "content": "It says forty-two."}
MORE: dict[str, Any] = {"role": "user", "content": [{"type": "input_text", "text": "Thanks."}]}
LONG = [RULES, USER, CALL, OUTPUT, ANSWER, MORE]


async def compact(it: AnyUpstream, **fields: Any) -> tuple[int, Any]:
    status, body, _ = await it.served.post(COMPACT, {"model": "m", **fields})
    return status, body


@pytest.mark.parametrize("prefix", UPSTREAMS)
@in_loop
async def test_the_model_writes_a_summary_that_any_later_request_is_given(prefix: str) -> None:
    async with in_front_of(prefix) as it:
        it.says, it.lacks = SUMMARY, "/compact"
        status, made = await compact(it, input=LONG)
        assert (status, made["object"]) == (200, "response.compaction")
        asked = json.dumps(it.sent[-1])
        assert all(said in asked for said in ("forty-two", "a.txt", "Be brief.", "Summarize"))
        output = made["output"]
        roles = [item.get("role", item["type"]) for item in output]
        assert roles == ["developer", "user", "user", "compaction"]
        texts = [each["content"][0]["text"] for each in output[:-1]]
        assert texts == ["Be brief.", "Read a.txt.", "Thanks."]
        for fields in ({"input": [*output, USER]}, {"input": [*output, USER], "tools": [TOOL]}):
            status, _, _ = await it.served.post("/v1/responses", {"model": "m", **fields})
            told = json.dumps(it.sent[-1])
            assert (status, SUMMARY.text in told) == (200, True)
            assert "forty-two" not in told
            assert output[-1]["encrypted_content"] not in told


@in_loop
async def test_an_upstream_that_can_does_it_itself() -> None:
    made = {"id": "resp_9", "object": "response.compaction", "created_at": 1, "output": []}
    async with in_front_of("responses") as it:
        it.says = web.json_response(made)
        assert await compact(it, input=LONG) == (200, made)
        [request] = it.server.requests
        assert request.path.endswith("/responses/compact")
        assert it.sent == [{"model": "m", "input": LONG}]


@in_loop
async def test_what_is_stored_can_be_compacted_and_continued() -> None:
    async with in_front_of("openai") as it:
        first = await it.served.openai.responses.create(model="m", input="one")
        it.says = SUMMARY
        status, made = await compact(it, previous_response_id=first.id)
        assert status == 200
        assert [item["type"] for item in made["output"]] == ["message", "compaction"]
        conversation = await it.served.openai.conversations.create(items=made["output"])
        response = await it.served.openai.responses.create(
            model="m", input="two", conversation=conversation.id
        )
        told = json.dumps(it.sent[-1])
        assert told.index("one") < told.index(SUMMARY.text) < told.index("two")
        await it.served.openai.responses.create(
            model="m", input="three", previous_response_id=response.id
        )
        assert SUMMARY.text in json.dumps(it.sent[-1])


CUT_MESSAGE = {"role": "assistant", "content": "Summary of"}
CUT = {"choices": [{"index": 0, "message": CUT_MESSAGE, "finish_reason": "length"}]}
BROKEN: list[tuple[str, Said | web.Response, int, str]] = [
    ("it says nothing", Said(" "), 502, "no_summary"),
    ("it is cut off", web.json_response(CUT), 502, "no_summary"),
    ("it calls a tool", Said("", (("read", {"path": "a"}),)), 502, "bad_call"),
    ("it refuses", web.json_response({"error": {"message": "no"}}, status=400), 400, "status"),
]


@pytest.mark.parametrize(
    ("says", "status", "code"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN]
)
@in_loop
async def test_without_a_summary_there_is_an_error(
    says: Said | web.Response, status: int, *, code: str
) -> None:
    async with in_front_of("openai", reask=0) as it:
        it.says = says
        answered, body = await compact(it, input=LONG)
        assert (answered, body["error"]["code"] or "") == (status, code)


FOREIGN = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAABp"}
CHANGED = {"type": "compaction", "encrypted_content": "wholecall-summary:%%%"}
NOT_TEXT = f"wholecall-summary:{base64.b64encode(bytes([255])).decode()}"
UNREADABLE: list[tuple[dict[str, Any], str, str]] = [
    (FOREIGN, "invalid_value", "compaction 'cmp_1'"),
    (CHANGED, "invalid_value", "changed"),
    ({**CHANGED, "encrypted_content": NOT_TEXT}, "invalid_value", "changed"),
    ({"type": "item_reference", "id": "msg_1"}, "item_not_found", "'msg_1'"),
    ({"type": "item_reference", "id": "fc_abc_1"}, "item_not_found", "'fc_abc_1'"),
    ({"type": "item_reference"}, "item_not_found", "item_reference"),
    ({"id": "msg_1"}, "item_not_found", "'msg_1'"),
]


@pytest.mark.parametrize(("item", "code", "named"), UNREADABLE)
@in_loop
async def test_what_cannot_be_known_here_is_refused(
    item: dict[str, Any], code: str, *, named: str
) -> None:
    async with in_front_of("openai") as it:
        body = {"model": "m", "input": [USER, item]}
        status, answer, _ = await it.served.post("/v1/responses", body)
        assert (status, answer["error"]["param"], answer["error"]["code"]) == (400, "input", code)
        assert named in answer["error"]["message"]
        assert it.sent == []


@in_loop
async def test_the_upstream_that_made_an_item_is_given_its_name() -> None:
    async with in_front_of("responses") as it:
        for item in (FOREIGN, {"type": "item_reference", "id": "msg_1"}):
            body = {"model": "m", "input": [USER, item]}
            assert (await it.served.post("/v1/responses", body))[0] == 200
            assert it.sent[-1]["input"] == [USER, item]


@pytest.mark.parametrize("prefix", [prefix for prefix in UPSTREAMS if prefix != "responses"])
@in_loop
async def test_a_reference_is_the_item_that_it_names(prefix: str) -> None:
    """The AI SDK sends what it was given by its ids."""
    called = Said("I look.", (("read", {"path": "a.txt"}),), "Let me see.")
    async with in_front_of(prefix) as it:
        it.says = called
        asked: dict[str, Any] = {"model": "m", "tools": [TOOL]}
        _, first, _ = await it.served.post("/v1/responses", {**asked, "input": [USER]})
        [call] = [item for item in first["output"] if item["type"] == "function_call"]
        named = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
        output = {**OUTPUT, "call_id": call["call_id"]}
        it.says = Said("It says forty-two.")
        status, second, _ = await it.served.post(
            "/v1/responses", {**asked, "input": [USER, *named, output]}
        )
        by_name = it.sent[-1]
        assert status == 200, second
        await it.served.post("/v1/responses", {**asked, "input": [USER, *first["output"], output]})
        assert it.sent[-1] == by_name
        assert "I look." in json.dumps(by_name)
        assert "forty-two" in json.dumps(by_name)
        # What was named is held as it was, not by its name.
        await it.served.openai.responses.delete(first["id"])
        _, third, _ = await it.served.post(
            "/v1/responses", {**asked, "input": "more", "previous_response_id": second["id"]}
        )
        assert third["status"] == "completed"
        assert "I look." in json.dumps(it.sent[-1])


@in_loop
async def test_a_reference_to_another_response_is_of_no_use() -> None:
    async with in_front_of("openai") as it:
        first = await it.served.openai.responses.create(model="m", input="one", store=False)
        item = {"type": "item_reference", "id": first.output[0].id}
        status, body, _ = await it.served.post("/v1/responses", {"model": "m", "input": [item]})
        assert (status, body["error"]["code"]) == (400, "item_not_found")

"""The Open Responses specification of 2026-04-24 as JSON Schemas, in so far as a server is held to
it: the response, its items and their contents, the events, a compaction, a WebSocket's error
(https://www.openresponses.org/reference)."""

from __future__ import annotations

from typing import Any

import jsonschema_rs

_Schema = dict[str, Any]
TEXT: _Schema = {"type": "string"}
COUNT: _Schema = {"type": "integer"}
NUMBER: _Schema = {"type": "number"}
FLAG: _Schema = {"type": "boolean"}
OBJECT: _Schema = {"type": "object"}


def either(*schemas: _Schema) -> _Schema:
    return {"anyOf": list(schemas)}


def or_null(schema: _Schema) -> _Schema:
    return either(schema, {"type": "null"})


def one_of(*words: str | None) -> _Schema:
    return {"enum": list(words)}


def many(schema: _Schema) -> _Schema:
    return {"type": "array", "items": schema}


def shape(*, optional: _Schema | None = None, **fields: _Schema) -> _Schema:
    """An object with at least these fields."""
    return {"type": "object", "required": [*fields], "properties": {**fields, **(optional or {})}}


def by_type(kinds: dict[str, _Schema]) -> _Schema:
    """One of several objects, by their `type`; no other type is allowed."""
    known = {"type": "object", "required": ["type"], "properties": {"type": one_of(*kinds)}}
    tests = [
        {"if": {"properties": {"type": {"const": kind}}}, "then": schema}
        for kind, schema in kinds.items()
    ]
    return {**known, "allOf": tests}


# ── Contents, items, tools ──────────────────────────────────────────────────────────

CITATION = shape(type=one_of("url_citation"), url=TEXT, start_index=COUNT, end_index=COUNT)
PART = by_type(
    {
        "input_text": shape(text=TEXT),
        "output_text": shape(text=TEXT, annotations=many(CITATION)),
        "text": shape(text=TEXT),
        "summary_text": shape(text=TEXT),
        "reasoning_text": shape(text=TEXT),
        "refusal": shape(refusal=TEXT),
        "input_image": shape(image_url=or_null(TEXT), detail=one_of("low", "high", "auto")),
        "input_file": shape(),
    }
)
STATUS = one_of("in_progress", "completed", "incomplete")
# That every item has a status is in the words of the specification.
ITEM = by_type(
    {
        "message": shape(
            id=TEXT,
            status=STATUS,
            role=one_of("user", "assistant", "system", "developer"),
            content=many(PART),
        ),
        "function_call": shape(id=TEXT, call_id=TEXT, name=TEXT, arguments=TEXT, status=STATUS),
        "function_call_output": shape(
            id=TEXT, call_id=TEXT, output=either(TEXT, many(PART)), status=STATUS
        ),
        "reasoning": shape(id=TEXT, status=STATUS, summary=many(PART)),
        "compaction": shape(id=TEXT, encrypted_content=TEXT),
    }
)
TOOL = by_type(
    {
        "function": shape(
            name=TEXT,
            description=or_null(TEXT),
            parameters=or_null(OBJECT),
            strict=or_null(FLAG),
        )
    }
)
CHOICE = either(
    one_of("none", "auto", "required"),
    shape(type=one_of("function")),
    shape(type=one_of("allowed_tools"), tools=many(OBJECT), mode=TEXT),
)
FORMAT = by_type(
    {
        "text": shape(),
        "json_object": shape(),
        "json_schema": shape(name=TEXT, description=or_null(TEXT), strict=FLAG),
    }
)

# ── The response ────────────────────────────────────────────────────────────────────

USAGE = shape(
    input_tokens=COUNT,
    output_tokens=COUNT,
    total_tokens=COUNT,
    input_tokens_details=shape(cached_tokens=COUNT),
    output_tokens_details=shape(reasoning_tokens=COUNT),
)
EFFORT = one_of("none", "minimal", "low", "medium", "high", "xhigh", None)
RESPONSE = shape(
    id=TEXT,
    object=one_of("response"),
    created_at=COUNT,
    completed_at=or_null(COUNT),
    status=TEXT,
    incomplete_details=or_null(shape(reason=TEXT)),
    model=TEXT,
    previous_response_id=or_null(TEXT),
    instructions=or_null(TEXT),
    output=many(ITEM),
    error=or_null(shape(code=TEXT, message=TEXT)),
    tools=many(TOOL),
    tool_choice=CHOICE,
    truncation=one_of("auto", "disabled"),
    parallel_tool_calls=FLAG,
    text=shape(format=FORMAT),
    top_p=NUMBER,
    presence_penalty=NUMBER,
    frequency_penalty=NUMBER,
    top_logprobs=COUNT,
    temperature=NUMBER,
    reasoning=or_null(shape(effort=EFFORT, summary=one_of("concise", "detailed", "auto", None))),
    usage=or_null(USAGE),
    max_output_tokens=or_null(COUNT),
    max_tool_calls=or_null(COUNT),
    store=FLAG,
    background=FLAG,
    service_tier=TEXT,
    metadata={},
    safety_identifier=or_null(TEXT),
    prompt_cache_key=or_null(TEXT),
)
COMPACTION = shape(
    id=TEXT,
    object=one_of("response.compaction"),
    output=many(ITEM),
    created_at=COUNT,
    usage=USAGE,
)

# ── Events ──────────────────────────────────────────────────────────────────────────

_AT: dict[str, _Schema] = {"item_id": TEXT, "output_index": COUNT}
_IN_CONTENT: dict[str, _Schema] = {**_AT, "content_index": COUNT}
_IN_SUMMARY: dict[str, _Schema] = {**_AT, "summary_index": COUNT}
_OF_RESPONSE = ("created", "queued", "in_progress", "completed", "failed", "incomplete")
ERROR = shape(type=TEXT, code=or_null(TEXT), message=TEXT, param=or_null(TEXT))
_KINDS: dict[str, _Schema] = {
    **{f"response.{state}": shape(response=RESPONSE) for state in _OF_RESPONSE},
    "response.output_item.added": shape(output_index=COUNT, item=or_null(ITEM)),
    "response.output_item.done": shape(output_index=COUNT, item=or_null(ITEM)),
    "response.reasoning_summary_part.added": shape(**_IN_SUMMARY, part=PART),
    "response.reasoning_summary_part.done": shape(**_IN_SUMMARY, part=PART),
    "response.content_part.added": shape(**_IN_CONTENT, part=PART),
    "response.content_part.done": shape(**_IN_CONTENT, part=PART),
    "response.output_text.delta": shape(**_IN_CONTENT, delta=TEXT),
    "response.output_text.done": shape(**_IN_CONTENT, text=TEXT),
    "response.refusal.delta": shape(**_IN_CONTENT, delta=TEXT),
    "response.refusal.done": shape(**_IN_CONTENT, refusal=TEXT),
    "response.reasoning_summary_text.delta": shape(**_IN_SUMMARY, delta=TEXT),
    "response.reasoning_summary_text.done": shape(**_IN_SUMMARY, text=TEXT),
    "response.function_call_arguments.delta": shape(**_AT, delta=TEXT),
    "response.function_call_arguments.done": shape(**_AT, arguments=TEXT),
    "error": shape(error=ERROR),
}
SOCKET_ERROR = shape(type=one_of("error"), status=COUNT, error=shape(code=TEXT, message=TEXT))
_VALIDATORS = {
    name: jsonschema_rs.validator_for(schema)
    for name, schema in {
        "response": RESPONSE,
        "event": {"allOf": [shape(type=TEXT, sequence_number=COUNT), by_type(_KINDS)]},
        "compaction": COMPACTION,
        "socket error": SOCKET_ERROR,
    }.items()
}


def breaches(name: str, value: Any) -> list[str]:
    """What of a value the specification forbids."""
    found = _VALIDATORS[name].iter_errors(value)
    return [f"{'.'.join(map(str, error.instance_path))}: {error.message}" for error in found]


def check_stream(events: list[Any]) -> Any:
    """Check the events of one response as a whole; return the response that ends it."""
    assert [each["sequence_number"] for each in events] == list(range(len(events)))
    assert [each for event in events for each in breaches("event", event)] == []
    assert [each["type"] for each in events[:2]] == ["response.created", "response.in_progress"]
    open_items: dict[int, str] = {}
    texts: dict[str, str] = {}
    for event in events[2:-1]:
        kind, at = event["type"], event["output_index"]
        if kind == "response.output_item.added":
            assert at not in open_items
            assert event["item"].get("status", "in_progress") == "in_progress"
            open_items[at] = event["item"]["id"]
        elif kind == "response.output_item.done":
            assert event["item"]["id"] == open_items[at]
        else:
            assert event["item_id"] == open_items[at]
            if kind.endswith(".delta"):
                texts[event["item_id"]] = texts.get(event["item_id"], "") + event["delta"]
            for name in {"text", "arguments"} & event.keys():
                assert texts[event["item_id"]] == event[name]
    last = events[-1]["response"]
    done = [each["item"] for each in events if each["type"] == "response.output_item.done"]
    assert events[-1]["type"] == f"response.{last['status']}"
    assert last["output"] == done
    return last

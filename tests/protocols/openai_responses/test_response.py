from __future__ import annotations

from typing import Any

import pytest

from encoded_answers import HEAD, LIVE, encode, ended, grown, make_call, payloads, read, take_apart
from wholecall.events import Event, Grew, Opened, ProviderBlock, Reasoning, Released, Text, Usage
from wholecall.protocols.registry import make_encoder
from wholecall.protocols.response_base import Failure, ResponseStyle

NATIVE = ResponseStyle(upstream="openai-responses")
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
SUMMARY = [{"type": "summary_text", "text": "ab"}, {"type": "summary_text", "text": "c"}]
ITEM: dict[str, Any] = {
    "type": "reasoning",
    "id": "rs_a",
    "summary": SUMMARY,
    "content": [{"type": "reasoning_text", "text": "d"}],
    "encrypted_content": "e",
    "status": None,
}
KEPT = {key: value for key, value in ITEM.items() if key != "status"}


def stream(*events: Event, style: ResponseStyle | None = None) -> list[Any]:
    """The payloads of a stream whose numbers rise and whose items keep their ids."""
    frames = take_apart(encode("openai-responses", [*events, ended()], style=style))
    found = [frame.payload for frame in frames]
    assert [frame.name for frame in frames] == [each["type"] for each in found]
    assert [each["sequence_number"] for each in found] == list(range(len(found)))
    begun = pick(found, "response.output_item.added")
    done = pick(found, "response.output_item.done")
    ids = {index: item["id"] for index, item in begun.items()}
    assert {index: item["id"] for index, item in done.items()} == ids
    parts = [each for each in found if "item_id" in each]
    assert all(part["item_id"] == ids[part["output_index"]] for part in parts)
    assert found[-1]["response"]["output"] == [done[index] for index in sorted(done)]
    return found


def pick(found: list[Any], kind: str) -> dict[int, Any]:
    return {each["output_index"]: each["item"] for each in found if each["type"] == kind}


def shorten(found: list[Any]) -> list[str]:
    """What happens to which item, between the beginning and the end."""
    return [
        f"{each['output_index']} {each['type'].removeprefix('response.')}" for each in found[2:-1]
    ]


def items(found: list[Any]) -> list[Any]:
    output: list[Any] = found[-1]["response"]["output"]
    return output


MESSAGE = [
    "output_item.added",
    "content_part.added",
    "output_text.delta",
    "output_text.done",
    "content_part.done",
    "output_item.done",
]
THOUGHT = [
    "output_item.added",
    "reasoning_summary_part.added",
    "reasoning_summary_text.delta",
    "reasoning_summary_text.done",
    "reasoning_summary_part.done",
    "output_item.done",
]
CALL = [
    "output_item.added",
    "function_call_arguments.delta",
    "function_call_arguments.done",
    "output_item.done",
]


def at(index: int, names: list[str]) -> list[str]:
    return [f"{index} {name}" for name in names]


def test_every_item_is_told_from_its_beginning_to_its_end() -> None:
    found = stream(Reasoning("a"), Text("b"), *grown(make_call()), Text("c"))
    expected = [*at(0, THOUGHT), *at(1, MESSAGE), *at(2, CALL), *at(3, MESSAGE)]
    assert shorten(found) == expected
    assert [item["id"] for item in items(found)] == ["rs_7_1", "msg_7_2", "fc_7_3", "msg_7_4"]


def test_text_grows_in_one_item() -> None:
    found = stream(Text("a"), Reasoning("", {"signature": "s"}), Text("b"))
    names = [*MESSAGE[:3], MESSAGE[2], *MESSAGE[3:]]
    assert shorten(found) == at(0, names)
    assert items(found)[0]["content"][0]["text"] == "ab"


def test_a_call_that_is_shown_as_it_grows_is_the_same_item() -> None:
    call = make_call(extras={"item_id": "fc_a", "namespace": "n"})
    gated, live = stream(*grown(call)), stream(*grown(call), style=LIVE)
    assert items(gated) == [
        {
            "id": "fc_a",
            "type": "function_call",
            "status": "completed",
            "call_id": "call_0",
            "name": "weather",
            "arguments": '{"city":"Oslo"}',
            "namespace": "n",
        }
    ]
    [item] = items(live)
    assert item == {**items(gated)[0], "id": "fc_7_1", "arguments": call.raw}
    assert "".join(each["delta"] for each in live if "delta" in each) == call.raw
    for found in (gated, live):
        assert found[2]["item"]["status"] == "in_progress"
        assert found[2]["item"]["arguments"] == ""


def test_live_calls_keep_their_places() -> None:
    events: list[Event] = [
        Opened(0, "call_0", "weather"),
        Opened(1, "call_1", "weather"),
        Grew(1, "{}"),
        Released(make_call(1, {})),
        Released(make_call(0, {})),
    ]
    found = stream(*events, style=LIVE)
    assert [item["call_id"] for item in items(found)] == ["call_0", "call_1"]


# ── From the same protocol ──────────────────────────────────────────────────────────


def test_reasoning_waits_for_the_id_that_it_is_bound_to() -> None:
    pieces = [Reasoning("a"), Reasoning("bc"), Reasoning("d"), Reasoning("", {"item": ITEM})]
    found = stream(Text("x"), *pieces, Text("y"), style=NATIVE)
    assert items(found)[1] == KEPT
    deltas = [each["delta"] for each in found if each.get("item_id") == "rs_a" and "delta" in each]
    assert deltas == ["ab", "c", "d"]
    begun = next(each["item"] for each in found if each.get("output_index") == 1)
    assert begun == {"type": "reasoning", "id": "rs_a", "summary": []}


def test_reasoning_whose_item_never_comes_is_told_all_the_same() -> None:
    found = stream(Text("x"), Reasoning("a"), Reasoning("b"), Text("y"), style=NATIVE)
    assert shorten(found) == [*at(0, MESSAGE), *at(1, THOUGHT), *at(2, MESSAGE)]
    assert items(found)[1]["summary"] == [{"type": "summary_text", "text": "ab"}]
    assert len(items(stream(Reasoning("a"), style=NATIVE))) == 1


def test_an_item_without_words_is_handed_on() -> None:
    bare = {"type": "reasoning", "summary": [], "encrypted_content": "e"}
    [item] = items(stream(Reasoning("", {"item": bare}), style=NATIVE))
    assert item == {**bare, "id": "rs_7_1"}


def test_reasoning_that_was_shown_keeps_the_id_under_which_it_was() -> None:
    [item] = items(stream(Reasoning("abcd"), Reasoning("", {"item": ITEM})))
    assert item["id"] == "rs_7_1"
    assert "encrypted_content" not in item


def test_the_phase_of_a_message_is_kept() -> None:
    envelope = {"id": "msg_a", "phase": "commentary"}
    found = stream(Text("a"), Reasoning("", {"message": envelope}), Text("b"), style=NATIVE)
    first, second = items(found)
    assert (first["id"], first["phase"]) == ("msg_7_1", "commentary")
    assert "phase" not in second


def test_what_a_provider_did_is_an_item_for_those_who_know_it() -> None:
    found = stream(Text("a"), ProviderBlock(SEARCH), style=NATIVE)
    assert shorten(found)[-2:] == ["1 output_item.added", "1 output_item.done"]
    assert items(found)[-1] == SEARCH
    assert len(items(stream(Text("a"), ProviderBlock(SEARCH)))) == 1


# ── The end ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("reason", "event"),
    [
        ("stop", "response.completed"),
        ("length", "response.incomplete"),
        ("content_filter", "response.incomplete"),
    ],
)
def test_the_last_event_says_how_it_ended(reason: str, event: str) -> None:
    written = encode("openai-responses", [Text("a"), Usage(3, 4), ended(reason)])
    assert payloads(written)[-1]["type"] == event
    assert payloads(written)[-1]["response"]["usage"]["input_tokens"] == 3
    assert read("openai-responses", written).finish_reason == reason


def test_a_failure_is_an_error_and_a_failed_response() -> None:
    encoder = make_encoder("openai-responses", HEAD)
    encoder.encode(Text("a"))
    error, failed = payloads(encoder.fail(Failure(message="gone", status=502, param="x")))
    assert error["error"]["type"] == "server_error"
    assert (error["type"], error["message"], error["param"]) == ("error", "gone", "x")
    assert failed["type"] == "response.failed"
    assert failed["sequence_number"] == error["sequence_number"] + 1
    response = failed["response"]
    assert response["error"] == {"code": "server_error", "message": "gone"}
    assert (response["status"], response["output"]) == ("failed", [])


def test_a_response_that_never_began_cannot_fail() -> None:
    failure = Failure(message="gone", code="busy")
    [error] = payloads(make_encoder("openai-responses", HEAD).fail(failure))
    assert (error["type"], error["code"], error["sequence_number"]) == ("error", "busy", 0)


def test_progress_is_an_event_of_its_own_and_has_its_number() -> None:
    encoder = make_encoder("openai-responses", HEAD)
    encoder.begin()
    [progress] = payloads(encoder.report({"turn": 1}))
    expected = {"type": "wholecall.progress", "sequence_number": 2, "wholecall": {"turn": 1}}
    assert progress == expected
    assert encoder.keep_alive().startswith(b":")

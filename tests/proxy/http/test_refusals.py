"""Answers on their way out."""

import asyncio
import json

import pytest
from starlette.types import Message

from wholecall.proxy.http.middleware import LINGER_BYTES, HttpReply
from wholecall.proxy.http.refusals import RequestRefused

START = "http.response.start"
REFUSED = RequestRefused(
    413, "too large", code="request_too_large", headers=((b"connection", b"close"),)
)


async def nothing() -> Message:
    raise AssertionError("nobody needs to read on")


def play(
    reply_path: str, *steps: Message | RequestRefused, origin: str | None = None
) -> list[Message]:
    """What reaches the server when the application sends messages and the edge refuses."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def run() -> None:
        reply = HttpReply(send, reply_path, receive=nothing, request_id="req_1")
        reply.origin = origin
        for step in steps:
            await (reply.refuse(step) if isinstance(step, RequestRefused) else reply.send(step))

    asyncio.run(run())
    return sent


def start(*headers: tuple[bytes, bytes]) -> Message:
    return {"type": START, "status": 200, "headers": list(headers)}


BODY: Message = {"type": "http.response.body", "body": b"a", "more_body": True}


def test_an_answer_gets_the_id_of_its_request() -> None:
    given = start((b"content-type", b"text/plain"))
    sent = play("/v1/models", given, BODY)
    assert sent[0]["headers"] == [(b"content-type", b"text/plain"), (b"x-request-id", b"req_1")]
    assert sent[1] is BODY
    assert given["headers"] == [(b"content-type", b"text/plain")]


def test_an_id_that_the_application_gave_stays() -> None:
    sent = play("/v1/messages", start((b"Request-Id", b"other")))
    assert sent[0]["headers"] == [(b"Request-Id", b"other")]


def test_a_start_without_headers_is_good() -> None:
    sent = play("/v1/messages", {"type": START, "status": 204})
    assert sent[0]["headers"] == [(b"request-id", b"req_1")]


def test_an_admitted_website_may_read_the_answer() -> None:
    sent = play("/v1/models", start(), origin="https://chat.example")
    headers = dict(sent[0]["headers"])
    assert headers[b"access-control-allow-origin"] == b"https://chat.example"
    assert headers[b"vary"] == b"Origin"
    assert b"x-request-id" in headers[b"access-control-expose-headers"]


def test_a_refusal_is_a_whole_answer_and_the_application_is_not_heard_any_more() -> None:
    sent = play("/v1/models", REFUSED, start(), BODY, REFUSED)
    assert [message["type"] for message in sent] == [START, "http.response.body"]
    headers = dict(sent[0]["headers"])
    assert sent[0]["status"] == 413
    assert headers[b"connection"] == b"close"
    assert headers[b"x-request-id"] == b"req_1"
    assert headers[b"content-length"] == str(len(sent[1]["body"])).encode()
    assert json.loads(sent[1]["body"])["error"]["code"] == "request_too_large"


def test_an_answer_that_has_begun_is_not_refused() -> None:
    sent = play("/v1/models", start(), REFUSED, BODY)
    assert [message["type"] for message in sent] == [START, "http.response.body"]
    assert (sent[0]["status"], sent[1]) == (200, BODY)


def test_a_page_that_asks_is_told_what_it_may_do() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    reply = HttpReply(send, "/v1/models", receive=nothing, request_id="req_1")
    reply.origin = "https://chat.example"
    asyncio.run(reply.approve([(b"access-control-max-age", b"600")]))
    assert sent[0]["status"] == 204
    assert (b"access-control-max-age", b"600") in sent[0]["headers"]
    assert (b"access-control-allow-origin", b"https://chat.example") in sent[0]["headers"]
    assert sent[1]["body"] == b""


@pytest.mark.parametrize(
    ("pieces", "read"),
    [
        ([(b"a", True), (b"b", True), (b"c", False), (b"next", False)], 3),
        ([(b"x" * (LINGER_BYTES - 1), True), (b"x", True), (b"x", True)], 2),
        ([(b"x" * (LINGER_BYTES + 1), True), (b"x", True)], 1),
    ],
)
def test_a_body_that_nobody_wants_is_read_for_a_while_before_the_end(
    pieces: list[tuple[bytes, bool]], read: int
) -> None:
    log: list[str] = []
    left = list(pieces)

    async def receive() -> Message:
        log.append("read")
        body, more = left.pop(0)
        return {"type": "http.request", "body": body, "more_body": more}

    async def send(message: Message) -> None:
        log.append(f"{message['type'].rpartition('.')[2]} {message.get('more_body', False)}")

    reply = HttpReply(send, "/v1/models", receive=receive, request_id="req_1")
    asyncio.run(reply.refuse(RequestRefused(413, "too large", code="x", unread=True)))
    assert log == ["start False", "body True", *["read"] * read, "body False"]

"""Bodies as they come in."""

import asyncio

import pytest
from starlette.types import Message

from wholecall.proxy.config.schema import ServerLimits
from wholecall.proxy.http.client_request import BODY_CAME
from wholecall.proxy.http.middleware import BodyLimit, HttpReply

GONE = {"type": "http.disconnect"}


def piece(body: bytes, *, more: bool = True) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


def take(
    messages: list[Message], *, times: int, limits: ServerLimits | None = None
) -> tuple[list[Message], list[Message]]:
    """What the application receives, and what the client gets from the intake itself."""
    sent: list[Message] = []
    left = list(messages)

    async def receive() -> Message:
        if not left:
            await asyncio.Event().wait()
        return left.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    async def run() -> list[Message]:
        reply = HttpReply(send, "/v1/models", receive=receive, request_id="req_1")
        intake = BodyLimit({}, receive, limits=limits or ServerLimits(body_bytes=10), reply=reply)
        async with asyncio.timeout(20):
            return [await intake.receive() for _ in range(times)]

    return asyncio.run(run()), sent


def test_a_body_within_the_limit_passes_as_it_is() -> None:
    messages = [piece(b"12345"), piece(b"67890", more=False), dict(GONE)]
    assert take(messages, times=3) == (messages, [])


@pytest.mark.parametrize(
    "pieces",
    [
        [b"12345678901"],
        [b"1234567890", b"1"],
        [b"1"] * 11,
    ],
)
def test_a_body_beyond_it_is_answered_and_the_client_seems_gone(pieces: list[bytes]) -> None:
    messages = [piece(each) for each in pieces]
    received, sent = take([*messages, piece(b"", more=False)], times=len(pieces) + 2)
    assert received[: len(pieces) - 1] == messages[:-1]
    assert received[len(pieces) - 1 :] == [GONE] * 3
    assert sent[0]["status"] == 413
    assert [message["type"] for message in sent[1:]] == ["http.response.body"] * 2


def test_a_body_that_does_not_come_is_answered() -> None:
    limits = ServerLimits(body_seconds=0.01)
    received, sent = take([piece(b"1")], times=3, limits=limits)
    assert received == [piece(b"1"), GONE, GONE]
    assert sent[0]["status"] == 408
    assert (b"connection", b"close") in sent[0]["headers"]


def test_the_time_is_that_of_the_whole_body_and_not_of_what_comes_after() -> None:
    """The deadline has passed when the client hangs up, and it is no deadline any more."""
    hung_up = asyncio.Event

    async def run() -> Message:
        late = hung_up()
        messages = [piece(b"1", more=False)]

        async def receive() -> Message:
            if messages:
                return messages.pop()
            await late.wait()
            return dict(GONE)

        async def send(message: Message) -> None:
            raise AssertionError(message)

        reply = HttpReply(send, "/", receive=receive, request_id="req_1")
        intake = BodyLimit({}, receive, limits=ServerLimits(body_seconds=0.001), reply=reply)
        await intake.receive()
        asyncio.get_running_loop().call_later(0.01, late.set)
        return await intake.receive()

    assert asyncio.run(run()) == GONE


def test_a_client_that_hangs_up_in_between_is_gone() -> None:
    assert take([piece(b"1"), dict(GONE)], times=2) == ([piece(b"1"), GONE], [])


def test_a_body_that_has_come_is_not_timed() -> None:
    async def run() -> Message:
        late = asyncio.Event()
        asyncio.get_running_loop().call_later(0.01, late.set)

        async def receive() -> Message:
            await late.wait()  # the limit passes, but the server says that it is here
            return piece(b"1", more=False)

        async def send(message: Message) -> None:
            raise AssertionError(message)

        reply = HttpReply(send, "/", receive=receive, request_id="req_1")
        limits = ServerLimits(body_seconds=0.001)
        return await BodyLimit({BODY_CAME: True}, receive, limits=limits, reply=reply).receive()

    assert asyncio.run(run()) == piece(b"1", more=False)

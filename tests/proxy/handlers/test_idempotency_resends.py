"""Which requests are the same, and come again."""

from __future__ import annotations

import asyncio

import pytest
from starlette.datastructures import Headers

from proxy_server import in_loop
from wholecall.errors import UnreadableRequest
from wholecall.proxy.handlers.idempotency import MOST_KEPT, ResendStore, SharedStream
from wholecall.proxy.http.api_keys import Key
from wholecall.proxy.http.client_connection import ResponseBody
from wholecall.proxy.http.client_request import ClientRequest
from wholecall.proxy.routes.client_route import CHAT_CLIENT


def ask(body: bytes = b"{}", *, key: str = "", **headers: str) -> ClientRequest:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ClientRequest(
        client=CHAT_CLIENT,
        body=body,
        headers=Headers(named),
        request_id="r",
        key=Key(id=key, name="k"),
    )


def find(resends: ResendStore, asked: ClientRequest) -> SharedStream | None:
    kept = resends.find(asked)
    return None if kept is None else kept.answer


async def _over() -> SharedStream:
    async def nothing() -> None:
        """Nothing is written."""

    answer = SharedStream()
    await answer.start(nothing, break_off=nothing)
    return answer


@in_loop
async def test_equal_words_are_a_resend_while_they_are_being_answered() -> None:
    resends, live = ResendStore(), SharedStream()
    resends.keep(ask(), live)
    assert find(resends, ask()) is live
    assert find(resends, ask(b"[]")) is None
    assert find(resends, ask(x_wholecall_tools="look")) is None
    assert find(resends, ask(key="other")) is None
    assert find(resends, ask(x_stainless_retry_count="0")) is None
    assert find(resends, ask(x_stainless_retry_count="1")) is live


@in_loop
async def test_afterwards_only_a_resend_that_says_so_is_one() -> None:
    resends, over = ResendStore(), await _over()
    resends.keep(ask(), over)
    assert find(resends, ask()) is None
    assert find(resends, ask(x_stainless_retry_count="2")) is over


@pytest.mark.parametrize(
    ("status", "found"), [(200, False), (399, False), (400, True), (502, True)]
)
@in_loop
async def test_after_a_failure_equal_words_are_a_resend(status: int, found: bool) -> None:
    """The AI SDK resends without a count."""
    resends, failed = ResendStore(), SharedStream()

    async def fail() -> None:
        await failed.send_body(ResponseBody(status, b"{}"))

    await failed.start(fail, break_off=fail)
    resends.keep(ask(), failed)
    assert find(resends, ask()) is (failed if found else None)
    assert find(resends, ask(x_stainless_retry_count="0")) is None


@in_loop
async def test_an_idempotency_key_decides_alone() -> None:
    resends, over = ResendStore(), await _over()
    resends.keep(ask(Idempotency_Key="k"), over)
    assert find(resends, ask(Idempotency_Key="k", x_stainless_retry_count="0")) is over
    assert find(resends, ask(Idempotency_Key="other")) is None
    with pytest.raises(UnreadableRequest):
        resends.find(ask(b"[]", Idempotency_Key="k"))


@in_loop
async def test_what_is_forgotten_is_answered_anew() -> None:
    resends, first, second = ResendStore(seconds=0.0), SharedStream(), SharedStream()
    resends.keep(ask(), first)
    resends.keep(ask(b"[]"), second)
    resends.forget(first)
    assert find(resends, ask()) is None
    assert find(resends, ask(b"[]")) is second
    resends.forget_later(second)
    while resends.find(ask(b"[]")) is not None:
        await asyncio.sleep(0)


@in_loop
async def test_of_those_that_are_over_the_oldest_is_forgotten_first() -> None:
    resends, live, again = ResendStore(), SharedStream(), {"x_stainless_retry_count": "1"}
    resends.keep(ask(b"live", Idempotency_Key="live"), live)
    for number in range(MOST_KEPT + 1):
        over = await _over()
        resends.keep(ask(str(number).encode()), over)
        resends.forget_later(over)
    assert find(resends, ask(b"0", **again)) is None
    assert find(resends, ask(b"1", **again)) is not None
    # However many came after it: a resend of what is at work would run its tools twice.
    assert find(resends, ask(b"live")) is live
    assert find(resends, ask(b"live", Idempotency_Key="live")) is live


@in_loop
async def test_the_same_words_anew_are_not_forgotten_with_the_first() -> None:
    resends, first, second = ResendStore(), SharedStream(), SharedStream()
    resends.keep(ask(Idempotency_Key="one"), first)
    resends.keep(ask(Idempotency_Key="two"), second)
    resends.forget_later(first)
    resends.forget(first)
    assert find(resends, ask(Idempotency_Key="one")) is None
    assert find(resends, ask()) is second
    resends.forget(second)
    resends.forget_later(second)
    assert find(resends, ask()) is None
    # In the other order: what the second left does not trouble the first.
    resends.keep(ask(), first)
    resends.keep(ask(), second)
    resends.forget(second)
    resends.forget(first)
    assert find(resends, ask()) is None


@in_loop
async def test_finished_answers_are_kept_as_far_as_they_fit_and_the_last_in_any_case() -> None:
    resends, kept = ResendStore(most_bytes=10), list[SharedStream]()
    for word, frames in ((b"1", b"12345"), (b"2", b"12345"), (b"3", b"1"), (b"4", b"12345678901")):
        answer = await _over()
        answer.put(frames)
        kept.append(answer)
        resends.keep(ask(word, x_stainless_retry_count="1"), answer)
        resends.forget_later(answer)
        found = [find(resends, ask(each, x_stainless_retry_count="1")) for each in (b"1", b"2")]
        if word == b"2":
            assert found == kept
        if word == b"3":
            assert found == [None, kept[1]]
    found = [find(resends, ask(each, x_stainless_retry_count="1")) for each in (b"2", b"3", b"4")]
    assert found == [None, None, kept[3]]


@in_loop
async def test_an_answer_in_one_piece_counts_as_well() -> None:
    resends, whole, other = ResendStore(most_bytes=10), await _over(), await _over()
    await whole.send_body(ResponseBody(200, b"12345678901"))
    for word, answer in ((b"1", whole), (b"2", other)):
        resends.keep(ask(word), answer)
        resends.forget_later(answer)
    assert find(resends, ask(b"1", x_stainless_retry_count="1")) is None
    assert find(resends, ask(b"2", x_stainless_retry_count="1")) is other

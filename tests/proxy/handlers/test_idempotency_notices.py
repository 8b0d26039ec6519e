"""A tool that must not begin twice does not, whichever process a resend reaches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from proxy_server import in_loop
from wholecall.proxy.handlers.idempotency import KEPT_SECONDS, ToolNotice, ToolNotices
from wholecall.proxy.http.api_keys import Key
from wholecall.proxy.http.client_request import ClientRequest
from wholecall.proxy.http.refusals import RequestRefused
from wholecall.proxy.routes.client_route import CHAT_CLIENT
from wholecall.storage import BlobStore, StoreFailed

FIRST: dict[str, str] = {"x-stainless-retry-count": "0"}
SECOND: dict[str, str] = {"x-stainless-retry-count": "1"}
NAMED: dict[str, str] = {"idempotency-key": "ä" * 3000}


def asked(headers: dict[str, str], *, body: bytes = b"{}", key: str = "k") -> ClientRequest:
    return ClientRequest(
        client=CHAT_CLIENT, body=body, headers=headers, request_id="r", key=Key(id=key, name=key)
    )


@pytest.fixture
def blobs(tmp_path: Path) -> Iterator[BlobStore]:
    made = BlobStore(tmp_path / "state.sqlite")
    yield made
    made.close()


async def _put_up(notices: ToolNotices, request: ClientRequest) -> None:
    notice = notices.prepare(request)
    assert notice is not None
    await notice.put_up()


# what came first, what comes then, whether that is refused
ROWS: dict[str, tuple[ClientRequest, ClientRequest, bool]] = {
    "a resend of an SDK": (asked(FIRST), asked(SECOND), True),
    "the same key of a client": (asked(NAMED), asked(NAMED), True),
    "the same key, and a count": (asked({**FIRST, **NAMED}), asked(SECOND), True),
    "the same words anew": (asked(FIRST), asked(FIRST), False),
    "the same words without a word on it": (asked({}), asked({}), False),
    "other words": (asked(FIRST), asked(SECOND, body=b"[]"), False),
    "somebody else": (asked(NAMED), asked(NAMED, key="other"), False),
}


@pytest.mark.parametrize(("first", "then", "refused"), ROWS.values(), ids=ROWS)
@in_loop
async def test_row(
    first: ClientRequest, then: ClientRequest, *, refused: bool, blobs: BlobStore
) -> None:
    await _put_up(ToolNotices(blobs), first)
    other = ToolNotices(blobs)
    if not refused:
        await other.check(then)
        return
    with pytest.raises(RequestRefused) as caught:
        await other.check(then)
    assert (caught.value.status, caught.value.code) == (409, "broken_off")
    assert caught.value.headers == ((b"x-should-retry", b"false"),)


@in_loop
async def test_what_no_tool_began_for_may_come_again(blobs: BlobStore) -> None:
    assert ToolNotices(blobs).prepare(asked(FIRST)) is not None  # and it is not made
    await ToolNotices(blobs).check(asked(SECOND))


@in_loop
async def test_it_is_remembered_as_long_as_an_answer_is(blobs: BlobStore) -> None:
    await _put_up(ToolNotices(blobs, clock=lambda: 0.0), asked(FIRST))
    await ToolNotices(blobs, clock=lambda: KEPT_SECONDS).check(asked(SECOND))
    with pytest.raises(RequestRefused):
        await ToolNotices(blobs, clock=lambda: KEPT_SECONDS - 1).check(asked(SECOND))


@in_loop
async def test_one_process_needs_none() -> None:
    alone = ToolNotices()
    assert not alone.are_kept
    assert alone.prepare(asked(FIRST)) is None
    await alone.check(asked(SECOND))


def _fail() -> None:
    raise StoreFailed("full")


@in_loop
async def test_it_is_written_once_however_many_tools_begin() -> None:
    written: list[None] = []
    notice = ToolNotice(lambda: written.append(None))
    await asyncio.gather(notice.put_up(), notice.put_up(), notice.put_up())
    assert len(written) == 1


@in_loop
async def test_what_was_not_written_is_tried_again() -> None:
    steps: list[Callable[[], Any]] = [_fail, lambda: None]

    def write() -> None:
        steps.pop(0)()

    notice = ToolNotice(write)
    with pytest.raises(StoreFailed):
        await notice.put_up()
    await notice.put_up()
    assert not steps

"""Background responses.

Each has a task of its own, and its stream is stored: a client can retrieve the response as far as
it has come, or read its stream from any event on.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from wholecall.protocols.openai_responses.response import write_response
from wholecall.protocols.registry import RESPONSES, make_answer_id, make_encoder
from wholecall.protocols.response_base import Failure, ResponseHead, dump
from wholecall.proxy.handlers.idempotency import KeptAnswer, ResendStore, SharedStream
from wholecall.proxy.handlers.request_handler import RequestHandler
from wholecall.proxy.handlers.request_plan import RequestPlan
from wholecall.proxy.http.api_keys import Key
from wholecall.proxy.http.client_connection import ResponseSink
from wholecall.proxy.http.refusals import refuse_for_now
from wholecall.proxy.responses.response_store import ResponseStore, StoredResponse, find_response

MOST_BYTES = 16 * 1024 * 1024
"""Of the stream of one response."""
BUSY_SECONDS = 1.0
"""`Retry-After` if all slots are taken."""
BLANK = b"\n\n"
"""Between two events."""
NUMBER = re.compile(rb'"sequence_number":(\d+)')
"""Of an event. In the words of a model the quotation marks are escaped."""
_LEFT = Failure(
    message="this stream ends here, but the response goes on: ask for it again by its id",
    status=503,
    code="stream_left",
)
_CONFLICT = 409
_TOO_LATE = 504
_UNTOLD = {"code": "server_error", "message": "it ended without a word"}


class Background:
    """One response at work."""

    def __init__(self, head: ResponseHead) -> None:
        self.answer = SharedStream(most_bytes=MOST_BYTES, outlives=True)
        self.answer.farewell = self._say_farewell
        self._head = head
        self._handler: RequestHandler | None = None
        self._task: asyncio.Task[None] | None = None
        self._giving_up: asyncio.Task[None] | None = None
        self._cancelled = False
        self._final: bytes | None = None
        """The response as it ended, if it was reported."""

    def start(self, handler: RequestHandler, *, seconds: float) -> asyncio.Task[None]:
        """Let it be made, for not more than so many seconds."""
        self._handler = handler
        self._task = self.answer.start(partial(self._make, handler), break_off=handler.break_off)
        alarm = asyncio.get_running_loop().call_later(seconds, self._give_up, seconds)
        self._task.add_done_callback(lambda _: self._let_go(alarm))
        return self._task

    async def _make(self, handler: RequestHandler) -> None:
        try:
            await handler.run()
        finally:
            # Once: a stream is long, and a client that waits for its end polls often.
            ends = map(find_response, self.answer.look_back())
            self._final = next((end for end in ends if end), None)

    def _let_go(self, alarm: asyncio.TimerHandle) -> None:
        """Drop references to the request: the response is kept for long."""
        alarm.cancel()
        self._handler = self._task = None

    @property
    def is_over(self) -> bool:
        """True if it does not change any more."""
        return self._cancelled or self.answer.is_over

    @property
    def size(self) -> int:
        """Bytes of its stream, and of the response that it ended with."""
        return self.answer.size + len(self._final or b"")

    async def cancel(self) -> None:
        """Break it off. Tools that must not be broken off come to their end."""
        if not self.is_over:
            self._cancelled = True
            await self._stop("this response was cancelled", code="cancelled", status=_CONFLICT)

    def _give_up(self, seconds: float) -> None:
        why = f"the response was not over after {seconds:g} seconds"
        self._giving_up = asyncio.create_task(self._stop(why, code="timeout", status=_TOO_LATE))

    async def _stop(self, why: str, *, code: str, status: int) -> None:
        handler, task = self._handler, self._task
        if handler is not None and task is not None:
            request_id = handler.request_id
            failure = Failure(message=why, status=status, code=code, request_id=request_id)
            await handler.stop(failure)
            task.cancel()

    # ── Its state ───────────────────────────────────────────────────────────────────

    def show(self) -> bytes:
        """The response as it is now."""
        if self._cancelled:
            return self._write("cancelled")
        if not self.answer.is_over:
            return self._write("in_progress")
        return self._final or self._write("failed", error=_UNTOLD)

    def _write(self, status: str, **more: Any) -> bytes:
        return dump(write_response(self._head, [], status=status, **more))

    def _say_farewell(self, read: Iterator[bytes]) -> bytes:
        """Return an error event for readers when the server stops: their stream is cut.

        It has the number of the last event that was read: a client that resumes after it misses
        nothing and reads nothing twice.
        """
        said = make_encoder(RESPONSES, self._head).fail(_LEFT)
        return NUMBER.sub(b'"sequence_number":' + _find_number(read), said, count=1)


def _find_number(pieces: Iterator[bytes]) -> bytes:
    """Of the last event; the pieces come backwards."""
    for piece in pieces:
        for frame in reversed(piece.split(BLANK)):
            found = NUMBER.search(frame)
            if found is not None:
                return found[1]
    return b"0"


@dataclass(frozen=True, slots=True)
class BackgroundResponses:
    """Starts background responses, and stores them."""

    responses: ResponseStore
    resends: ResendStore
    hold: Callable[[asyncio.Task[Any]], None]
    """Keeps the task of a response that outlives its request."""

    def check_places(self, key: Key) -> None:
        """Refuse more work than there may be at a time."""
        live, most = self.responses.count_live, self.responses.settings.background
        if live() >= most:
            why = f"{most} responses are being made in the background, and there may be no more"
            raise refuse_for_now(503, why, code="overloaded", seconds=BUSY_SECONDS)
        if key.concurrent is not None and live(key.id) >= key.concurrent:
            why = f"this key has {key.concurrent} requests at a time, and they are under way"
            raise refuse_for_now(429, why, code="concurrency_limit_exceeded", seconds=BUSY_SECONDS)

    def start(
        self, plan: RequestPlan, make_handler: Callable[[RequestPlan, ResponseSink], RequestHandler]
    ) -> KeptAnswer:
        """Start a response. One that was started is not started again, stored or not."""
        request, params = plan.request, plan.params
        head = ResponseHead(
            id=make_answer_id(request.client.protocol),
            model=plan.route.name,
            created=int(time.time()),
            rest=plan.echo,
            clock=time.time,
        )
        background = Background(head)
        held = StoredResponse(
            id=head.id,
            key_id=request.key.id,
            items=params.items if params is not None else b"[]",
            work=background,
        )
        handler = make_handler(msgspec.structs.replace(plan, head=head), background.answer)
        self.responses.put(held)
        kept = self.resends.keep(request, background.answer, show=background.show)
        task = background.start(handler, seconds=self.responses.settings.background_seconds)
        task.add_done_callback(lambda _: self._settle(held, background.answer))
        self.hold(task)
        return kept

    def _settle(self, held: StoredResponse, answer: SharedStream) -> None:
        self.responses.settle(held)
        self.resends.forget_later(answer)

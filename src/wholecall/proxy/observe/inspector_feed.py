"""The inspector in the proxy: the tap that feeds it, its routes, and approvals."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.routing import Route

from wholecall.agent.approvals import Approval, Approvals
from wholecall.agent.run_events import ToolEnded
from wholecall.errors import UpstreamError
from wholecall.events import JSON, Call, Grew, Reasoning, Rejected, Released, Text
from wholecall.inspector.approval_queue import ApprovalQueue, DecidedCall, make_approval_routes
from wholecall.inspector.page_encoder import ENCODERS as RUN_ENCODERS
from wholecall.inspector.page_encoder import (
    Encoders,
    Fields,
    Quoting,
    SecretFilter,
    make_encoder,
    omit,
)
from wholecall.inspector.routes import make_routes
from wholecall.inspector.run_record import About, RecordedForm, make_id
from wholecall.inspector.run_store import RunStore
from wholecall.inspector.tap import InspectorTap, LiveRuns, RunWriter
from wholecall.journal.journal_rows import ANSWERS, APPROVALS, CANCEL
from wholecall.journal.run_journal import JournalStore, RunJournal
from wholecall.proxy.config.schema import Config
from wholecall.proxy.http.client_request import CALLER
from wholecall.proxy.observe.taps import (
    AnswerBegan,
    ChunksBegan,
    Exchange,
    ExchangeEnded,
    Reading,
    Reads,
    TakeChunk,
    UpstreamAnswered,
    UpstreamAsked,
    UpstreamFailed,
    UpstreamRetried,
)
from wholecall.storage import StoreFailed
from wholecall.tools.tool import Elicitation

_LOG = logging.getLogger(__name__)
_NOBODY = Approval(False, "nobody can be asked here")
_FAILED = Approval(False, "nobody could be asked")
PACE = 0.25
"""Seconds between two looks for an answer."""
_MARGIN = 15.0
"""Seconds after which a desk is given up. The end of the wait is its own business: it knows of
answers that came at the last moment."""


class ApprovalRequests:
    """Makes the approvals of each run."""

    def __init__(self, *, is_open: bool = False, seconds: float = 0.0) -> None:
        self._is_open = is_open
        """True if there is a page on which people answer."""
        self.seconds = seconds
        """The longest wait for an answer."""

    def open(self, journal: RunJournal | None) -> Approvals:
        """The approvals of one run."""
        if not self._is_open or journal is None:
            return Approvals(_deny)
        until = partial(_find_end, self.seconds)

        async def ask(call: Call) -> Approval:
            try:
                row = await journal.await_approval(call, until=until(), pace=PACE)
            except StoreFailed as error:
                _LOG.error("request %s: a call was denied: %s", journal.request_id, error.why)
                return _FAILED
            return Approval(row.decision == APPROVALS[0], row.why)

        one_by_one = asyncio.Lock()

        async def elicit(call: Call, asked: Elicitation) -> Mapping[str, JSON] | None:
            async with one_by_one:
                row = await journal.await_answer(call, asked, until=until(), pace=PACE)
            if row.decision == CANCEL:
                raise TimeoutError(row.why)
            return row.content or {} if row.decision == ANSWERS[0] else None

        return Approvals(ask, elicitor=elicit, seconds=self.seconds + _MARGIN)


def _find_end(seconds: float) -> float:
    return time.time() + seconds


async def _deny(_call: Call) -> Approval:
    return _NOBODY


# The inspector in the proxy: a tap that tells it of exchanges, and its routes.


STORE_FILE = "wholecall-inspector.sqlite"
"""Beside the file of the keys."""
_DAY_SECONDS = 24 * 3600.0
_MEGABYTE = 1024 * 1024
# Failures whose words quote a client or a model.
_SERVER_FAULT = 500
_BAD_CALL = "bad_call"


class ApprovalGiven(NamedTuple):
    """A person answered for a pending call."""

    key_id: str
    """Whose answer it is; empty where no key is needed."""
    request_id: str
    """The request that brought the answer."""
    run_request_id: str
    """The request that began the waiting run."""
    tool: str
    decision: str


class InspectorFeed:
    """A tap: it hands all that happens to the inspector."""

    def __init__(
        self,
        config: Config,
        *,
        hides: SecretFilter,
        find_store: Callable[[], JournalStore | None] = lambda: None,
        on_approval: Callable[[ApprovalGiven], None] = lambda _: None,
    ) -> None:
        self._on_approval = on_approval
        self._quoting = Quoting(config.inspector.bodies, hides, names={})
        path = Path(config.keys.path).with_name(STORE_FILE)
        store = RunStore(
            path,
            seconds=config.inspector.days * _DAY_SECONDS,
            most_bytes=config.inspector.megabytes * _MEGABYTE,
        )
        self._tap = InspectorTap(store, LiveRuns(), encoders=ENCODERS)
        self._desk = ApprovalQueue(find_store, quoting=lambda: self._quoting)
        self.approving = ApprovalRequests(is_open=True, seconds=config.inspector.approval_seconds)
        """The approvals of runs."""

    def make_routes(self) -> list[Route]:
        """The page and its data. Who comes with a key sees the runs of this key."""
        tap = self._tap
        approvals = make_approval_routes(
            self._desk, owner=_find_owner, may_decide=_may_decide, on_answer=self._take_approval
        )
        return make_routes(tap.store, tap.live, approvals=approvals, owner=_find_owner)

    def _take_approval(self, request: Request, answered: DecidedCall) -> None:
        caller = request.scope[CALLER]
        self._on_approval(
            ApprovalGiven(
                key_id=caller.key.id,
                request_id=caller.request_id,
                run_request_id=answered.request_id,
                tool=answered.name,
                decision=answered.decision,
            )
        )

    def reload(self, config: Config) -> None:
        """Go by other settings, from the next run on."""
        self._quoting = self._quoting._replace(bodies=config.inspector.bodies, names={})
        self.approving.seconds = config.inspector.approval_seconds

    def forget_names(self) -> None:
        """Clear the cache of names after the secrets changed."""
        if self._quoting.names:
            self._quoting.names.clear()

    async def close(self) -> None:
        """Write down what is left."""
        await self._tap.close()
        self._tap.store.close()

    def open(self, exchange: Exchange) -> Reading:
        """A run begins."""
        quoting, describe = self._quoting, partial(_describe, exchange)
        reads = _READS_WITH_BODIES if quoting.bodies else _READS
        return self._tap.open(describe, quoting), reads


def _describe(exchange: Exchange, quoting: Quoting) -> About:
    began = time.time() - (time.perf_counter() - exchange.started)
    head = _encode_exchange(exchange, quoting)
    head |= {"id": make_id(began), "began": began, "bodies": quoting.bodies}
    return About(head, exchange.key_id, exchange.started)


# ── What is reported of an exchange ─────────────────────────────────────────────────


def _describe_error(quoting: Quoting, error: UpstreamError) -> dict[str, object]:
    words = {"code": quoting.clean(error.code), "message": quoting.clean(str(error))}
    return {"status": error.status, **words}


def _encode_end(event: ExchangeEnded, quoting: Quoting) -> Fields:
    quotes = event.status < _SERVER_FAULT or event.code == _BAD_CALL
    return (_encode_quoting_end if quotes else _encode_plain_end)(event, quoting)


_encode_exchange = make_encoder(Exchange, path=omit)
_encode_quoting_end = make_encoder(ExchangeEnded)
_encode_plain_end = make_encoder(ExchangeEnded, message=Quoting.clean)
ENCODERS: Encoders = {
    **RUN_ENCODERS,
    UpstreamRetried: make_encoder(UpstreamRetried),
    UpstreamAnswered: make_encoder(UpstreamAnswered),
    UpstreamFailed: make_encoder(UpstreamFailed, error=_describe_error),
    AnswerBegan: make_encoder(AnswerBegan),
    ExchangeEnded: _encode_end,
}
_LONG = (Released, Rejected, ToolEnded)
"""Events that hold arguments and results, which are dropped early if bodies are not kept."""


def _ask(writer: RunWriter, event: UpstreamAsked) -> None:
    writer.ask(event.request)


def _listen(writer: RunWriter, event: ChunksBegan) -> TakeChunk:
    return writer.listen(RecordedForm(event.protocol, event.streamed))


# Of other events nothing is made at once: that has time, and is done elsewhere.
_TAKES = {
    **dict.fromkeys(ENCODERS, RunWriter.take),
    UpstreamAsked: _ask,
    ExchangeEnded: RunWriter.end,
}
_READS = Reads({**_TAKES, **dict.fromkeys(_LONG, RunWriter.encode)})
_READS_WITH_BODIES = Reads(
    {**_TAKES, **dict.fromkeys((Text, Grew, Reasoning), RunWriter.hear), ChunksBegan: _listen}
)


def _may_decide(request: Request) -> bool:
    return bool(request.scope[CALLER].key.may_approve)


def _find_owner(request: Request) -> str | None:
    """Return the key of the viewer; None for those who need no key."""
    return request.scope[CALLER].key.id or None

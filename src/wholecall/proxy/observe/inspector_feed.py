"""The inspector in the proxy: the tap that feeds it, its routes, and approvals."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.routing import Route

from wholecall.agent.approvals import Approval, Approvals
from wholecall.agent.run_events import ToolEnded
from wholecall.events import Call, Grew, Reasoning, Rejected, Released, Text
from wholecall.inspector import page_events
from wholecall.inspector.approval_queue import (
    AnsweredApproval,
    ApprovalQueue,
    WaitingCall,
    make_approval_routes,
)
from wholecall.inspector.live_runs import LiveRuns
from wholecall.inspector.page_encoder import ENCODERS, Encoders, Hides, Plain, Quoting, tell_seconds
from wholecall.inspector.page_events import PageEvent
from wholecall.inspector.routes import make_routes
from wholecall.inspector.run_record import About, make_id
from wholecall.inspector.run_store import RunStore
from wholecall.inspector.tap import BodyWriter, BriefWriter, InspectorTap
from wholecall.proxy.config.schema import Config
from wholecall.proxy.http.client_request import CALLER
from wholecall.proxy.observe.taps import (
    AnswerBegan,
    ChunksBegan,
    Exchange,
    ExchangeEnded,
    Reading,
    Reads,
    UpstreamAnswered,
    UpstreamAsked,
    UpstreamFailed,
    UpstreamRetried,
)
from wholecall.storage import StoreFailed

_LOG = logging.getLogger(__name__)
_NOBODY = Approval(False, "nobody can be asked here")
_FAILED = Approval(False, "nobody could be asked")
_MARGIN = 15.0
"""Seconds after which a desk is given up. The end of the wait is its own business: it knows of
answers that came at the last moment."""


class ApprovalRequester(NamedTuple):
    """A run that may have to ask."""

    key_id: str
    request_id: str
    model: str


class ApprovalRequests:
    """Makes the approvals of each run."""

    def __init__(
        self,
        desk: ApprovalQueue | None = None,
        *,
        quoting: Callable[[], Quoting] = lambda: Quoting(False, Plain()),
        seconds: float = 0.0,
    ) -> None:
        self._desk = desk
        self._quoting = quoting
        self.seconds = seconds
        """The longest wait for an answer."""

    def open(self, asker: ApprovalRequester) -> Approvals:
        """The approvals of one run."""
        if self._desk is None:
            return Approvals(_deny)
        desk = self._desk

        async def ask(call: Call) -> Approval:
            try:
                return await desk.wait_for(self._describe(call, asker))
            except StoreFailed as error:
                _LOG.error("request %s: a call was denied: %s", asker.request_id, error.why)
                return _FAILED

        return Approvals(ask, seconds=self.seconds + _MARGIN)

    def _describe(self, call: Call, asker: ApprovalRequester) -> WaitingCall:
        quoting = self._quoting()
        return WaitingCall(
            key=asker.key_id,
            request_id=asker.request_id,
            model=quoting.name(asker.model),
            call_id=quoting.clean(call.id),
            name=quoting.name(call.name),
            arguments=quoting.value(dict(call.arguments)),
            seconds=self.seconds,
        )


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
    approved: bool


class InspectorFeed:
    """A tap: it hands all that happens to the inspector."""

    def __init__(
        self,
        config: Config,
        *,
        hides: Hides,
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
        self._tap = InspectorTap(store, LiveRuns(), encoders=_ENCODERS)
        self._desk = ApprovalQueue(path)
        self.approving = ApprovalRequests(
            self._desk,
            quoting=lambda: self._quoting,
            seconds=config.inspector.approval_seconds,
        )
        """The approvals of runs."""

    def make_routes(self) -> list[Route]:
        """The page and its data. Who comes with a key sees the runs of this key."""
        tap = self._tap
        approvals = make_approval_routes(
            self._desk, owner=_find_owner, on_answer=self._take_approval
        )
        return make_routes(tap.store, tap.live, approvals=approvals, owner=_find_owner)

    def _take_approval(self, request: Request, answered: AnsweredApproval) -> None:
        caller = request.scope[CALLER]
        self._on_approval(
            ApprovalGiven(
                key_id=caller.key.id,
                request_id=caller.request_id,
                run_request_id=answered.request_id,
                tool=answered.name,
                approved=answered.approved,
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
        await self._desk.close()
        await self._tap.close()
        self._tap.store.close()

    def open(self, exchange: Exchange) -> Reading:
        """A run begins."""
        quoting, describe = self._quoting, partial(_describe, exchange)
        if quoting.bodies:
            return self._tap.open(describe, quoting), _READS_WITH_BODIES
        return self._tap.open_briefly(describe, quoting), _READS


def _describe(exchange: Exchange, quoting: Quoting) -> About:
    began = time.time() - (time.perf_counter() - exchange.started)
    head = page_events.PageRun(
        id=make_id(began),
        began=began,
        request_id=exchange.request_id,
        model=quoting.name(exchange.model),
        protocol=exchange.protocol,
        upstream=exchange.upstream,
        upstream_model=quoting.name(exchange.upstream_model),
        way=exchange.way,
        stream=exchange.stream,
        bodies=quoting.bodies,
        n=0,
        at=0.0,
    )
    return About(head, exchange.key_id, exchange.started)


# ── What is reported of an exchange ─────────────────────────────────────────────────


def _tell_retried(event: UpstreamRetried, _: Quoting) -> PageEvent:
    return page_events.PageUpstreamRetried(tell_seconds(event.delay))


def _tell_answered(event: UpstreamAnswered, _: Quoting) -> PageEvent:
    return page_events.PageAnswered(tell_seconds(event.seconds))


def _tell_failed(event: UpstreamFailed, quoting: Quoting) -> PageEvent:
    error = event.error
    return page_events.PageUpstreamFailed(
        error.status, quoting.clean(error.code), quoting.clean(str(error))
    )


def _tell_began(event: AnswerBegan, _: Quoting) -> PageEvent:
    return page_events.PageBegan(tell_seconds(event.seconds), tell_seconds(event.added))


def _tell_ended(event: ExchangeEnded, quoting: Quoting) -> PageEvent:
    quotes = event.status < _SERVER_FAULT or event.code == _BAD_CALL
    return page_events.PageOver(
        fate=event.fate.value,
        status=event.status,
        seconds=tell_seconds(event.seconds),
        code=quoting.clean(event.code),
        message=quoting.clean(event.message) if quoting.bodies or not quotes else "",
    )


_ENCODERS: Encoders = {
    **ENCODERS,
    UpstreamRetried: _tell_retried,
    UpstreamAnswered: _tell_answered,
    UpstreamFailed: _tell_failed,
    AnswerBegan: _tell_began,
    ExchangeEnded: _tell_ended,
}
_LONG = (Released, Rejected, ToolEnded)
"""Events that hold arguments and results, which are dropped early if bodies are not kept."""
# Of others nothing is made at once: that has time, and is done elsewhere.
_READS = Reads(
    {
        **dict.fromkeys(_ENCODERS, BriefWriter.take),
        **dict.fromkeys(_LONG, BriefWriter.tell),
        UpstreamAsked: BriefWriter.ask,
        ExchangeEnded: BriefWriter.end,
    }
)
_READS_WITH_BODIES = Reads(
    {
        **dict.fromkeys(_ENCODERS, BodyWriter.take),
        UpstreamAsked: BodyWriter.ask,
        ExchangeEnded: BodyWriter.end,
        **dict.fromkeys((Text, Grew, Reasoning), BodyWriter.hear),
        ChunksBegan: BodyWriter.listen,
    }
)


def _find_owner(request: Request) -> str | None:
    """Return the key of the viewer; None for those who need no key."""
    return request.scope[CALLER].key.id or None

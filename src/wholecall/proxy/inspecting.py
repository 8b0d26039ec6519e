"""The inspector in the proxy: a tap that tells it of exchanges, and its routes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.routing import Route

from wholecall.core.values import Grew, Reasoning, Text
from wholecall.inspector.approval_routes import make_approval_routes
from wholecall.inspector.desk import Answered, Desk
from wholecall.inspector.encoding import SHOWN, Hides, Quoting
from wholecall.inspector.live import Live
from wholecall.inspector.record import About, Asked, Note
from wholecall.inspector.routes import make_routes
from wholecall.inspector.store import Store
from wholecall.inspector.tap import InspectorTap, Writer
from wholecall.proxy.approving import Approving
from wholecall.proxy.config.settings import Config
from wholecall.proxy.edge import CALLER
from wholecall.proxy.taps import (
    AnswerBegan,
    ChunkCame,
    Exchange,
    ExchangeEnded,
    Readers,
    UpstreamAnswered,
    UpstreamAsked,
    UpstreamFailed,
    UpstreamRetried,
)

STORE_FILE = "wholecall-inspector.sqlite"
"""Beside the file of the keys."""
_DAY_SECONDS = 24 * 3600.0
_MEGABYTE = 1024 * 1024
# Failures whose words quote a client or a model.
_SERVER_FAULT = 500
_BAD_CALL = "bad_call"


class ApprovalGiven(NamedTuple):
    """Somebody answered for a call that waited."""

    key_id: str
    """Whose answer it is; empty where no key is needed."""
    request_id: str
    """That brought the answer."""
    run_request_id: str
    """That began the run which waited."""
    tool: str
    approved: bool


class Inspecting:
    """A tap: it hands all that happens to the inspector."""

    def __init__(
        self,
        config: Config,
        *,
        hides: Hides,
        on_approval: Callable[[ApprovalGiven], None] = lambda _: None,
    ) -> None:
        self._on_approval = on_approval
        self._bodies = config.inspector.bodies
        self._hides = hides
        path = Path(config.keys.path).with_name(STORE_FILE)
        store = Store(
            path,
            seconds=config.inspector.days * _DAY_SECONDS,
            most_bytes=config.inspector.megabytes * _MEGABYTE,
        )
        self._tap = InspectorTap(store, Live(), bodies=lambda: self._bodies, hides=hides)
        self._desk = Desk(path)
        self.approving = Approving(
            self._desk,
            quoting=lambda: Quoting(self._bodies, self._hides),
            seconds=config.inspector.approval_seconds,
        )
        """Where runs ask for approval."""

    def make_routes(self) -> list[Route]:
        """The page and its data. Who comes with a key sees the runs of this key."""
        tap = self._tap
        approvals = make_approval_routes(
            self._desk, owner=_find_owner, on_answer=self._take_approval
        )
        return make_routes(tap.store, tap.live, approvals=approvals, owner=_find_owner)

    def _take_approval(self, request: Request, answered: Answered) -> None:
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
        self._bodies = config.inspector.bodies
        self.approving.seconds = config.inspector.approval_seconds

    async def close(self) -> None:
        """Write down what is left."""
        await self._desk.close()
        await self._tap.close()
        self._tap.store.close()

    def open(self, exchange: Exchange) -> Readers:
        """A run begins."""
        about = About(
            request_id=exchange.request_id,
            model=exchange.model,
            key=exchange.key_id,
            protocol=exchange.protocol,
            upstream=exchange.upstream,
            upstream_model=exchange.upstream_model,
            way=exchange.way,
            stream=exchange.stream,
            started=exchange.started,
        )
        return _Telling(self._tap.open(about)).readers()


class _Telling:
    """Tells of one exchange."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def readers(self) -> Readers:
        writer = self._writer
        readers: dict[type, Callable[[Any], None]] = dict.fromkeys(SHOWN, writer.take)
        readers |= {
            UpstreamAsked: self._ask,
            UpstreamRetried: self._retry,
            UpstreamAnswered: self._answer,
            UpstreamFailed: self._fail,
            AnswerBegan: self._begin,
            ExchangeEnded: self._end,
        }
        if writer.bodies:
            readers |= {
                Grew: writer.add,
                Text: writer.add,
                Reasoning: writer.add,
                ChunkCame: writer.receive,
            }
        return readers

    def _ask(self, event: UpstreamAsked) -> None:
        self._writer.ask(Asked(event.request))

    def _retry(self, event: UpstreamRetried) -> None:
        self._note("upstream_retried", delay=round(event.delay, 3))

    def _answer(self, event: UpstreamAnswered) -> None:
        self._note("answered", seconds=round(event.seconds, 6))

    def _fail(self, event: UpstreamFailed) -> None:
        error = event.error
        self._note("upstream_failed", status=error.status, code=error.code, message=str(error))

    def _begin(self, event: AnswerBegan) -> None:
        self._note("began", seconds=round(event.seconds, 6), added=round(event.added, 6))

    def _end(self, event: ExchangeEnded) -> None:
        quotes = event.status < _SERVER_FAULT or event.code == _BAD_CALL
        self._note(
            "over",
            fate=event.fate.value,
            status=event.status,
            code=event.code,
            message=event.message if self._writer.bodies or not quotes else "",
            seconds=round(event.seconds, 6),
        )

    def _note(self, kind: str, **fields: object) -> None:
        self._writer.take(Note({"kind": kind, **fields}))


def _find_owner(request: Request) -> str | None:
    """The key by which somebody was let in; None for those who needed no key."""
    return request.scope[CALLER].key.id or None

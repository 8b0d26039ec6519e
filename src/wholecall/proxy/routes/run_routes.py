"""Durable runs, for their operators.

    GET  /v1/runs?status=waiting                the runs of this key, the latest first
    GET  /v1/runs/{id}                          one of them, with its calls
    POST /v1/runs/{id}/cancel                   ends it
    POST /v1/runs/{id}/resume                   lets it go on if it waits
    POST /v1/runs/{id}/calls/{call}/decision    decides about a call

A key sees and changes its own runs only, and decides about calls only if it has the right to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from wholecall.inspector.approval_queue import comes_from_us
from wholecall.journal.journal_rows import DecisionRow
from wholecall.journal.run_journal import JournalStore
from wholecall.journal.run_operations import (
    FILTERS,
    Fields,
    Hide,
    OperationRefused,
    decide,
    describe_run,
    describe_whole,
    find_run,
    list_runs,
    release,
)
from wholecall.proxy.handlers.background import BackgroundResponses
from wholecall.proxy.http.client_request import CALLER, Caller
from wholecall.proxy.http.refusals import RequestRefused
from wholecall.proxy.observe.inspector_feed import ApprovalGiven

PATH = "/v1/runs"
_USUAL = 20
_MOST = 100
_STATUSES: Mapping[str, int] = {
    "run_not_found": 404,
    "call_not_found": 404,
    "invalid_decision": 400,
    "conflict": 409,
}
_NOT_FOUND = "there is no run of this id: it never was, is not yours, or is not kept any more"
_MAY_NOT = (
    "this key may not decide about calls: make one with `wholecall keys create --may-approve`"
)


class _Decision(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a decision."""

    decision: str
    why: str = ""
    """For the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRoutes:
    """Answers the requests of operators."""

    background: BackgroundResponses
    hide: Hide
    on_decision: Callable[[ApprovalGiven], None]

    def make_routes(self) -> list[Route]:
        """The routes of this module."""
        one = f"{PATH}/{{id}}"
        posts = {"cancel": self.cancel, "resume": self.resume}
        posts["calls/{call:path}/decision"] = self.decide
        return [
            Route(PATH, _refusing(self.list_runs)),
            *(
                Route(f"{one}/{path}", _refusing(each), methods=["POST"])
                for path, each in posts.items()
            ),
            Route(one, _refusing(self.show)),
        ]

    async def list_runs(self, request: Request) -> Response:
        """The runs of a key."""
        wanted, limit = request.query_params.get("status", ""), _read_limit(request)
        if wanted and wanted not in FILTERS:
            why = f"status: it is one of {', '.join(FILTERS)}"
            raise RequestRefused(400, why, code="invalid_value")
        store = self._find_store()
        found = (
            []
            if store is None
            else await list_runs(store, wanted, key_id=_read_key(request), most=limit)
        )
        return _write({"object": "list", "data": [describe_run(run) for run in found]})

    async def show(self, request: Request) -> Response:
        """One run, with its calls."""
        return await self._show(request)

    async def cancel(self, request: Request) -> Response:
        """End a run. A tool that must not be broken off comes to its end."""
        store, id = self._demand_store(), request.path_params["id"]
        await find_run(store, id, key_id=_read_key(request))
        await self.background.cancel(id)
        return await self._show(request)

    async def resume(self, request: Request) -> Response:
        """Let a run that waits go on."""
        store, id = self._demand_store(), request.path_params["id"]
        await find_run(store, id, key_id=_read_key(request))
        await release(store, id)
        return await self._show(request)

    async def decide(self, request: Request) -> Response:
        """Decide about a call."""
        caller: Caller = request.scope[CALLER]
        if not comes_from_us(request):
            raise RequestRefused(403, "a website may not decide about calls", code="forbidden")
        if not caller.key.may_approve:
            raise RequestRefused(403, _MAY_NOT, code="forbidden")
        given = await _read_decision(request)
        store, id = self._demand_store(), request.path_params["id"]
        await find_run(store, id, key_id=caller.key.id)
        row = DecisionRow(given.decision, given.why)
        call = request.path_params["call"]
        question = await decide(store, id, call_id=call, given=row, key_id=caller.key.id)
        self.on_decision(
            ApprovalGiven(
                key_id=caller.key.id,
                request_id=caller.request_id,
                run_request_id=question.request_id,
                tool=question.call.name,
                decision=given.decision,
            )
        )
        return await self._show(request)

    async def _show(self, request: Request) -> Response:
        found = await find_run(
            self._demand_store(), request.path_params["id"], key_id=_read_key(request)
        )
        return _write(await asyncio.to_thread(describe_whole, found, hide=self.hide))

    def _find_store(self) -> JournalStore | None:
        return self.background.runs.find_store()

    def _demand_store(self) -> JournalStore:
        store = self._find_store()
        if store is None:
            raise RequestRefused(404, _NOT_FOUND, code="run_not_found")
        return store


def _refusing(
    answer: Callable[[Request], Awaitable[Response]],
) -> Callable[[Request], Awaitable[Response]]:
    """Answer with an HTTP status where an operation is refused."""

    async def answer_or_refuse(request: Request) -> Response:
        try:
            return await answer(request)
        except OperationRefused as error:
            raise RequestRefused(_STATUSES[error.code], str(error), code=error.code) from error

    return answer_or_refuse


async def _read_decision(request: Request) -> _Decision:
    # A form of another website cannot send this type without being asked about first.
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise RequestRefused(415, "a decision is sent as application/json", code="invalid_value")
    try:
        return msgspec.json.decode(await request.body(), type=_Decision)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        why = f'a decision is {{"decision": "approve", "why": "…"}}: {error}'
        raise RequestRefused(400, why, code="invalid_decision") from error


def _read_key(request: Request) -> str:
    caller: Caller = request.scope[CALLER]
    return caller.key.id


def _read_limit(request: Request) -> int:
    given = request.query_params.get("limit", str(_USUAL))
    if not given.isdecimal() or len(given) > len(str(_MOST)) or not 1 <= int(given) <= _MOST:
        why = f"limit: it is no whole number from 1 to {_MOST}"
        raise RequestRefused(400, why, code="invalid_value")
    return int(given)


def _write(fields: Fields) -> Response:
    return JSONResponse(fields, headers={"cache-control": "no-store"})

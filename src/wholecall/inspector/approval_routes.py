"""The calls that wait for approval, over HTTP.

Who sees a run may answer for its calls. An answer changes what happens, so it is taken only from
pages of the proxy's own origin and from programs: whatever a browser says to come from another
website is refused, even from websites that may read.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from wholecall.files.database import CODE, StoreFailed
from wholecall.inspector.desk import Answered, Desk
from wholecall.runs.approvals import Approval

_LOG = logging.getLogger(__name__)
PATH = "/inspector/api/approvals"
FindOwner: TypeAlias = Callable[[Request], str | None]
"""Whose runs may be seen by who sent a request: those of one key, or (None) all."""
_Responder: TypeAlias = Callable[[Request], Awaitable[Response]]
"""The handler of a route."""
OnAnswer: TypeAlias = Callable[[Request, Answered], None]
"""Called with each answer that counts, and with the request that brought it."""
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}
_JSON = "application/json"
_OURS = frozenset({"same-origin", "none"})
_GONE = (
    "no such call waits: it was answered, its time is over, its run has ended, or it belongs to "
    "another key"
)


class Answer(msgspec.Struct, forbid_unknown_fields=True):
    """A person's answer about a call."""

    approved: bool
    why: str = ""
    """For the model."""


def make_approval_routes(desk: Desk, *, owner: FindOwner, on_answer: OnAnswer) -> list[Route]:
    """Return the routes that list and answer pending calls."""
    routes = _Approvals(desk, owner, on_answer=on_answer)
    return [
        Route(PATH, guard(routes.list_waiting)),
        Route(f"{PATH}/{{id}}", guard(routes.answer), methods=["POST"]),
    ]


class _Approvals:
    def __init__(self, desk: Desk, owner: FindOwner, *, on_answer: OnAnswer) -> None:
        self._desk = desk
        self._owner = owner
        self._on_answer = on_answer

    async def list_waiting(self, request: Request) -> Response:
        """The calls that wait, in all processes of the proxy."""
        waiting = await self._desk.list_waiting(self._owner(request))
        return JSONResponse({"waiting": waiting}, headers=HEADERS)

    async def answer(self, request: Request) -> Response:
        """Approve or deny one of them."""
        if not _comes_from_us(request):
            return refuse(403, "only the proxy's own page may answer")
        # A form of another website cannot send this type without being asked about first.
        if request.headers.get("content-type", "").partition(";")[0].strip() != _JSON:
            return refuse(415, f"an answer is sent as {_JSON}")
        try:
            given = msgspec.json.decode(await request.body(), type=Answer)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return refuse(400, f'an answer is {{"approved": true}} or false, and why: {error}')
        id, approval = request.path_params["id"], Approval(given.approved, given.why)
        answered = await self._desk.answer(id, approval, owner=self._owner(request))
        if answered is None:
            return refuse(404, _GONE)
        self._on_answer(request, answered)
        return JSONResponse({"approved": given.approved}, headers=HEADERS)


def _comes_from_us(request: Request) -> bool:
    """Return True if our own page or a program sent it.

    Browsers omit `Sec-Fetch-Site` on plain HTTP, except to loopback; they always send `Origin`.
    """
    site, origin = request.headers.get("sec-fetch-site", "none"), request.headers.get("origin")
    host = request.headers.get("host", "")
    return site in _OURS and origin in {None, f"http://{host}", f"https://{host}"}


def guard(answer: _Responder) -> _Responder:
    """The same answers; if the file fails, one that says so. The log says which file it is."""

    @wraps(answer)
    async def answer_or_refuse(request: Request) -> Response:
        try:
            return await answer(request)
        except StoreFailed as error:
            _LOG.error("%s", error.why)
            return refuse(503, str(error), code=CODE)

    return answer_or_refuse


def refuse(status: int, message: str, *, code: str = "") -> Response:
    """Say why not."""
    error = {"message": message, "code": code} if code else {"message": message}
    return JSONResponse({"error": error}, status_code=status, headers=HEADERS)

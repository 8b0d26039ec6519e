"""Calls that a person has to decide about, and what their tools ask the user: those in the journal
of runs, and their HTTP routes."""

from __future__ import annotations

import logging
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from functools import wraps
from typing import Any, NamedTuple, TypeAlias

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from wholecall.inspector.page_encoder import Fields, Quoting
from wholecall.journal.journal_rows import ANSWERS, APPROVALS, OUTCOMES, DecisionRow
from wholecall.journal.run_journal import JournalStore
from wholecall.journal.run_operations import OpenQuestion, OperationRefused, decide, list_questions
from wholecall.storage import CODE, StoreFailed

_SEPARATOR = "\0"


class DecidedCall(NamedTuple):
    """A call that was decided about."""

    request_id: str
    """Of its run."""
    name: str
    decision: str


class ApprovalQueue:
    """The calls that wait for a person, in all processes that share the journal."""

    def __init__(
        self, find_store: Callable[[], JournalStore | None], *, quoting: Callable[[], Quoting]
    ) -> None:
        """`find_store` returns None where no run was begun yet."""
        self._find_store = find_store
        self._quoting = quoting

    async def list_waiting(self, owner: str | None) -> Sequence[Fields]:
        """Return the calls that wait: those of one key, or (None) all."""
        store = self._find_store()
        found = [] if store is None else await list_questions(store, key_id=owner)
        return [self._describe(question) for question in found]

    async def answer(self, id: str, given: DecisionRow, *, owner: str | None) -> DecidedCall | None:
        """Decide about a call; None if no such call waits (any more)."""
        store = self._find_store()
        run, _, call = _read_id(id).partition(_SEPARATOR)
        if store is None:
            return None
        try:
            question = await decide(store, run, call_id=call, given=given, key_id=owner)
        except OperationRefused as error:
            if error.code == "invalid_decision":
                raise
            return None
        return DecidedCall(question.request_id, question.call.name, given.decision)

    def _describe(self, question: OpenQuestion) -> Fields:
        quoting, call, asked = self._quoting(), question.call, question.elicitation
        message = "" if asked is None else quoting.clean(asked.message)
        id = urlsafe_b64encode(f"{question.run.id}{_SEPARATOR}{call.id}".encode()).decode()
        return {
            "id": id,
            "run": quoting.clean(question.run.id),
            "asked": question.at,
            "until": question.until,
            "request_id": question.request_id,
            "model": quoting.name(question.run.model),
            "call_id": quoting.clean(call.id),
            "name": quoting.name(call.name),
            "arguments": quoting.value(dict(call.arguments)),
            "decisions": list(question.words),
            # What a server asks is not hidden: it could not be answered.
            "elicitation": None if asked is None else asdict(replace(asked, message=message)),
        }


def _read_id(id: str) -> str:
    try:
        return urlsafe_b64decode(id.encode()).decode()
    except ValueError:
        return ""


# The calls that wait for a person, over HTTP.
#
# Who sees a run and has the right to approve may decide about its calls. A decision changes what
# happens, so it is taken only from pages of the proxy's own origin and from programs: whatever a
# browser says to come from another website is refused, even from websites that may read.


_LOG = logging.getLogger(__name__)
PATH = "/inspector/api/approvals"
FindOwner: TypeAlias = Callable[[Request], str | None]
"""Whose runs may be seen by who sent a request: those of one key, or (None) all."""
_Responder: TypeAlias = Callable[[Request], Awaitable[Response]]
"""The handler of a route."""
MayDecide: TypeAlias = Callable[[Request], bool]
"""Returns True if who sent a request may decide about calls."""
OnAnswer: TypeAlias = Callable[[Request, DecidedCall], None]
"""Called with each decision that counts, and with the request that brought it."""
HEADERS = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-resource-policy": "same-origin",
}
_JSON = "application/json"
_OURS = frozenset({"same-origin", "none"})
_MAY_NOT = (
    "this key may not decide about calls: make one with `wholecall keys create --may-approve`"
)
_GONE = (
    "no such call waits: it was answered, its time is over, its run has ended, or it belongs to "
    "another key"
)


class ApprovalDecision(msgspec.Struct, forbid_unknown_fields=True):
    """A person's answer about a call."""

    approved: bool | None = None
    why: str = ""
    """For the model."""
    decision: str = ""
    """Instead of `approved`."""
    content: dict[str, Any] = {}
    """The form, where a tool asks the user to fill one in."""

    @property
    def row(self) -> DecisionRow:
        """The decision as a row; `OperationRefused` if it is none."""
        yes, no = APPROVALS
        word = self.decision if self.approved is None else yes if self.approved else no
        if word not in (*APPROVALS, *OUTCOMES, *ANSWERS):
            why = f"a decision is one of {', '.join((*APPROVALS, *OUTCOMES, *ANSWERS))}"
            raise OperationRefused(why, code="invalid_decision")
        return DecisionRow(word, self.why, self.content or None)


def make_approval_routes(
    desk: ApprovalQueue, *, owner: FindOwner, may_decide: MayDecide, on_answer: OnAnswer
) -> list[Route]:
    """Return the routes that list and answer pending calls."""
    routes = _Approvals(desk, owner, may_decide=may_decide, on_answer=on_answer)
    return [
        Route(PATH, guard(routes.list_waiting)),
        Route(f"{PATH}/{{id}}", guard(routes.answer), methods=["POST"]),
    ]


class _Approvals:
    def __init__(
        self, desk: ApprovalQueue, owner: FindOwner, *, may_decide: MayDecide, on_answer: OnAnswer
    ) -> None:
        self._desk = desk
        self._owner = owner
        self._may_decide = may_decide
        self._on_answer = on_answer

    async def list_waiting(self, request: Request) -> Response:
        """The calls that wait, in all processes of the proxy."""
        waiting = await self._desk.list_waiting(self._owner(request))
        body = {"waiting": waiting, "may_decide": self._may_decide(request)}
        return JSONResponse(body, headers=HEADERS)

    async def answer(self, request: Request) -> Response:
        """Decide about one of them."""
        refusal = self._check(request)
        if refusal is not None:
            return refusal
        try:
            given = msgspec.json.decode(await request.body(), type=ApprovalDecision)
            row, approved = given.row, given.approved
            owner, id = self._owner(request), request.path_params["id"]
            answered = await self._desk.answer(id, row, owner=owner)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return refuse(400, f'an answer is {{"approved": true}} or false, and why: {error}')
        except OperationRefused as error:
            return refuse(400, str(error))
        if answered is None:
            return refuse(404, _GONE)
        self._on_answer(request, answered)
        told = {"decision": row.decision} if approved is None else {"approved": approved}
        return JSONResponse(told, headers=HEADERS)

    def _check(self, request: Request) -> Response | None:
        """Return why a decision is not taken; None if it is."""
        if not comes_from_us(request):
            return refuse(403, "only the proxy's own page may answer")
        if not self._may_decide(request):
            return refuse(403, _MAY_NOT)
        # A form of another website cannot send this type without being asked about first.
        if request.headers.get("content-type", "").partition(";")[0].strip() != _JSON:
            return refuse(415, f"an answer is sent as {_JSON}")
        return None


def comes_from_us(request: Request) -> bool:
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

"""What operators do with runs: list and show them, decide about calls, let runs go on, end them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from wholecall.arguments.describe import cut
from wholecall.errors import WholecallError
from wholecall.events import Call
from wholecall.journal.journal_rows import (
    ANSWERS,
    APPROVALS,
    ASKING,
    OUTCOMES,
    AskRow,
    BrokenRow,
    DecisionRow,
    RecalledCall,
    Restored,
    decode_row,
    encode_row,
    read_call,
    restore,
)
from wholecall.journal.run_journal import (
    MOST_ASKED,
    OVER,
    AskedCall,
    Claim,
    ClaimState,
    JournalStore,
    RunRow,
    RunStatus,
)
from wholecall.tools.tool import Elicitation, check_form

Fields: TypeAlias = dict[str, object]
Hide: TypeAlias = Callable[[str], str]
"""Takes secrets out of a text."""
UNKNOWN = "unknown"
"""The filter for runs in which what became of a call is unknown."""
FILTERS: Mapping[str, tuple[RunStatus, ...]] = {
    "open": tuple(status for status in RunStatus if status not in OVER),
    "over": tuple(OVER),
    UNKNOWN: (),
    **{status.value: (status,) for status in RunStatus},
}
LONGEST_WHY = 500
"""Characters of the reason for a decision."""
_LONGEST_TEXT = 4_000
"""Characters of arguments and of a result that are shown."""
_WORDS = {"decision": OUTCOMES, "approval": APPROVALS}
"""What may be decided, by the kind of the row of the decision."""


class OperationRefused(WholecallError):
    """A run cannot be changed as an operator wants it."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code
        """`run_not_found`, `call_not_found`, `invalid_decision` or `conflict`."""


class OpenQuestion(NamedTuple):
    """A call about which a person has to decide."""

    run: RunRow
    call: Call
    key: str
    """Of the row of the decision."""
    at: float
    until: float
    """When no decision is awaited any more, in seconds since 1970; 0: it is awaited for ever."""
    request_id: str
    elicitation: Elicitation | None = None
    """What the tool of the call asks the user."""

    @property
    def words(self) -> Sequence[str]:
        """What may be decided."""
        if self.elicitation is not None:
            return ANSWERS
        return _WORDS[self.key.partition(" ")[0]]


async def list_questions(
    store: JournalStore, *, key_id: str | None = None, clock: Callable[[], float] = time.time
) -> list[OpenQuestion]:
    """Return what people have to decide, the oldest first: of one API key, or of all."""
    asked = await asyncio.wrap_future(store.list_asked(key_id=key_id))
    read = (_read_question(each) for each in asked)
    now = clock()
    return [question for question in read if question is not None and _is_open(question, now)]


def _read_question(asked: AskedCall) -> OpenQuestion | None:
    kind, _, name = asked.row.key.partition(" ")
    try:
        row = decode_row(AskRow, asked.row.body)
        call = read_call(row.call)
    except BrokenRow:  # its run says so when it is carried out
        return None
    key = f"{ASKING[kind]} {name}"
    elicitation = None if row.elicitation is None else Elicitation(**row.elicitation)
    request_id = row.request_id
    return OpenQuestion(asked.run, call, key, asked.at, row.until, request_id, elicitation)


def _is_open(question: OpenQuestion, now: float) -> bool:
    """Return True unless it was asked for a time that is over, or by a request that has ended."""
    if not question.until:
        return True
    return question.run.status is RunStatus.RUNNING and question.until > now


async def decide(
    store: JournalStore, id: str, *, call_id: str, given: DecisionRow, key_id: str | None = None
) -> OpenQuestion:
    """Decide about a call; the first decision counts. A run that waited for it continues."""
    questions = await list_questions(store, key_id=key_id)
    of_call = [each for each in questions if (each.run.id, each.call.id) == (id, call_id)]
    if not of_call:
        why = f"no decision about a call {call_id!r} of the run {id!r} is awaited"
        raise OperationRefused(why, code="call_not_found")
    question = next((each for each in of_call if given.decision in each.words), None)
    if question is None:
        words = ", ".join(word for each in of_call for word in each.words)
        raise OperationRefused(f"the decision is one of {words}", code="invalid_decision")
    body = encode_row(_check_decision(given, question))
    if not await asyncio.wrap_future(store.decide(id, question.key, body=body)):
        raise OperationRefused("someone else has decided", code="conflict")
    return question


def _check_decision(given: DecisionRow, question: OpenQuestion) -> DecisionRow:
    """Return the decision as it is written down; a form must fit what was asked."""
    row = DecisionRow(given.decision, given.why[:LONGEST_WHY])
    if question.elicitation is not None and given.decision == ANSWERS[0]:
        form = check_form(question.elicitation, given.content or {})
        if form.problems:
            why = "; ".join(problem.message for problem in form.problems)
            raise OperationRefused(f"the form does not fit: {why}", code="invalid_decision")
        row.content = dict(form.content)
    return row


async def find_run(store: JournalStore, id: str, *, key_id: str | None = None) -> Claim:
    """Return a run with its rows; `OperationRefused` if there is none, or if it is another's."""
    found = await asyncio.wrap_future(store.load(id))
    if found is None or (key_id is not None and found.run.key_id != key_id):
        why = f"there is no run {id!r}: it never was, is not yours, or is not kept any more"
        raise OperationRefused(why, code="run_not_found")
    return found


async def release(store: JournalStore, id: str) -> None:
    """Let a run that waits go on, whatever it waits for."""
    if not await asyncio.wrap_future(store.release(id)):
        raise OperationRefused(f"the run {id!r} does not wait", code="conflict")


async def list_runs(
    store: JournalStore, wanted: str, *, key_id: str | None = None, most: int = 100
) -> list[RunRow]:
    """Return runs by one of the `FILTERS`, the latest first."""
    if wanted == UNKNOWN:
        asked = await list_questions(store, key_id=key_id)
        runs = {each.run.id: each.run for each in asked if each.words == OUTCOMES}
        return list(runs.values())[:most]
    statuses = FILTERS[wanted] if wanted else ()
    found = store.list_runs(statuses, key_id=key_id, most=min(most, MOST_ASKED))
    return await asyncio.wrap_future(found)


# ── What is shown ───────────────────────────────────────────────────────────────────


def describe_run(run: RunRow) -> Fields:
    """Return a run as JSON, without its conversation."""
    return {
        "id": run.id,
        "object": "run",
        "status": run.status.value,
        "model": run.model,
        "key_id": run.key_id,
        "worker": run.owner,
        "epoch": run.epoch,
        "background": run.background,
        "created_at": int(run.created),
        "touched_at": int(run.touched),
        "stop": run.stop,
    }


def describe_whole(found: Claim, *, hide: Hide) -> Fields:
    """Return a run with its calls as JSON. A row that cannot be read is an `error`."""
    fields = describe_run(found.run)
    try:
        restored = restore(found.rows)
    except BrokenRow as error:
        return {**fields, "turns": 0, "calls": [], "error": str(error)}
    calls = _find_calls(found, restored)
    told = [_describe_call(call, restored, found=found, hide=hide) for call in calls.values()]
    return {**fields, "turns": restored.turns, "calls": told}


def _find_calls(found: Claim, restored: Restored) -> Mapping[str, Call]:
    asked: dict[str, Call] = {}
    for row in found.rows:
        if row.key.partition(" ")[0] in ASKING:
            with suppress(BrokenRow):
                call = read_call(decode_row(AskRow, row.body).call)
                asked[call.id] = call
    ended = {id: recalled.call for id, recalled in restored.results.items()}
    return restored.intents | ended | asked


def _describe_call(call: Call, restored: Restored, *, found: Claim, hide: Hide) -> Fields:
    recalled = restored.results.get(call.id)
    fields: Fields = {
        "id": call.id,
        "name": call.name,
        "arguments": cut(hide(call.raw), _LONGEST_TEXT),
        "attempts": restored.attempts.get(call.id, 0),
        "state": _find_state(call.id, restored, found=found),
        "decisions": list(_find_words(call.id, restored, found=found)),
    }
    for kind, given in (("approval", restored.approvals), ("decision", restored.decisions)):
        if call.id in given:
            fields[kind] = given[call.id].decision
    return fields if recalled is None else {**fields, **_describe_result(recalled, hide=hide)}


def _describe_result(recalled: RecalledCall, *, hide: Hide) -> Fields:
    text = cut(hide(recalled.result.text), _LONGEST_TEXT)
    return {"status": recalled.status, "result": text, "seconds": round(recalled.seconds, 6)}


def _find_state(id: str, restored: Restored, *, found: Claim) -> str:
    """Return `ended`, `running`, `unknown` (it had begun, and no worker has it) or `waiting`."""
    if id in restored.results:
        return "ended"
    if id in restored.intents:
        return "running" if found.run.status is RunStatus.RUNNING else UNKNOWN
    return "waiting"


def _find_words(id: str, restored: Restored, *, found: Claim) -> Sequence[str]:
    """Return what may be decided about a call now."""
    if found.state is ClaimState.OVER or id in restored.results:
        return ()
    if f"ask {id}" in restored.asked:
        return () if id in restored.decisions else OUTCOMES
    waits = f"approval_ask {id}" in restored.asked and id not in restored.approvals
    return APPROVALS if waits else ()

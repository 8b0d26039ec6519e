"""Parameters of OpenAI's Responses about storing: `store`, `background`, and
`previous_response_id`.

For a response that is stored here we join the earlier conversation, its answer and the new
input, for any upstream. Others are left to an upstream that speaks Responses, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from wholecall.errors import UnreadableRequest
from wholecall.proxy.responses.response_store import UNREADABLE, ResponseStore, StoredResponse

Fields: TypeAlias = dict[str, msgspec.Raw]
PREVIOUS = "previous_response_id"
NOT_HELD = (
    "no response of this id is held here: it is another key's, was sent with `store: false`, or "
    "is older than responses.kept_seconds; send the whole conversation instead"
)
NOT_FOUND = "previous_response_not_found"
_TRUE, _FALSE = b"true", b"false"
_GOOD = frozenset({"completed", "incomplete"})


class _Answer(msgspec.Struct):
    status: str = ""
    output: list[msgspec.Raw] = []


_ANSWER = msgspec.json.Decoder(_Answer)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_INPUT = msgspec.json.Decoder(str | list[msgspec.Raw] | None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseParams:
    """The way in which a response is stored."""

    items: bytes
    """The items of the whole conversation that it answers, as a JSON array."""
    background: bool = False
    """True if it is made in the background."""
    streamed: bool = False
    """True if the client wants a stream. In the background it always is one for us."""
    echo: Mapping[str, Any]
    """The parameters that the response repeats."""


def read_params(
    store: ResponseStore, fields: Fields, *, key_id: str
) -> tuple[ResponseParams | None, Fields]:
    """The terms of a request, and the request without them; None: nothing is held of it."""
    background, stored = _says(fields, "background"), is_stored(fields)
    if background:
        _check_background(store, stored=stored)
    previous = read_previous(fields)
    before: StoredResponse | None = None
    if previous:
        before = _find(store, previous, key_id=key_id)
    if before is not None:
        fields = _continue(fields, before)
    if not (stored and store.enabled):
        return None, fields
    terms = ResponseParams(
        items=msgspec.json.encode(_read_items(fields)),
        background=background,
        streamed=_says(fields, "stream"),
        echo={
            **({"background": True} if background else {}),
            **({PREVIOUS: previous} if before is not None else {}),
        },
    )
    return terms, _for_background(fields) if background else fields


def _check_background(store: ResponseStore, *, stored: bool) -> None:
    if not stored:
        why = "what is made in the background has to be stored: leave `store` out"
        raise UnreadableRequest(why, param="store")
    if not store.has_background:
        why = (
            "nothing is made in the background here: the operator can set responses.kept_seconds, "
            "and listen.workers to 1"
        )
        raise UnreadableRequest(why, param="background")


def _for_background(fields: Fields) -> Fields:
    """The upstream answers at once and as a stream: it is we who work in the background."""
    others = {name: value for name, value in fields.items() if name != "background"}
    return {**others, "stream": msgspec.Raw(_TRUE)}


# ── Going on ────────────────────────────────────────────────────────────────────────


def _find(store: ResponseStore, id: str, *, key_id: str) -> StoredResponse | None:
    held = store.find(key_id, id)
    if held is None and store.is_of_another(key_id, id):
        raise refuse_previous(NOT_HELD)
    return held


def refuse_previous(why: str) -> UnreadableRequest:
    """The request cannot go on from the response that it names."""
    return UnreadableRequest(why, param=PREVIOUS, code=NOT_FOUND)


def _continue(fields: Fields, before: StoredResponse) -> Fields:
    """The request with the whole conversation in it. Instructions are not carried over."""
    if not before.work.is_over:
        raise refuse_previous("the response of this id is not over yet")
    answer = _read_answer(before.work.show())
    if answer.status not in _GOOD:
        status = answer.status or "not to be read"
        raise refuse_previous(f"the response of this id is {status}: it has no answer")
    items = [*_ITEMS.decode(before.items), *answer.output, *_read_items(fields)]
    others = {name: value for name, value in fields.items() if name != PREVIOUS}
    return {**others, "input": msgspec.Raw(msgspec.json.encode(items))}


def _read_answer(response: bytes) -> _Answer:
    """Read the answer; return an empty one if a passed-through response has another form."""
    try:
        return _ANSWER.decode(response)
    except UNREADABLE:
        return _Answer()


def _read_items(fields: Fields) -> list[Any]:
    """Return the items of the input. The decoder refuses other forms."""
    try:
        given = _INPUT.decode(fields["input"]) if "input" in fields else None
    except msgspec.DecodeError:
        return []
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}] if given else []
    return given or []


def read_previous(fields: Fields) -> str:
    """Return the id of the previous response; empty without one."""
    try:
        return msgspec.json.decode(fields[PREVIOUS], type=str) if PREVIOUS in fields else ""
    except msgspec.DecodeError:
        return ""


def _says(fields: Fields, name: str) -> bool:
    return name in fields and bytes(fields[name]) == _TRUE


def is_stored(fields: Fields) -> bool:
    """Return True if a response may be stored."""
    return "store" not in fields or bytes(fields["store"]) != _FALSE

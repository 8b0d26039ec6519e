"""What a client of OpenAI's Responses says about holding: `store`, `background`, and the
response that its own goes on from.

What we hold we put together ourselves, for any upstream: the conversation before, its answer,
and what is new. What we do not hold is left to an upstream that speaks Responses, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from wholecall.errors import UnreadableRequest
from wholecall.proxy.holding import UNREADABLE, Held, Holding

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
class Terms:
    """How a response is held."""

    items: bytes
    """The items of the whole conversation that it answers, as a JSON array."""
    background: bool = False
    """Whether it is made although nobody waits for it."""
    streamed: bool = False
    """Whether the client wants it as a stream. In the background it always is one for us."""
    echo: Mapping[str, Any]
    """What the response says of it."""


def read_terms(holding: Holding, fields: Fields, *, key_id: str) -> tuple[Terms | None, Fields]:
    """The terms of a request, and the request without them; None: nothing is held of it."""
    background, stored = _says(fields, "background"), is_stored(fields)
    if background:
        _check_background(holding, stored=stored)
    previous = read_previous(fields)
    before: Held | None = None
    if previous:
        before = _find(holding, previous, key_id=key_id)
    if before is not None:
        fields = _continue(fields, before)
    if not (stored and holding.enabled):
        return None, fields
    terms = Terms(
        items=msgspec.json.encode(_read_items(fields)),
        background=background,
        streamed=_says(fields, "stream"),
        echo={
            **({"background": True} if background else {}),
            **({PREVIOUS: previous} if before is not None else {}),
        },
    )
    return terms, _for_background(fields) if background else fields


def _check_background(holding: Holding, *, stored: bool) -> None:
    if not stored:
        why = "what is made in the background has to be stored: leave `store` out"
        raise UnreadableRequest(why, param="store")
    if not holding.has_background:
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


def _find(holding: Holding, id: str, *, key_id: str) -> Held | None:
    held = holding.find(key_id, id)
    if held is None and holding.is_of_another(key_id, id):
        raise refuse_previous(NOT_HELD)
    return held


def refuse_previous(why: str) -> UnreadableRequest:
    """The request cannot go on from the response that it names."""
    return UnreadableRequest(why, param=PREVIOUS, code=NOT_FOUND)


def _continue(fields: Fields, before: Held) -> Fields:
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
    """What passed through from an upstream may have another form; then there is no answer."""
    try:
        return _ANSWER.decode(response)
    except UNREADABLE:
        return _Answer()


def _read_items(fields: Fields) -> list[Any]:
    """The items of the input. What is none of its forms is refused by whoever reads all of it."""
    try:
        given = _INPUT.decode(fields["input"]) if "input" in fields else None
    except msgspec.DecodeError:
        return []
    if isinstance(given, str):
        return [{"type": "message", "role": "user", "content": given}] if given else []
    return given or []


def read_previous(fields: Fields) -> str:
    """The id of the response that a request goes on from; empty: of none."""
    try:
        return msgspec.json.decode(fields[PREVIOUS], type=str) if PREVIOUS in fields else ""
    except msgspec.DecodeError:
        return ""


def _says(fields: Fields, name: str) -> bool:
    return name in fields and bytes(fields[name]) == _TRUE


def is_stored(fields: Fields) -> bool:
    """Whether a response may be kept, by whoever answers."""
    return "store" not in fields or bytes(fields["store"]) != _FALSE

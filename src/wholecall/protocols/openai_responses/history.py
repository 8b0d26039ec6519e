"""The history of OpenAI's Responses protocol: a flat list of items.

A turn is a run of items that the model produced: reasoning, calls, text. Reasoning belongs to the
next item and must not be separated from it, so results follow the whole run.

A call that is marked `async` may be answered at any time, or never; it and its result are left
unchanged (https://developers.openai.com/api/docs/guides/async-tool-calling).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from wholecall.protocols.history import (
    Aside,
    ChangeKind,
    HistoryForm,
    IdRule,
    Mending,
    Piece,
    ReasoningRule,
    Spot,
    StoredCall,
    StoredOutput,
    StoredResult,
    StoredTurn,
    Target,
    Wire,
    is_blank,
    read_id,
    tidy,
    write_arguments,
)
from wholecall.protocols.history_repair import drop_repeated

_OUTPUT = StoredOutput("output", "input_text")
OPENAI_RESPONSES = Target(IdRule(longest=64))
"""The requirements of OpenAI's own endpoint."""
# The calls that the client answers with text. The others (computer, shell, patch) have results of
# their own shapes, which only the client can fill in.
_RESULT_TYPES = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
}
_RESULTS = frozenset(_RESULT_TYPES.values())
_REASONING = "reasoning"
_MODEL_TYPES = frozenset(
    {_REASONING, "mcp_list_tools", "mcp_approval_request", "program", "compaction"}
)
# An item that the upstream holds: it may be a call, or what reasoning belongs to.
_HIDDEN = "item_reference"
# Under their own ids these are known to the upstream together with the reasoning before them.
_LINKED = frozenset({*_RESULT_TYPES, "message"})
_Placed: TypeAlias = tuple[int, Any]


def _split(items: Sequence[Any], mending: Mending) -> list[Piece]:
    unhurried = {read_id(item, "call_id") for item in items if _is_unhurried(item)}
    pieces: list[Piece] = []
    run: list[_Placed] = []
    for at, item in enumerate(items):
        if _is_models(item):
            run.append((at, item))
            continue
        pieces += _read_run(run, mending, hidden=_type(item) == _HIDDEN)
        run = []
        if _type(item) in _RESULTS and read_id(item, "call_id") not in unhurried:
            pieces.append(_read_result(item, Spot(at, mending)))
        else:
            pieces.append(_read_said(item, Spot(at, mending)))
    return pieces + _read_run(run, mending, hidden=False)


def _type(item: Any) -> str:
    if not isinstance(item, Mapping):
        return _HIDDEN
    kind = item.get("type")
    if isinstance(kind, str):
        return kind
    # Both may leave their type out.
    return "message" if "role" in item else _HIDDEN


def _is_models(item: Any) -> bool:
    kind = _type(item)
    if kind == "message":
        return bool(item.get("role") == "assistant")
    return kind in _MODEL_TYPES or kind.endswith("_call")


def _is_unhurried(item: Any) -> bool:
    return _type(item) in _RESULT_TYPES and bool(item.get("async"))


def _read_result(item: Wire, spot: Spot) -> Piece:
    filled = _OUTPUT.fill_blank(item, spot)
    return StoredResult(spot.at, read_id(item, "call_id"), filled)


def _read_said(item: Any, spot: Spot) -> Piece:
    kind = _type(item)
    if kind != "message":
        return Aside(spot.at, item, opaque=kind == _HIDDEN)
    tidied = tidy(item, spot)
    return Aside(spot.at, {**tidied, "content": ""} if tidied.get("content") == [] else tidied)


# ── Turns ───────────────────────────────────────────────────────────────────────────


def _read_run(run: Sequence[_Placed], mending: Mending, *, hidden: bool) -> list[Piece]:
    kept = _drop_silence(_drop_reasoning(run, mending), mending)
    read = [(at, _read_entry(item, Spot(at, mending))) for at, item in kept]
    # Drop a repeated call first: then the reasoning before it is at the end.
    once = drop_repeated([entry for _, entry in read], mending)
    left = {id(entry) for entry in once}
    placed = [(at, entry) for at, entry in read if id(entry) in left]
    if not hidden:
        placed = _drop_dangling(placed, mending)
    entries = tuple(entry for _, entry in placed)
    if any(isinstance(entry, StoredCall) for entry in entries):
        return [StoredTurn(placed[-1][0], entries)]
    return [Aside(at, entry) for at, entry in placed]


def _drop_reasoning(run: Sequence[_Placed], mending: Mending) -> list[_Placed]:
    """Drop what the target does not take, and the ids that would ask for it."""
    kept: list[_Placed] = []
    for at, item in run:
        if _type(item) == _REASONING and _is_unwanted(item, mending.target.reasoning):
            mending.note(ChangeKind.REASONING_DROPPED, at)
        else:
            kept.append((at, item))
    return kept if len(kept) == len(run) else [(at, _unlink(item)) for at, item in kept]


def _is_unwanted(item: Wire, wanted: ReasoningRule) -> bool:
    if wanted is ReasoningRule.SIGNED:
        return not item.get("encrypted_content")
    return wanted is ReasoningRule.NONE


def _unlink(item: Wire) -> Wire:
    if _type(item) not in _LINKED:
        return item
    return {key: value for key, value in item.items() if key != "id"}


def _drop_silence(run: Sequence[_Placed], mending: Mending) -> list[_Placed]:
    kept: list[_Placed] = []
    for at, item in run:
        tidied = tidy(item, Spot(at, mending)) if _type(item) == "message" else item
        content = tidied.get("content", [])
        if _type(item) == "message" and (content == [] or is_blank(content)):
            mending.note(ChangeKind.BLANK_DROPPED, at, detail="message")
        else:
            kept.append((at, tidied))
    return kept


def _drop_dangling(run: list[_Placed], mending: Mending) -> list[_Placed]:
    """Drop reasoning at the end of a run: it comes from a cut answer, and upstreams refuse it."""
    while run and not isinstance(run[-1][1], StoredCall) and _type(run[-1][1]) == _REASONING:
        at, _ = run.pop()
        mending.note(ChangeKind.REASONING_DROPPED, at, detail="nothing follows it")
    return run


def _read_entry(item: Wire, spot: Spot) -> StoredCall | Wire:
    kind = _type(item)
    if kind not in _RESULT_TYPES or _is_unhurried(item):
        return item
    id = read_id(item, "call_id")
    if kind != "function_call":
        return StoredCall(spot.at, id, item)  # a custom tool: its input is any text
    text, lost = write_arguments(item.get("arguments"))
    if text == item.get("arguments"):
        return StoredCall(spot.at, id, item)
    spot.note(ChangeKind.ARGUMENTS_EMPTIED if lost else ChangeKind.ARGUMENTS_ENCODED, id)
    return StoredCall(spot.at, id, {**item, "arguments": text}, lost)


# ── Writing ─────────────────────────────────────────────────────────────────────────


def _join(pieces: Sequence[Piece], _: Mending) -> list[Any]:
    items: list[Any] = []
    for piece in pieces:
        items += piece.natives if isinstance(piece, StoredTurn) else [piece.native]
    return items


def _fill(call: StoredCall, words: str) -> Wire:
    kind = _RESULT_TYPES[_type(call.native)]
    return {"type": kind, "call_id": call.id, "output": words}


HISTORY = HistoryForm(
    split=_split,
    join=_join,
    call_id="call_id",
    result_id="call_id",
    fill=_fill,
    annotate=_OUTPUT.annotate,
)

"""Which result belongs to which call, where it goes, and what is made of the rest.

A history is written as words: `T:a,b` is a turn with the calls a and b, `R:a=1` the result 1
of a call a, `U` something that the user says, `?` something that cannot be read, `F:a` a
result that was filled in.
"""

from typing import Any

import pytest

from wholecall.events import Text
from wholecall.messages import CallResult, Message, PastCall, Result, Role
from wholecall.protocols.history import (
    UNRECORDED,
    Aside,
    ChangeKind,
    HistoryForm,
    IdRule,
    Mending,
    Piece,
    StoredCall,
    StoredResult,
    StoredTurn,
    Target,
)
from wholecall.protocols.history_repair import AnsweredCall, CallExchange, Ids, pair, settle

FORM = HistoryForm(
    split=lambda _, __: [],
    join=lambda _, __: [],
    call_id="id",
    result_id="of",
    fill=lambda call, words: {"of": call.id, "said": words},
    annotate=lambda native, words: {**native, "said": f"{native['said']} {words}"},
)


def read(history: str) -> list[Piece]:
    return [read_word(word, at) for at, word in enumerate(history.split())]


def read_word(word: str, at: int) -> Piece:
    kind, _, rest = word.partition(":")
    if kind == "T":
        return StoredTurn(at, tuple(read_entry(entry, at) for entry in rest.split(",")))
    if kind == "R":
        id, _, said = rest.partition("=")
        return StoredResult(at, id, {"of": id, "said": said})
    return Aside(at, word, opaque=kind == "?")


def read_entry(entry: str, at: int) -> Any:
    """An entry in brackets is no call; behind a slash stand the arguments of a call."""
    id, _, arguments = entry.partition("/")
    native = {"id": id, "arguments": arguments}
    return {"type": entry} if entry.startswith("[") else StoredCall(at, id, native)


def write(pieces: list[Piece]) -> str:
    return " ".join(write_word(piece) for piece in pieces)


def write_word(piece: Piece) -> str:
    match piece:
        case StoredTurn():
            return f"T:{','.join(entry.get('id') or entry['type'] for entry in piece.natives)}"
        case StoredResult() if piece.native["said"] == UNRECORDED:
            return f"F:{piece.native['of']}"
        case StoredResult():
            return f"R:{piece.native['of']}={piece.native['said']}"
        case Aside():
            return str(piece.native)


ORPHANED, REPEATED = ChangeKind.RESULT_ORPHANED, ChangeKind.RESULT_REPEATED
FILLED, MOVED = ChangeKind.RESULT_FILLED, ChangeKind.RESULT_MOVED
CALL_REPEATED, REWRITTEN = ChangeKind.CALL_REPEATED, ChangeKind.ID_REWRITTEN

# what holds, history, settled, changes
ROWS: list[tuple[str, str, str, list[ChangeKind]]] = [
    ("nothing", "", "", []),
    ("a healthy history", "U T:a,b R:a=1 R:b=2 U", "U T:a,b R:a=1 R:b=2 U", []),
    ("a result without a call goes", "R:a=1 U", "U", [ORPHANED]),
    ("anywhere", "U T:a R:a=1 R:x=2 U R:y=3 T:b R:b=4", "U T:a R:a=1 U T:b R:b=4", [ORPHANED] * 2),
    ("a call without a result gets one", "T:a,b R:b=2", "T:a,b F:a R:b=2", [FILLED]),
    ("anywhere, too", "T:a U T:b R:b=2", "T:a F:a U T:b R:b=2", [FILLED]),
    ("at the end, too", "U T:a", "U T:a F:a", [FILLED]),
    ("results stand in call order", "T:a,b R:b=2 R:a=1", "T:a,b R:a=1 R:b=2", [MOVED] * 2),
    ("nothing stands between them", "T:a,b R:a=1 U R:b=2", "T:a,b R:a=1 R:b=2 U", [MOVED]),
    ("nor before them", "T:a U R:a=1", "T:a R:a=1 U", [MOVED]),
    ("a late result finds its call", "T:a U T:b R:b=2 U R:a=1", "T:a R:a=1 U T:b R:b=2 U", [MOVED]),
    (
        "turns in a row each get their own",
        "T:a T:b R:a=1 R:b=2",
        "T:a R:a=1 T:b R:b=2",
        [MOVED] * 2,
    ),
    ("of two results the first stays", "T:a R:a=1 R:a=2", "T:a R:a=1", [REPEATED]),
    ("even far behind", "T:a R:a=1 U R:a=2", "T:a R:a=1 U", [REPEATED]),
    ("an id of each turn", "T:a R:a=1 T:a R:a=2", "T:a R:a=1 T:a_2 R:a_2=2", [REWRITTEN]),
    (
        "in one exchange the first waits first",
        "T:a T:a R:a=1 R:a=2",
        "T:a R:a=1 T:a_2 R:a_2=2",
        [MOVED, MOVED, REWRITTEN],
    ),
    (
        "after it the latest is meant",
        "T:a U T:a R:a=2",
        "T:a F:a U T:a_2 R:a_2=2",
        [FILLED, REWRITTEN],
    ),
    (
        "and the earlier is not guessed at",
        "T:a U T:a R:a=2 R:a=3",
        "T:a F:a U T:a_2 R:a_2=2",
        [REPEATED, FILLED, REWRITTEN],
    ),
    ("one id for two calls", "T:a/1,a/2 R:a=1 R:a=2", "T:a,a_2 R:a=1 R:a_2=2", [REWRITTEN]),
    (
        "a call that stands twice is one",
        "T:a/1,a/1 R:a=1 R:a=2",
        "T:a R:a=1",
        [CALL_REPEATED, REPEATED],
    ),
    ("a result without an id answers the only call", "T:a R:=1 U", "T:a R:a=1 U", [REWRITTEN]),
    ("the only one that waits", "T:a,b R:b=2 R:=1", "T:a,b R:a=1 R:b=2", [MOVED, MOVED, REWRITTEN]),
    ("not one of several", "T:a,b R:=1", "T:a,b F:a F:b", [ORPHANED, FILLED, FILLED]),
    ("not one of an earlier exchange", "T:a U R:=1", "T:a F:a U", [ORPHANED, FILLED]),
    ("and not one that is answered", "T:a R:a=1 R:=2", "T:a R:a=1", [ORPHANED]),
    (
        "calls without ids are told by their places",
        "T:,/ R:=1 R:=2",
        "T:call_0,call_1 R:call_0=1 R:call_1=2",
        [REWRITTEN] * 2,
    ),
    ("a result directly before its call", "R:a=1 T:a U", "T:a R:a=1 U", [MOVED]),
    ("not if its call has another", "R:a=1 T:a R:a=2", "T:a R:a=2", [ORPHANED]),
    (
        "not if the id is used again",
        "R:a=1 T:a T:a",
        "T:a F:a T:a_2 F:a_2",
        [ORPHANED, FILLED, REWRITTEN, FILLED],
    ),
    ("not across something else", "R:a=1 U T:a", "U T:a F:a", [ORPHANED, FILLED]),
    ("not across a turn", "R:b=1 T:a T:b R:a=1", "T:a R:a=1 T:b F:b", [ORPHANED, MOVED, FILLED]),
    ("what is unread may hold the call", "R:a=1 ? R:b=2 U", "? R:b=2 U", [ORPHANED]),
    ("whose id is not given away", "? R:a=1 U T:a R:a=2", "? R:a=1 U T:a_2 R:a_2=2", [REWRITTEN]),
    ("unless the call is read directly behind", "? R:a=1 T:a", "? T:a R:a=1", [MOVED]),
    ("what stands among calls stays", "T:[x],a,[y] R:a=1", "T:[x],a,[y] R:a=1", []),
]


@pytest.mark.parametrize(
    ("history", "settled", "changes"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS]
)
def test_results_find_their_calls(history: str, settled: str, *, changes: list[ChangeKind]) -> None:
    mending = Mending(Target())
    pieces = settle(read(history), FORM, mending=mending)

    assert write(pieces) == settled
    assert [change.kind for change in mending.changes] == changes


def test_what_the_upstream_holds_is_not_missed() -> None:
    mending = Mending(Target(), continues=True)

    assert write(settle(read("R:a=1 T:b"), FORM, mending=mending)) == "R:a=1 T:b F:b"


def test_a_call_and_its_result_are_renamed_together() -> None:
    rule = IdRule(longest=9)
    mending = Mending(Target(ids=rule))
    pieces = settle(read("T:abcdefghij R:abcdefghij=1"), FORM, mending=mending)
    short = Ids(rule).claim("abcdefghij")

    assert write(pieces) == f"T:{short} R:{short}=1"
    assert mending.changes[0].detail == f"'abcdefghij' became {short!r}"


def test_the_result_tells_what_the_call_lost() -> None:
    lossy = [StoredCall(0, id, {"id": id}, lost='{"a') for id in ("a", "b")]
    pieces = settle(
        [StoredTurn(0, tuple(lossy)), *read("R:b=Error")], FORM, mending=Mending(Target())
    )
    said = [piece.native["said"] for piece in pieces if isinstance(piece, StoredResult)]

    assert said[0].startswith(UNRECORDED)
    assert said[1].startswith("Error ")
    assert all(words.endswith('Received: {"a') for words in said)


def test_calls_that_lost_different_arguments_are_not_the_same() -> None:
    lossy = tuple(StoredCall(0, "a", {"id": "a"}, lost) for lost in ("1", "2", "1"))

    settled = settle([StoredTurn(0, lossy)], FORM, mending=Mending(Target()))

    assert write(settled[:1]) == "T:a,a_2"
    assert len(settled) == 3


def test_a_number_as_an_id_becomes_a_text_on_both_sides() -> None:
    turn = StoredTurn(0, (StoredCall(0, "7", {"id": 7}),))
    pieces = settle(
        [turn, StoredResult(1, "7", {"of": 7, "said": "1"})], FORM, mending=Mending(Target())
    )

    assert write(pieces) == "T:7 R:7=1"


# ── Test history repair pairing ─────────────────────────────────────────────────────────

A = PastCall(id="a", name="f", arguments={})
B = PastCall(id="b", name="g", arguments={})
ONE, TWO = Result((Text("1"),)), Result((Text("2"),))
UNKNOWN = Result((Text(UNRECORDED),), failed=True)


def answer(*calls: PastCall) -> Message:
    return Message(Role.ASSISTANT, calls)


def results(**given: Result) -> Message:
    parts = tuple(CallResult(call_id=id, result=result) for id, result in given.items())
    return Message(Role.TOOL, parts)


USER = Message(Role.USER, (Text("u"),))


def test_results_stand_behind_their_calls_in_call_order() -> None:
    messages = [USER, answer(A, B), results(b=TWO, a=ONE), USER]
    assert list(pair(messages)) == [
        CallExchange(USER),
        CallExchange(answer(A, B), (AnsweredCall(A, ONE), AnsweredCall(B, TWO))),
        CallExchange(USER),
    ]


def test_a_missing_result_is_said_to_be_missing() -> None:
    assert list(pair([answer(A)])) == [CallExchange(answer(A), (AnsweredCall(A, UNKNOWN),))]


def test_a_result_without_a_call_is_left_out() -> None:
    assert list(pair([results(x=ONE), USER])) == [CallExchange(USER)]


def test_calls_in_a_message_each_find_their_results_and_late_ones_too() -> None:
    messages = [answer(A), answer(B), results(a=ONE), USER, results(b=TWO)]
    assert list(pair(messages)) == [
        CallExchange(answer(A), (AnsweredCall(A, ONE),)),
        CallExchange(answer(B), (AnsweredCall(B, TWO),)),
        CallExchange(USER),
    ]


def test_an_id_used_again_has_a_result_for_each_use() -> None:
    messages = [answer(A), results(a=ONE), answer(A), results(a=TWO)]
    assert list(pair(messages)) == [
        CallExchange(answer(A), (AnsweredCall(A, ONE),)),
        CallExchange(answer(A), (AnsweredCall(A, TWO),)),
    ]

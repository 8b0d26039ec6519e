"""How every kind of draft ends: by the end of its turn, or by a limit; each row also re-cut."""

import pytest

from recut import every_recut, oddities, play, play_every_way, say, write
from wholecall.arguments.limits import Limits
from wholecall.assembly.assembler import Assembler
from wholecall.events import (
    CallDelta,
    CallSealed,
    Delta,
    Ended,
    Event,
    Fault,
    FaultKind,
    Followed,
    Hint,
    HintGiven,
    Inconsistent,
    LimitReached,
    Opened,
    Rejected,
    Released,
    Start,
    Terminated,
    Text,
    Usage,
    collect,
)
from wholecall.messages import ToolSpec

# `peek` may start on its closing brace, `look` when it is sealed, the others at the end.
TOOLS = [
    *map(ToolSpec, ("find", "list", "edit", "edit_file", "run")),
    ToolSpec("peek", start=Start.CLOSED),
    ToolSpec("look", start=Start.SEALED),
]
GOOD: list[Delta] = [HintGiven(Hint.TOOL_CALLS, "tool_calls"), Terminated()]


# ── Behind the end ──────────────────────────────────────────────────────────────────

CALL = '0 c0 find {"x":1}'
BEHIND: list[tuple[str, str, list[str], str]] = [
    ("a whole call", 'end | 0 c0 find {"x":1}', [], ""),
    ("a call behind a call", f'{CALL} | end | 1 c1 list {{"x":2}}', ["find"], ""),
    ("the rest of a call", '0 c0 find {"x": | end | 0 - - 1}', [], ""),
    ("the end of a call without arguments", "0 c0 find | end | seal 0", ["find"], ""),
    ("other arguments of a call", f'{CALL} | end | seal 0 {{"x":2}}', ["find"], ""),
    ("text", f"{CALL} | text a | end | text b", ["find"], "a"),
    ("reasoning", f"{CALL} | end | reasoning hm", ["find"], ""),
]


@pytest.mark.parametrize(("says", "deltas", "names", "text"), BEHIND)
def test_what_comes_behind_the_end_is_no_part_of_the_answer(
    says: str, deltas: str, *, names: list[str], text: str
) -> None:
    events = play_every_way(write(deltas), TOOLS)
    outcome = collect(events)
    assert [call.name for call in outcome.calls] == names, says
    assert [dict(call.arguments) for call in outcome.calls] in ([], [{"x": 1}], [{}])
    assert outcome.text == text
    assert "after_end" in oddities(events)


def test_that_something_came_behind_the_end_is_told_once() -> None:
    events = play(write(f"end | {CALL} | text a | text b"), TOOLS)
    assert [event.oddity.value for event in events if isinstance(event, Inconsistent)] == [
        "after_end",
        "hint_missing",
    ]


def test_a_failure_and_the_cost_are_heard_behind_the_end() -> None:
    late: list[Delta] = [Terminated(), Usage(1, 2), Fault(FaultKind.UPSTREAM_ERROR, "gone")]
    outcome = collect(play([*write(CALL), *late], TOOLS))
    assert (outcome.calls, outcome.error) == ((), "upstream_error")
    assert outcome.usage == Usage(1, 2)


def test_a_finish_reason_that_stands_for_the_end_closes_nothing() -> None:
    end = Terminated(closes=False)
    events = play([end, *write(CALL), end], TOOLS)
    assert [call.name for call in collect(events).calls] == ["find"]
    assert "after_end" not in oddities(events)


# ── Endings ─────────────────────────────────────────────────────────────────────────

WELL, CUT, BADLY = 1, 2, 3

# How the stream ends; which column of the table below holds, with what for `*`; the error.
ENDS: dict[str, tuple[str, int, str, str | None]] = {
    "good": ("hint tool_calls | end", WELL, "", None),
    "stop": ("hint stop | end", WELL, "", None),
    "no hint": ("end", WELL, "", None),
    "no terminator": ("hint end_turn", WELL, "", None),
    "unknown": ("hint banana | end", WELL, "", None),
    "length": ("hint length | end", CUT, "", None),
    "length, then stop": ("hint length | hint stop | end", CUT, "", None),
    "dropped": ("", BADLY, "stream_dropped", "stream_dropped"),
    "failed": ("fault gone", BADLY, "stream_dropped", "upstream_error"),
    "failed late": ("hint stop | end | fault gone", BADLY, "stream_dropped", "upstream_error"),
    "error": ("hint error | end", BADLY, "stream_dropped", "upstream_error"),
    "filtered": ("hint content_filter | end", BADLY, "content_filter", None),
    "malformed": (
        "hint malformed_function_call | end",
        BADLY,
        "malformed_by_provider",
        "malformed_function_call",
    ),
}

# A draft when the stream ends; its verdict if that ended well, was cut, or ended badly.
DRAFTS = {
    "released": ('0 a peek {"x":1}', 'a peek {"x": 1}', 'a peek {"x": 1}', 'a peek {"x": 1}'),
    "whole": ('0 a find {"x":1}', 'a find {"x": 1}', 'a find {"x": 1}', "* find"),
    "sealed": ('0 a find {"x":1} | seal 0', 'a find {"x": 1}', 'a find {"x": 1}', "* find"),
    "begun": ("0 a find", "a find {}", "truncated find", "* find"),
    "begun, sealed": ("0 a find | seal 0", "a find {}", "truncated find", "* find"),
    "blank": ("0 a find  ", "a find {}", "truncated find", "* find"),
    "a placeholder": ("0 a find {}", "a find {}", "truncated find", "* find"),
    "an early tool's placeholder": ("0 a peek {}", "a peek {}", "truncated peek", "* peek"),
    "open": ('0 a find {"x":', "truncated find", "truncated find", "* find"),
    "open, sealed": ('0 a find {"x": | seal 0', "truncated find", "truncated find", "* find"),
    "other syntax": ("0 a find {'x': 1}", 'a find {"x": 1}', "truncated find", "* find"),
    "no JSON": ("0 a find x = 1", "bad_json find", "truncated find", "* find"),
    "no object": ("0 a find [1]", "not_object find", "not_object find", "* find"),
    "two objects": ('0 a find {"x":1}{"x":2}', "ambiguous find", "ambiguous find", "* find"),
    "a part of a name": ('0 a fin {"x":', "truncated fin", "truncated fin", "* fin"),
    "a name that may grow": ("0 a edit", "a edit {}", "truncated edit", "* edit"),
    "no name": ('0 a - {"x":1}', "no_name -", "truncated -", "* -"),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("draft", DRAFTS)
def test_every_ending_by_every_kind_of_draft(draft: str, end: str) -> None:
    ending, column, reason, error = ENDS[end]
    if draft == "no name" and error in ("upstream_error", "protocol"):
        reason = "no_name"  # it may be what failed
    events = play_every_way([*write(DRAFTS[draft][0]), *write(ending)], TOOLS)
    assert say(events) == DRAFTS[draft][column].replace("*", reason)
    assert collect(events).error == error


def test_the_end_is_the_last_event_and_says_it_in_both_words() -> None:
    events = play(write('0 a find {"x":1} | hint tool_use | hint max_tokens | end'), TOOLS)
    assert events[-1] == Ended("tool_calls", Hint.LENGTH, "max_tokens", None)
    assert oddities(events) == {"hint_changed", "calls_at_length"}


def test_a_fault_is_told_once_and_the_first_one_counts() -> None:
    first, second = Fault(FaultKind.PROTOCOL, "odd"), Fault(FaultKind.UPSTREAM_ERROR, "gone")
    events = play([first, second])
    assert events == [first, second, Ended(None, None, None, "protocol")]


def test_a_dropped_stream_is_told_before_its_verdicts() -> None:
    events = play(write("0 a find {"), TOOLS)
    told = [type(event) for event in events]
    assert told == [Opened, Fault, Rejected, Ended]


# ── Limits ──────────────────────────────────────────────────────────────────────────

SMALL = Limits(calls=2, characters=20, depth=3, blank_run=4)

# what holds, the deltas of a turn that ends well, the verdicts
LIMITS = [
    ("as many calls as the limit", '0 a find {"x":1} | 1 b find {}', 'a find {"x": 1} | b find {}'),
    ("one more", "0 a find {} | 1 b find {} | 2 c find {}", "a find {} | b find {} | limit -"),
    (
        "many more are one rejection",
        '0 a find {} | 1 b find {} | 2 c find {"x":1} | 2 - - x | 3 d find {} | 0 e find {}',
        "a find {} | b find {} | limit -",
    ),
    (
        "as many characters as the limit",
        '0 a find {"x":"901234567890"}',
        'a find {"x": "901234567890"}',
    ),
    ("one more character", '0 a find {"x":"901234567890"}}', "ambiguous find"),
    ("one more inside", '0 a find {"x":"9012345678901"}', "limit find"),
    ("as deep as the limit", '0 a find {"x":[[1]]}', 'a find {"x": [[1]]}'),
    ("deeper", '0 a find {"x":[[[1]]]}', "limit find"),
    ("as many blanks as the limit", '0 a find {    "x":1}', 'a find {"x": 1}'),
    ("a flood", '0 a find {     "x":1}', "degenerate find"),
    ("an early tool is held to them, too", '0 a peek {"x":"9012345678901"}', "limit peek"),
    ("what is over in time is over", '0 a peek {"x":1} ' + " " * 30, 'a peek {"x": 1}'),
]


@pytest.mark.parametrize(
    ("lines", "verdicts"), [row[1:] for row in LIMITS], ids=[row[0] for row in LIMITS]
)
def test_limits_reject_and_leave_the_others_alone(lines: str, verdicts: str) -> None:
    for deltas in every_recut([*write(lines), *GOOD]):
        assert say(play(deltas, TOOLS, limits=SMALL)) == verdicts


def test_a_call_beyond_a_limit_is_rejected_while_the_stream_runs() -> None:
    assembler = Assembler(TOOLS, limits=SMALL)
    events = [
        event for delta in write('0 a find {"x": | 0 - - [[[') for event in assembler.feed(delta)
    ]
    assert isinstance(events[-1], Rejected)
    assert "nested too deep" in events[-1].detail


def test_what_follows_a_rejected_call_is_dropped() -> None:
    deltas = write('0 a find {"x":[[[ | 0 - - ]]]} | seal 0 | 0 - - {} | end')
    events = play(deltas, TOOLS, limits=SMALL)
    assert say(events) == "limit find"
    assert collect(events).error is None


def test_a_call_in_broken_markup_is_rejected_and_the_next_one_is_not() -> None:
    deltas = [
        CallDelta(1, '{"x": 1', name="find", opens=True),
        CallSealed(1, flaw="a tag does not fit"),
        CallDelta(2, '{"x": 2}', name="find", id="b", opens=True),
        CallSealed(2),
        *GOOD,
    ]
    events = play_every_way(deltas, TOOLS)
    assert say(events) == 'bad_markup find | b find {"x": 2}'
    assert [event.detail for event in events if isinstance(event, Rejected)] == [
        "a tag does not fit"
    ]


X = '{"x": "ab"}'
# what holds, the pieces of a call that the protocol opens, how it is sealed, what comes of it
CUMULATIVE = [
    ("each piece is all there is", ['{"x"', X], CallSealed(0), 'new_0 find {"x": "ab"}'),
    ("the end says it once more", ['{"x"', X], CallSealed(0, X), 'new_0 find {"x": "ab"}'),
    ("with other blanks", ['{"x"', X], CallSealed(0, f"{X} "), 'new_0 find {"x": "ab"}'),
    ("the last piece comes twice", ['{"x"', X, X], CallSealed(0), 'new_0 find {"x": "ab"}'),
    ("a placeholder first", ["{}", '{"x"', X], CallSealed(0), 'new_0 find {"x": "ab"}'),
    ("the end says something else", ['{"x"', X], CallSealed(0, '{"x": 2}'), "ambiguous find"),
    ("the last piece is cut", ['{"x"', '{"x": "a'], CallSealed(0), "bad_json find"),
    ("the end never came", ['{"x"', X], None, "bad_json find"),
    ("how a text is cut says nothing", ['{"x"', X], CallSealed(0, written=True), "bad_json find"),
]


@pytest.mark.parametrize(("says", "pieces", "seal", "calls"), CUMULATIVE)
def test_an_opened_call_may_come_whole_in_each_piece(
    says: str, pieces: list[str], *, seal: CallSealed | None, calls: str
) -> None:
    deltas: list[Delta] = [CallDelta(0, name="find", opens=True)]
    deltas += [CallDelta(0, piece) for piece in pieces]
    deltas += [seal] if seal is not None else []
    assert say(play([*deltas, *GOOD], TOOLS)) == calls, says


LIMITED: list[Delta] = [HintGiven(Hint.LENGTH, "length"), Terminated()]
A, AB, ABC = ('{"x": "a"}', '{"x": "ab"}', '{"x": "ab", "y": 1}')
# what holds, the objects that came for one id, one tool and one place, the end, what comes of it
CLOSED_EACH_TIME = [
    ("a string that grows", [A, AB], GOOD, 'ambiguous find | new_0 find {"x": "ab"}'),
    ("a parameter more", [AB, ABC], GOOD, 'ambiguous find | new_0 find {"x": "ab", "y": 1}'),
    (
        "only the last of them is all of it",
        [A, AB, ABC],
        GOOD,
        'ambiguous find | ambiguous find | new_1 find {"x": "ab", "y": 1}',
    ),
    ("which nobody knows at the limit", [A, AB], LIMITED, "ambiguous find | ambiguous find"),
    ("others are calls of their own", [AB, A], GOOD, 'c find {"x": "ab"} | new_0 find {"x": "a"}'),
]


@pytest.mark.parametrize(("says", "objects", "end", "calls"), CLOSED_EACH_TIME)
def test_a_call_that_grows_under_its_id_is_run_once(
    says: str, objects: list[str], *, end: list[Delta], calls: str
) -> None:
    deltas = [CallDelta(0, each, name="find", id="c") for each in objects]
    assert say(play([*deltas, *end], TOOLS)) == calls, says


def test_calls_without_an_id_are_not_parts_of_each_other() -> None:
    deltas = [CallDelta(0, each, name="find") for each in (A, AB)]
    assert len(collect(play([*deltas, *GOOD], TOOLS)).calls) == 2
    others = [CallDelta(0, each, name=name, id="c") for each, name in ((A, "find"), (AB, "list"))]
    assert len(collect(play([*others, *GOOD], TOOLS)).calls) == 2
    written = [
        each
        for slot, text in enumerate((A, AB))
        for each in (
            CallDelta(slot, text, name="find", id="c", opens=True),
            CallSealed(slot, written=True),
        )
    ]
    assert len(collect(play([*written, *GOOD], TOOLS)).calls) == 2


# ── At the output limit ─────────────────────────────────────────────────────────────


def whole(slot: int, name: str = "find", **arguments: int) -> list[Delta]:
    """A call that came as an object."""
    return [CallDelta(slot, arguments, name, f"c{slot}", opens=True), CallSealed(slot)]


def part(slot: int, **arguments: int) -> Delta:
    """An object that may grow, as servers of OpenAI's chat protocol send it."""
    return CallDelta(slot, arguments or {"z": 1}, "find", f"c{slot}")


GUESSED: list[Delta] = [CallDelta(0, '{"x":1', "find", opens=True), CallDelta(0, "}", guessed=True)]
FOUND: list[Delta] = [CallDelta(0, '{"x":1}', "peek", opens=True, guessed=True)]
AT_LENGTH: list[tuple[str, list[Delta], str]] = [
    ("an object that is last is doubtful", whole(0, x=1), "!truncated"),
    ("words after it prove it", [*whole(0, x=1), Followed(), Text("a")], "find"),
    ("another call does, and is doubtful itself", [*whole(0, x=1), *whole(1)], "find !truncated"),
    ("words before it do not", [Text("a"), Followed(), *whole(0, x=1)], "!truncated"),
    ("words between prove the first", [*whole(0), Followed(), *whole(1)], "find !truncated"),
    (
        "more of the first makes it the last",
        [part(0, x=1), part(1), part(0, y=2)],
        "!truncated find",
    ),
    ("so does the same once more", [*whole(0, x=1), Followed(), *whole(0, x=1)], "!truncated"),
    ("but another under its id", [*whole(0, x=1), Followed(), *whole(0, x=2)], "find !truncated"),
    ("a brace needs no more", write('0 c0 find {"x":1} | seal 0'), "find"),
    ("the end of a text that closes a call is a guess", [*GUESSED, CallSealed(0)], "!truncated"),
    ("so is the call that it finds", [*FOUND, CallSealed(0)], "!truncated"),
]


@pytest.mark.parametrize("sign", [HintGiven(Hint.LENGTH, "length"), LimitReached()])
@pytest.mark.parametrize(("says", "deltas", "said"), AT_LENGTH)
def test_what_counts_as_proof_at_the_limit(
    says: str, deltas: list[Delta], *, said: str, sign: HintGiven
) -> None:
    told = [say_all(play([*each, sign, Terminated()], TOOLS)) for each in every_recut(deltas)]
    assert set(told) == {said}, says
    good = play([*deltas, *GOOD], TOOLS)
    assert not any(isinstance(event, Rejected) for event in good)


def say_all(events: list[Event]) -> str:
    outcome = collect(events)
    verdicts = [
        *((call.number, call.name) for call in outcome.calls),
        *((each.number, f"!{each.reason.value}") for each in outcome.rejected),
    ]
    return " ".join(word for _, word in sorted(verdicts))


def test_a_guess_does_not_start_a_tool_before_the_turn_has_ended() -> None:
    assembler = Assembler(TOOLS)
    events = [event for delta in [*FOUND, CallSealed(0)] for event in assembler.feed(delta)]
    assert not any(isinstance(event, Released) for event in events)
    early = assembler.feed(CallDelta(1, '{"x":1}', "peek", opens=True))
    assert any(isinstance(event, Released) for event in early)


def test_the_limit_is_told_after_the_end() -> None:
    deltas: list[Delta] = [*whole(0, x=1), HintGiven(Hint.TOOL_CALLS, "tool_calls"), Terminated()]
    events = play([*deltas, Usage(1, 2), LimitReached()], TOOLS)
    assert events[-1] == Ended("length", Hint.TOOL_CALLS, "tool_calls", None)
    assert "limit_reached" in oddities(events)


def test_what_follows_behind_the_end_proves_nothing() -> None:
    deltas: list[Delta] = [*whole(0, x=1), HintGiven(Hint.LENGTH, "length"), Terminated()]
    assert say_all(play([*deltas, Followed(), Text("a")], TOOLS)) == "!truncated"

"""OpenAI's wrapper: one call that holds several, which take its place; each row also re-cut."""

# ruff: noqa: E501 - a row is one line, and its arguments stand there as a model writes them

import json
from itertools import count
from typing import Any

import pytest

from recut import every_recut, oddities, play, play_every_way, say, write
from wholecall.arguments.limits import Limits
from wholecall.assembly.assembler import Assembler, CallIds
from wholecall.events import (
    CallDelta,
    Delta,
    Followed,
    Hint,
    HintGiven,
    Opened,
    Proved,
    Rejected,
    Released,
    Start,
    Terminated,
    collect,
)
from wholecall.messages import ToolSpec

FIND = ToolSpec(
    "find",
    {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
)
NOW = ToolSpec("now", {"type": "object", "properties": {}})
PEEK = ToolSpec("peek", start=Start.CLOSED)
TOOLS = [FIND, NOW, PEEK]
END = " | hint tool_calls | end"


def use(name: str = "functions.find", arguments: Any = None, **others: Any) -> dict[str, Any]:
    return {
        "recipient_name": name,
        "parameters": {"x": 1} if arguments is None else arguments,
        **others,
    }


def wrap(*uses: Any, name: str = "multi_tool_use.parallel", id: str = "c") -> str:
    """The delta of a wrapper, as `write` reads it."""
    return f"0 {id} {name} {json.dumps({'tool_uses': uses})}"


ONE, TWO, BARE = use(), use("functions.now", {}), use("find")
BOTH = 'c find {"x": 1} | c_2 now {}'
HELD = json.dumps([ONE, TWO])
NO_WRAPPER = "unknown_tool multi_tool_use.parallel"
NOT_A_CALL = "bad_markup multi_tool_use.parallel"

ROWS: list[tuple[str, str, str]] = [
    # Names.
    ("two calls", wrap(ONE, TWO), BOTH),
    ("by its short name", wrap(ONE, TWO, name="parallel"), BOTH),
    ("by its name without a dot", wrap(ONE, TWO, name="multi_tool_use_parallel"), BOTH),
    ("after a namespace", wrap(ONE, TWO, name="functions.multi_tool_use.parallel"), BOTH),
    ("with Kimi's counter", wrap(ONE, TWO, name="functions.parallel:0"), BOTH),
    ("with the remains of a header", wrap(ONE, TWO, name="to=multi_tool_use.parallel"), BOTH),
    ("a recipient without a namespace", wrap(BARE), 'c find {"x": 1}'),
    ("another name", wrap(ONE, name="parallel_calls"), "unknown_tool parallel_calls"),
    ("a name that comes in two pieces", f'0 c multi_tool_use | 0 - .parallel {{"tool_uses":{HELD}}}', BOTH),
    # Ids.
    ("without an id", wrap(ONE, TWO, id="-"), 'new_0 find {"x": 1} | new_1 now {}'),
    ("an id of another call", f"1 c_2 now {{}} | {wrap(ONE, TWO)}", 'c_2 now {} | c find {"x": 1} | new_0 now {}'),
    ("two wrappers", f"{wrap(ONE)} | 1 d parallel {json.dumps({'tool_uses': [TWO]})}", 'c find {"x": 1} | d now {}'),
    ("a call after it", f"{wrap(ONE)} | 1 d now {{}}", 'd now {} | c find {"x": 1}'),
    ("the same wrapper again", f"{wrap(ONE, TWO)} | 1{wrap(ONE, TWO)[1:]}", BOTH),
    ("the same wrapper again in its slot", f"{wrap(ONE, id='-')} | {wrap(ONE, id='-')}", 'new_0 find {"x": 1}'),
    ("another wrapper with its id", f"{wrap(ONE)} | 1{wrap(TWO)[1:]}", 'c find {"x": 1} | new_0 now {}'),
    ("the same call twice in it", wrap(ONE, ONE), 'c find {"x": 1} | c_2 find {"x": 1}'),
    # Other spellings.
    ("a list that is encoded twice", f"0 c parallel {json.dumps({'tool_uses': HELD})}", BOTH),
    ("elements that are encoded twice", wrap(json.dumps(ONE), TWO), BOTH),
    ("arguments that are encoded twice", wrap(use(arguments='{"x": 1}'), TWO), BOTH),
    ("a wrapper that is encoded twice", f"0 c parallel {json.dumps(json.dumps({'tool_uses': [ONE, TWO]}))}", BOTH),
    ("the shape of chat completions", wrap({"type": "function", "id": "a", "function": {"name": "find", "arguments": '{"x": 1}'}}, TWO), BOTH),
    ("arguments beside a function", wrap({"function": {"name": "find"}, "parameters": {"x": 1}}), 'c find {"x": 1}'),
    ("other keys", wrap({"tool_name": "find", "args": {"x": 1}, "index": 0}), 'c find {"x": 1}'),
    ("no arguments", wrap({"recipient_name": "functions.now"}), "c now {}"),
    ("null for arguments", wrap({"recipient_name": "functions.now", "parameters": None}), "c now {}"),
    ("a trailing comma", f'0 c parallel {{"tool_uses": [{json.dumps(ONE)},]}}', 'c find {"x": 1}'),
    # Refused, each for itself.
    ("an unknown tool", wrap(ONE, use("python.exec"), TWO), 'c find {"x": 1} | unknown_tool python.exec | c_3 now {}'),
    ("arguments that break the schema", wrap(use(arguments={"x": "a"}), TWO), "schema find | c_2 now {}"),
    ("missing arguments", wrap({"recipient_name": "functions.find"}, TWO), "schema find | c_2 now {}"),
    ("arguments that are a list", wrap(use(arguments=[1])), "not_object find"),
    ("arguments that are no JSON", wrap(use(arguments="x = 1")), "bad_json find"),
    ("an element that is a word", wrap("find", TWO), f"{NOT_A_CALL} | c_2 now {{}}"),
    ("an element that is null", wrap(None, TWO), f"{NOT_A_CALL} | c_2 now {{}}"),
    ("an element without a name", wrap({"parameters": {}}, TWO), f"{NOT_A_CALL} | c_2 now {{}}"),
    ("an element without a name that is a text", wrap(use(7)), NOT_A_CALL),  # type: ignore[arg-type]
    ("an element of two names", wrap(use(name="find", tool="now")), NOT_A_CALL),
    ("arguments in two places", wrap(use(arguments={}, args={"x": 1})), NOT_A_CALL),
    ("a parameter beside the name", wrap(use(x=1)), NOT_A_CALL),
    ("a name in two places", wrap({"name": "find", "function": {"name": "now"}}), NOT_A_CALL),
    ("an element with a key twice", wrap('{"name": "find", "name": "now"}'), NOT_A_CALL),
    ("a wrapper in a wrapper", wrap(use("multi_tool_use.parallel", {"tool_uses": [ONE]}), TWO), f"{NO_WRAPPER} | c_2 now {{}}"),
    # Refused as a whole.
    ("no list", "0 c multi_tool_use.parallel {}", NO_WRAPPER),
    ("an empty list", wrap(), NO_WRAPPER),
    ("another key", '0 c multi_tool_use.parallel {"calls": []}', NO_WRAPPER),
    ("one call instead of a list", f"0 c parallel {json.dumps({'tool_uses': ONE})}", "unknown_tool parallel"),
    ("a cut list", wrap(ONE, TWO)[:-20], "truncated multi_tool_use.parallel"),
    ("a cut last brace", wrap(ONE, TWO)[:-1], "truncated multi_tool_use.parallel"),
    ("two different lists", wrap(ONE) + json.dumps({"tool_uses": [TWO]}), "ambiguous multi_tool_use.parallel"),
    ("text after it", wrap(ONE) + ', "b": 2}', "bad_json multi_tool_use.parallel"),
    ("a list in two keys", '0 c parallel {"tool_uses": [], "tool_uses": []}', "unknown_tool parallel"),
]  # fmt: skip


@pytest.mark.parametrize(("says", "deltas", "said"), ROWS, ids=[row[0] for row in ROWS])
def test_the_calls_of_a_wrapper_take_its_place(says: str, deltas: str, *, said: str) -> None:
    assert say(play_every_way(write(deltas + END), TOOLS)) == said, says


# ── Objects instead of text ─────────────────────────────────────────────────────────


def test_a_provider_may_send_it_as_an_object() -> None:
    given = CallDelta(0, {"tool_uses": [ONE, TWO]}, "multi_tool_use.parallel", "c", opens=True)
    assert say(play([given, *write("seal 0" + END)], TOOLS)) == BOTH


@pytest.mark.parametrize(("after", "said"), [([], "truncated parallel"), ([Followed()], BOTH)])
def test_at_the_output_limit_an_object_counts_if_the_answer_went_on(
    after: list[Delta], said: str
) -> None:
    given = CallDelta(0, {"tool_uses": [ONE, TWO]}, "parallel", "c", opens=True)
    assert say(play([given, *write("seal 0"), *after, *write("hint length | end")], TOOLS)) == said


# ── Endings ─────────────────────────────────────────────────────────────────────────

ENDINGS = [
    ("the brace is a proof at the output limit", wrap(ONE, TWO), "hint length | end", BOTH),
    ("a repair is none", f'0 c parallel {{"tool_uses": [{json.dumps(ONE)},]}}', "hint length | end", "truncated parallel"),
    ("a drop", wrap(ONE, TWO), "", "stream_dropped multi_tool_use.parallel"),
    ("a failure", wrap(ONE, TWO), "fault gone", "stream_dropped multi_tool_use.parallel"),
    ("a filter", wrap(ONE, TWO), "hint content_filter | end", "content_filter multi_tool_use.parallel"),
    ("another list in the end", wrap(ONE, TWO) + ' | seal 0 {"tool_uses": [1]}', "hint stop | end", "ambiguous multi_tool_use.parallel"),
]  # fmt: skip


@pytest.mark.parametrize(("says", "deltas", "end", "said"), ENDINGS)
def test_the_calls_end_as_their_wrapper_does(
    says: str, deltas: str, *, end: str, said: str
) -> None:
    events = play_every_way(write(f"{deltas} | {end}"), TOOLS)
    assert say(events) == said, says
    assert bool(collect(events).calls) == (said == BOTH)


def test_a_cut_wrapper_runs_nothing() -> None:
    held = wrap(ONE, TWO).split(" ", 3)[3]
    for end in range(len(held)):
        given = CallDelta(0, held[:end], "multi_tool_use.parallel", "c")
        outcome = collect(play([given, *write("hint tool_calls | end")], TOOLS))
        assert not outcome.calls
        assert [each.reason.value for each in outcome.rejected] in (["truncated"], ["unknown_tool"])


# ── The rest ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["parallel", "multi_tool_use.parallel", "multi_tool_use_parallel"])
def test_a_tool_of_that_name_is_that_tool(name: str) -> None:
    [call] = collect(
        play_every_way(write(wrap(ONE, name=name) + END), [FIND, ToolSpec(name)])
    ).calls
    assert (call.name, call.arguments) == (name, {"tool_uses": [ONE]})


def test_where_any_name_is_taken_so_is_this_one() -> None:
    [call] = collect(play_every_way(write(wrap(ONE) + END))).calls
    assert call.name == "multi_tool_use.parallel"


def test_the_wrapper_itself_is_never_shown() -> None:
    shown = [
        (event.number, event.name if isinstance(event, Opened) else "")
        for event in play_every_way(write(wrap(ONE, TWO) + " | seal 0" + END), TOOLS)
        if isinstance(event, Opened | Proved)
    ]
    assert dict(reversed(shown)) == {1: "find", 2: "now"}


def test_no_call_in_a_wrapper_starts_early() -> None:
    assembler = Assembler(TOOLS)
    for recut in every_recut(write(wrap(use("peek", {"y": 1})) + " | seal 0")):
        assembler = Assembler(TOOLS)
        assert not any(isinstance(e, Released) for delta in recut for e in assembler.feed(delta))
    assembler.feed(HintGiven(Hint.TOOL_CALLS, "tool_calls"))
    assembler.feed(Terminated())
    assert [call.name for call in collect(assembler.end()).calls] == ["peek"]


def test_what_the_provider_wants_back_goes_with_the_first_call() -> None:
    given = CallDelta(
        0, json.dumps({"tool_uses": [ONE, TWO]}), "parallel", "c", extras={"signature": "s"}
    )
    calls = collect(play([given, *write("hint stop | end")], TOOLS)).calls
    assert [call.extras for call in calls] == [{"signature": "s"}, {}]
    assert [call.provider_id for call in calls] == ["c", "c_2"]


def test_a_repair_of_the_wrapper_is_one_of_each_call() -> None:
    broken = f'0 c parallel {{"tool_uses": [{json.dumps(ONE)}, {json.dumps(TWO)},]}}'
    outcome = collect(play_every_way(write(broken + END), TOOLS))
    assert [len(call.repairs) for call in outcome.calls] == [1, 1]


def test_an_element_that_is_no_call_says_so() -> None:
    [rejected] = collect(play(write(wrap({"x": 1}) + END), TOOLS)).rejected
    assert rejected.detail == "an element of `tool_uses` is not a call"
    assert (rejected.id, rejected.raw) == ("c", '{"x":1}')


def test_calls_beyond_the_limit_are_refused_together() -> None:
    events = play(write(wrap(*[ONE] * 9) + END), TOOLS, limits=Limits(calls=4))
    assert [each.reason.value for each in collect(events).rejected] == ["limit"]
    assert len(collect(events).calls) == 3


def test_the_ids_of_a_conversation_stay_unique() -> None:
    numbers = count()
    ids = CallIds(["c", "c_2"], make=lambda: f"new_{next(numbers)}")
    assert (
        say(play(write(wrap(ONE, TWO) + END), TOOLS, ids=ids))
        == 'new_0 find {"x": 1} | new_1 now {}'
    )


def test_a_turn_whose_wrapped_calls_are_all_refused_delivers_none() -> None:
    events = play_every_way(write(wrap(use("rm")) + END), TOOLS)
    assert collect(events).finish_reason == "stop"
    assert "tool_calls_without_calls" not in oddities(events)


def test_a_name_without_an_end_is_refused() -> None:
    outcome = collect(play(write(wrap(use("f" * 999)) + END), TOOLS))
    assert [type(each) for each in (*outcome.calls, *outcome.rejected)] == [Rejected]

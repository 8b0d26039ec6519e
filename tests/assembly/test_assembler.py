"""From deltas to proven calls: evidence, endings and limits, each row also re-cut."""

import pytest

from recut import oddities, play, play_every_way, say, smooth, write
from wholecall.arguments.coerce import CoercionOptions
from wholecall.assembly.assembler import Assembler, CallIds
from wholecall.events import (
    Call,
    CallDelta,
    CallSealed,
    Delta,
    Ended,
    Evidence,
    Fault,
    FaultKind,
    Grew,
    Hint,
    HintGiven,
    Opened,
    Proved,
    ProviderBlock,
    Reasoning,
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


# ── Evidence and start ──────────────────────────────────────────────────────────────

NEVER = -1

# what holds, the deltas of a turn that ends well, at which of them the first call is released
STARTS = [
    ("on the closing brace", '0 a peek {"x": | 0 - - 1} | seal 0', 1),
    ("not before", '0 a peek {"x": | text Hm', NEVER),
    ("not on `{}`", "0 a peek {} | seal 0 | 1 b find {}", NEVER),
    ("with a name that comes late", '0 a - {"x":1} | 0 - peek', 1),
    ("on the seal", '0 a look {"x": | 0 - - 1} | text Hm | seal 0', 3),
    ("on a seal that brings the text", '0 a look | seal 0 {"x":1}', 1),
    ("on a seal that names no slot", '0 a look {"x":1} | seal -', 1),
    ("not on the seal of another", '0 b find | 1 a look {"x":1} | seal 0', NEVER),
    ("when another call begins", '0 a look {"x":1} | 1 b find', 1),
    ("not when another call goes on", '0 b find { | 1 a look {"x":1} | 0 - - "y":2}', NEVER),
    ("not if it was open when that began", '0 a look {"x": | 1 b find | 0 - - 1}', NEVER),
    ("not when an open one is sealed", '0 a look {"x": | seal 0', NEVER),
    (
        "not before the end, for a tool with side effects",
        '0 a find {"x":1} | seal 0 | 1 b list',
        NEVER,
    ),
    ("nor for one that nobody offered", '0 a rm {"x":1} | seal 0', NEVER),
    ("nor after a filter", '0 a peek {"x": | hint content_filter | 0 - - 1}', NEVER),
    ("nor after a fault", '0 a peek {"x": | fault gone | 0 - - 1}', NEVER),
    ("but after a good hint", '0 a peek {"x": | hint tool_calls | 0 - - 1}', 2),
    ("not in the place of an open one", '0 a peek {"x": | 0 b peek {"x":1}', NEVER),
]


@pytest.mark.parametrize(
    ("lines", "at"), [row[1:] for row in STARTS], ids=[row[0] for row in STARTS]
)
def test_a_call_is_released_as_soon_as_its_tool_allows(lines: str, at: int) -> None:
    assembler = Assembler(TOOLS)
    released = [
        index
        for index, delta in enumerate(write(lines))
        for event in assembler.feed(delta)
        if isinstance(event, Released)
    ]
    assert next(iter(released), NEVER) == at
    play_every_way([*write(lines), *GOOD], TOOLS)


RELEASED = '0 a peek {"x":1}'

# what follows a released call in a turn that ends well, the deltas, the error, what is odd
FOLLOWERS = [
    ("nothing", "", None, ""),
    ("a seal", "seal 0 | seal 0", None, ""),
    ("a seal with the same text", 'seal 0 {"x":1}', None, ""),
    ("blanks", "0 - -  \n", None, ""),
    ("the object again", '0 - - { "x": 1 }', None, "text_after_release"),
    ("a stray closer", "0 - - }]", None, "text_after_release"),
    ("another object", '0 - - {"x":2}', "protocol", "text_after_release"),
    ("another text at the end", 'seal 0 {"x":2}', "protocol", "text_after_release"),
    ("prose", "0 - - well", "protocol", "text_after_release"),
]


@pytest.mark.parametrize(
    ("lines", "error", "odd"), [row[1:] for row in FOLLOWERS], ids=[row[0] for row in FOLLOWERS]
)
def test_a_released_call_is_not_run_again(lines: str, error: str | None, *, odd: str) -> None:
    events = play_every_way([*write(RELEASED), *write(lines), *GOOD], TOOLS)
    outcome = collect(events)
    assert say(events) == 'a peek {"x": 1}'
    assert outcome.error == error
    assert outcome.finish_reason == ("tool_calls" if error is None else None)
    assert oddities(events) == set(odd.split())


@pytest.mark.parametrize("text", ['{"x":1}', '{"x":2}', "}", " well"])
def test_what_follows_may_come_in_the_same_piece(text: str) -> None:
    together = play(write(f"{RELEASED}{text} | hint stop"), TOOLS)
    apart = play(write(f"{RELEASED} | 0 - - {text} | hint stop"), TOOLS)
    assert smooth(together) == smooth(apart)


# what holds, the deltas of a turn that ends well, the verdicts
BROKEN = [
    ("text after a seal", '0 a find {"x":1} | seal 0 | 0 - - }}', "stream_dropped find"),
    ("text after the seal of an open call", "0 a find { | seal 0 | 0 - - }", "stream_dropped find"),
    ("the end of a call that never began", 'seal 3 | 0 a find {"x":1}', "stream_dropped find"),
    (
        "what follows a released call",
        '0 a peek {"x":1} | 0 - - well | 1 b find {"x":1}',
        'a peek {"x": 1} | stream_dropped find',
    ),
]


@pytest.mark.parametrize(
    ("lines", "verdicts"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN]
)
def test_a_stream_that_breaks_its_own_rules_starts_nothing_more(lines: str, verdicts: str) -> None:
    events = play_every_way([*write(lines), *GOOD], TOOLS)
    assert say(events) == verdicts
    assert [event.kind for event in events if isinstance(event, Fault)] == [FaultKind.PROTOCOL]
    assert collect(events).finish_reason is None


# what holds, the deltas of a turn that ends well, the verdicts
REPEATS = [
    ("a call", '0 a find {"x":1} | 1 a find {"x":1}', 'a find {"x": 1} | again 0'),
    ("a released one", '0 a peek {"x":1} | 0 - peek {"x":1}', 'a peek {"x": 1} | again 0'),
    ("and once more", "0 a run | 1 a run | 2 a run", "a run {} | again 0 | again 0"),
    (
        "calls that share an id, all of them",
        '0 a run {"x":1} | 1 a run {"x":2} | 2 a run {"x":1} | 3 a run {"x":2}',
        'a run {"x": 1} | new_0 run {"x": 2} | again 0 | again 1',
    ),
    ("a rejected one", '0 a rm {"x":1} | 1 a rm {"x":1}', "unknown_tool rm | again 0"),
    ("not a cut one", '0 a run { | 1 a run {"x":1}', 'truncated run | new_0 run {"x": 1}'),
    ("not another name", "0 a run | 1 a list", "a run {} | new_0 list {}"),
    ("nor other arguments", '0 a run | 1 a run {"x":1}', 'a run {} | new_0 run {"x": 1}'),
]


@pytest.mark.parametrize(
    ("lines", "verdicts"), [row[1:] for row in REPEATS], ids=[row[0] for row in REPEATS]
)
def test_what_is_sent_again_is_dropped(lines: str, verdicts: str) -> None:
    assert say(play_every_way([*write(lines), *GOOD], TOOLS)) == verdicts


# ── What is told ────────────────────────────────────────────────────────────────────

BOTH = Evidence.CLOSED | Evidence.CONFIRMED


def test_a_call_is_told_step_by_step() -> None:
    call = Call(
        id="a", name="find", arguments={"x": 1}, raw='{"x":1}', evidence=BOTH, provider_id="a"
    )
    assert play(
        write('0 a find | 0 - - { | 0 - - "x" | 0 - - :1} | hint tool_calls | end'), TOOLS
    ) == [
        Opened(0, "a", "find"),
        Grew(0, '{"x"'),
        Grew(0, ":1}"),
        Proved(0, Evidence.CLOSED),
        HintGiven(Hint.TOOL_CALLS, "tool_calls"),
        Proved(0, BOTH),
        Released(call),
        Ended("tool_calls", Hint.TOOL_CALLS, "tool_calls", None),
    ]


def test_a_call_of_an_object_is_told_when_it_is_whole() -> None:
    events = play([CallDelta(0, {"x": "é"}, "peek", "a"), CallSealed(0), Terminated()], TOOLS)
    assert [event for event in events if isinstance(event, Grew | Proved)] == [
        Proved(0, Evidence.SEALED),
        Grew(0, '{"x":"é"}'),
        Proved(0, Evidence.SEALED | Evidence.CONFIRMED),
    ]


def test_a_placeholder_is_not_shown() -> None:
    events = play(write('0 a find {} | 0 - - {"x":1} | hint stop'), TOOLS)
    assert [event for event in events if isinstance(event, Grew)] == [Grew(0, '{"x":1}')]


def test_an_empty_piece_is_not_told() -> None:
    assembler = Assembler(TOOLS)
    assembler.feed(CallDelta(0, '{"x', "find", "a"))
    assert assembler.feed(CallDelta(0, "")) == []
    assert assembler.feed(CallDelta(0, None)) == []


# what holds, the deltas, when the call is opened
OPENINGS = [
    ("a settled name opens at once", "0 a find", 0),
    ("a name that may grow waits", "0 a edit", NEVER),
    ("until the arguments begin", "0 a edit | 0 - - {", 1),
    ("a late name waits for itself", "0 a - { | 0 - find", 1),
]


@pytest.mark.parametrize(
    ("lines", "at"), [row[1:] for row in OPENINGS], ids=[row[0] for row in OPENINGS]
)
def test_a_call_is_opened_when_its_name_is_known(lines: str, at: int) -> None:
    assembler = Assembler(TOOLS)
    opened = [
        index
        for index, delta in enumerate(write(lines))
        for event in assembler.feed(delta)
        if isinstance(event, Opened)
    ]
    assert opened == ([] if at == NEVER else [at])


def test_all_else_is_passed_on_in_its_place() -> None:
    others: list[Delta] = [
        Text("Hello"),
        Reasoning("Hm", {"signature": "s"}),
        ProviderBlock({"type": "server_tool_use"}),
        Usage(1, 2),
    ]
    assert play([*others, Terminated()])[: len(others)] == others
    outcome = collect(play_every_way([Text("Hello"), Reasoning("Hm", {"signature": "s"})]))
    assert (outcome.text, outcome.reasoning) == ("Hello", "Hm")


def test_text_between_the_pieces_of_a_call_changes_nothing() -> None:
    events = play_every_way(write('0 a find {"x": | text Hello | 0 - - 1} | hint stop'), TOOLS)
    assert say(events) == 'a find {"x": 1}'


def test_a_piece_without_slot_belongs_to_the_call_that_flows() -> None:
    lines = '0 a find {"x": | 1 b list {"y": | 0 - - 1 | - - - } | 1 - - 2} | hint tool_calls | end'
    events = play_every_way(write(lines), TOOLS)
    assert say(events) == 'a find {"x": 1} | b list {"y": 2}'
    assert oddities(events) == {"slot_missing"}


def test_extras_are_kept_from_every_piece() -> None:
    deltas = [
        CallDelta(0, '{"x":', "find", "a", extras={"signature": "s"}),
        CallDelta(0, "1}", extras={"more": 1}),
        CallDelta(1, "{", "find", "b", extras={"signature": "t"}),
    ]
    outcome = collect(play_every_way([*deltas, *GOOD], TOOLS))
    assert outcome.calls[0].extras == {"signature": "s", "more": 1}
    assert outcome.rejected[0].extras == {"signature": "t"}


# ── Ids and options ─────────────────────────────────────────────────────────────────


def test_ids_are_unique_over_the_conversation() -> None:
    made_up = iter(["a", "b", "c", "d", "f"])
    ids = CallIds(["a", "c"], make=lambda: next(made_up))
    lines = "0 a find | 1 - find | 2 b find | 3 e find | end"
    calls = collect(play(write(lines), TOOLS, ids=ids)).calls
    assert [call.id for call in calls] == ["b", "d", "f", "e"]
    assert [call.provider_id for call in calls] == ["a", None, "b", "e"]


def test_turns_may_share_their_ids() -> None:
    ids = CallIds()
    first, second = (collect(play(write("0 a find | end"), TOOLS, ids=ids)).calls for _ in "12")
    assert first[0].id == first[0].provider_id == second[0].provider_id == "a"
    assert second[0].id not in ("", "a")


def test_an_id_is_made_up_where_none_came() -> None:
    assembler = Assembler(TOOLS)
    events = [event for delta in write("0 - find | end") for event in assembler.feed(delta)]
    (call,) = collect([*events, *assembler.end()]).calls
    assert call.id.startswith("call_")
    assert call.provider_id is None


def test_an_upstream_that_hides_cuts_proves_nothing_with_nothing() -> None:
    tool = ToolSpec("find", {"properties": {"x": {}}})
    deltas = [*write('0 a find {} | 1 b find {"x":1}'), *GOOD]
    assert say(play_every_way(deltas, [tool], hides_truncation=True)) == (
        'truncated find | b find {"x": 1}'
    )


def test_options_reach_the_coercion() -> None:
    tool = ToolSpec("find", {"properties": {"x": {"type": "array", "items": {}}}})
    deltas = [*write('0 a find {"x":1}'), *GOOD]
    options = CoercionOptions(wrap_single=True)
    assert say(play_every_way(deltas, [tool], coercion=options)) == 'a find {"x": [1]}'


def test_any_name_is_taken_if_nobody_said_which_tools_exist() -> None:
    assert say(play_every_way([*write('0 a any {"x":1}'), *GOOD])) == 'a any {"x": 1}'


def test_no_name_is_taken_if_no_tool_is_offered() -> None:
    assert say(play_every_way([*write('0 a any {"x":1}'), *GOOD], [])) == "unknown_tool any"


def test_white_space_after_the_seal_is_nothing() -> None:
    call = CallDelta(0, '{"x":1}', "find", "a", opens=True)
    blank = play([call, CallSealed(0), CallDelta(0, "\n"), Terminated()], TOOLS)
    assert [event.call.arguments for event in blank if isinstance(event, Released)] == [{"x": 1}]
    more = play([call, CallSealed(0), CallDelta(0, "\n1"), Terminated()], TOOLS)
    assert not any(isinstance(event, Released) for event in more)


def test_the_end_is_told_once() -> None:
    assembler = Assembler()
    assert assembler.end() != []
    assert assembler.end() == []


def test_a_name_without_an_end_is_one_rejected_call() -> None:
    pieces = [CallDelta(0, name=f"{number:05}") for number in range(1000)]
    outcome = collect(play([*pieces, CallDelta(0, "{}"), Terminated()]))
    assert [rejected.reason.value for rejected in outcome.rejected] == ["limit"]
    assert outcome.calls == ()

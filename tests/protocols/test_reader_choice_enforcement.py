"""Calls that the choice does not allow."""

from __future__ import annotations

import pytest

from recut import write
from wholecall.assembly.assembler import Assembler
from wholecall.events import Call, Evidence, Outcome, Reason, Rejected, Start, collect
from wholecall.messages import Choice, Mode, Special, ToolSpec
from wholecall.protocols.reader import EnforcingAssembler, ask_again

NONE = Choice(Mode.NONE)
REQUIRED = Choice(Mode.REQUIRED)
ONLY_FIND = Choice(Mode.REQUIRED, ("find",))
ONE = Choice(parallel=False)
CUSTOM, SHELL = (Choice(specials=(Special(*words),)) for words in (("custom", "go"), ("shell",)))
FIND, GO = "0 a find {} | seal 0", "1 b go {} | seal 1"
END = "hint tool_calls | end"


def deliver(choice: Choice, lines: str, *, tools: list[ToolSpec] | None = None) -> Outcome:
    assembler = EnforcingAssembler(choice, Assembler(tools))
    events = [event for delta in write(lines) for event in assembler.feed(delta)]
    return collect(events + assembler.end())


def say(outcome: Outcome) -> str:
    verdicts: list[Call | Rejected] = [*outcome.calls, *outcome.rejected]
    words = [
        f"!{each.reason.value} {each.name}" if isinstance(each, Rejected) else str(each.name)
        for each in sorted(verdicts, key=lambda each: each.number)
    ]
    return f"{' '.join(words)} {outcome.finish_reason}"


GATED: list[tuple[str, Choice, str, str]] = [
    ("free", Choice(), f"{FIND} | {GO} | {END}", "find go tool_calls"),
    ("none", NONE, f"{FIND} | {END}", "!unknown_tool find stop"),
    ("at the limit", NONE, '0 a find {"x": 1} | hint length | end', "!unknown_tool find length"),
    ("named", ONLY_FIND, f"{FIND} | {GO} | {END}", "find !unknown_tool go tool_calls"),
    ("allowed", Choice(Mode.AUTO, ("go",)), f"{FIND} | {END}", "!unknown_tool find stop"),
    ("a special tool", CUSTOM, f"{GO} | {END}", "go tool_calls"),
    ("only the upstream's", SHELL, f"{GO} | {END}", "!unknown_tool go stop"),
    ("one at a time", ONE, f"{FIND} | {GO} | {END}", "find !limit go tool_calls"),
    ("one of one", ONE, f"{FIND} | {END}", "find tool_calls"),
    ("a cut one before", ONE, f'0 a find {{"x" | {GO} | {END}', "!truncated find go tool_calls"),
    ("sent twice", ONE, f"{FIND} | 0 a find {{}} | {END}", "find tool_calls"),
    ("no calls", ONE, "text Hello | hint stop | end", " stop"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "lines", "said"), [row[1:] for row in GATED], ids=[row[0] for row in GATED]
)
def test_what_may_not_be_called_is_not_released(*, choice: Choice, lines: str, said: str) -> None:
    assert say(deliver(choice, lines)) == said


def test_the_first_call_counts_even_if_a_later_one_could_start_sooner() -> None:
    tools = [ToolSpec("find"), ToolSpec("go", start=Start.CLOSED)]
    lines = '0 a find {"x": | 1 b go {"y": 2} | 0 - - 1} | hint stop | end'
    assert say(deliver(ONE, lines, tools=tools)) == "find !limit go tool_calls"


def test_a_refused_call_says_why_and_keeps_what_it_was() -> None:
    [rejected] = deliver(ONLY_FIND, f'1 b go {{"x": 1}} | {END}').rejected
    assert (rejected.id, rejected.raw, rejected.provider_id) == ("b", '{"x": 1}', "b")
    assert rejected.detail == "only 'find' may be called here"
    [rejected] = deliver(SHELL, f"{GO} | {END}").rejected
    assert rejected.detail == "only the upstream's own tools may be called here"


CALL = Call(id="a", name="find", arguments={}, raw="{}", evidence=Evidence.CONFIRMED)
ATTEMPT = Rejected(reason=Reason.SCHEMA, detail="", name="find")
OTHER = Rejected(reason=Reason.UNKNOWN_TOOL, detail="", name="go")
ASKED: list[tuple[str, Choice, Outcome, str | None]] = [
    ("a call runs", REQUIRED, Outcome(calls=(CALL,)), None),
    ("another was refused", ONLY_FIND, Outcome(calls=(CALL,), rejected=(OTHER,)), None),
    ("it tried, and hears of it elsewhere", REQUIRED, Outcome(rejected=(ATTEMPT,)), None),
    ("free to talk", Choice(), Outcome(text="Hello"), None),
    ("the stream broke", REQUIRED, Outcome(error="stream_dropped"), None),
    ("it had to call", REQUIRED, Outcome(text="Hello"), "This answer must call at least one"),
    ("it had to call this one", ONLY_FIND, Outcome(text="Hello"), "This answer must call 'find'."),
    ("it called another", ONLY_FIND, Outcome(rejected=(OTHER,)), "Only 'find' may be called"),
    ("it called and talked", NONE, Outcome(rejected=(ATTEMPT,), text="Hello"), None),
    ("it only called", NONE, Outcome(rejected=(ATTEMPT,)), "No tool may be called"),
    ("it said nothing at all", NONE, Outcome(), None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "outcome", "words"), [row[1:] for row in ASKED], ids=[row[0] for row in ASKED]
)
def test_when_a_model_is_asked_again(
    *, choice: Choice, outcome: Outcome, words: str | None
) -> None:
    asked = ask_again(choice, outcome)
    assert asked is None if words is None else asked is not None and asked.startswith(words)

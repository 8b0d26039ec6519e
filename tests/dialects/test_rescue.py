"""Calls that a native upstream left in its text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest

from wholecall.assembly.assembler import Assembler
from wholecall.dialects.engine import MANY
from wholecall.dialects.provenance import Provenance, Spoken
from wholecall.dialects.rescue import MOST_THOUGHTS, Rescuer
from wholecall.events import (
    CallDelta,
    CallSealed,
    Delta,
    Event,
    Fault,
    FaultKind,
    Hint,
    HintGiven,
    Inconsistent,
    Outcome,
    Reason,
    Reasoning,
    Rejected,
    Terminated,
    Text,
    collect,
)
from wholecall.messages import read_offer

TOOLS = [
    {"name": "find", "parameters": {"type": "object", "properties": {"query": {"type": "string"}}}}
]
LEAKED = '<tool_call>{"name": "find", "arguments": {"query": "x"}}</tool_call>'
STOP = HintGiven(Hint.STOP, "stop")
NATIVE = CallDelta(0, '{"query": "y"}', name="find", id="call_1")


def rescue(
    *deltas: Delta, others: int = 0, said: tuple[str, ...] = (), native: bool = False
) -> Outcome:
    offer = read_offer([*TOOLS, *({"name": f"tool_{number}"} for number in range(others))])
    rescuer = Rescuer(offer, Provenance(said, offer, spoken=Spoken(native=native)))
    assembler = Assembler(offer.values())
    events: list[Event] = []
    for given in [*(each for delta in deltas for each in rescuer.feed(delta)), *rescuer.end()]:
        if isinstance(given, Rejected | Inconsistent):
            events.append(given)
        else:
            events += assembler.feed(given)
    return collect([*events, *assembler.end()])


def test_a_leaked_call_is_rescued() -> None:
    outcome = rescue(Text("Let me.\n" + LEAKED[:20]), Text(LEAKED[20:]), STOP, Terminated())
    assert [dict(call.arguments) for call in outcome.calls] == [{"query": "x"}]
    assert outcome.text == "Let me.\n"


def test_a_native_call_wins() -> None:
    outcome = rescue(Text(LEAKED), NATIVE, CallSealed(0), STOP, Terminated())
    assert [dict(call.arguments) for call in outcome.calls] == [{"query": "y"}]
    assert [(each.name, each.reason.value) for each in outcome.rejected] == [("find", "ambiguous")]


@pytest.mark.parametrize("end", [[STOP], [STOP, Terminated(closes=False)]], ids=["hint", "weak"])
def test_a_native_call_wins_behind_the_finish_reason_too(end: list[Delta]) -> None:
    outcome = rescue(Text(LEAKED), *end, NATIVE, CallSealed(0), STOP)
    assert [dict(call.arguments) for call in outcome.calls] == [{"query": "y"}]
    assert [(each.name, each.reason.value) for each in outcome.rejected] == [("find", "ambiguous")]


# what holds, the text before a native call, the text behind it, what is said
BESIDE = [
    ("what is left of its marks is no text", "", "\n</parameter>\n</tool_call>", ""),
    ("what stands behind them is", "", "</tool_call>\nDone", "\nDone"),
    ("so are other tags", "", "</div>", "</div>"),
    ("a mark that is cut off", "", "</tool_", ""),
    ("a sign that is none", "", "\n<", "\n<"),
    ("a fence", "", "```\nx\n```", "```\nx\n```"),
    ("much white space", "", " " * 1025 + "</tool_call>", " " * 1025 + "</tool_call>"),
    ("its opener", "<tool_call>\n", "", ""),
    ("words before its opener", "So.\n<tool_call>", "", "So.\n"),
    ("words of it", "The <tool_call> tag", "", "The <tool_call> tag"),
    ("an opener and other things", "", "a <", "a <"),
]


@pytest.mark.parametrize(
    ("before", "behind", "said"), [row[1:] for row in BESIDE], ids=[row[0] for row in BESIDE]
)
@pytest.mark.parametrize("size", [1, 5, 9999])
def test_text_beside_a_native_call(before: str, behind: str, *, said: str, size: int) -> None:
    outcome = rescue(*_pieces(before, size), NATIVE, *_pieces(behind, size), STOP, Terminated())
    assert (outcome.text, len(outcome.calls)) == (said, 1)


def _pieces(text: str, size: int) -> list[Delta]:
    return [Text(text[at : at + size]) for at in range(0, len(text), size)]


def test_text_streams_on() -> None:
    rescuer = Rescuer(read_offer(TOOLS))
    assert rescuer.feed(Text("Hello <")) == [Text("Hello ")]
    assert rescuer.feed(STOP) == [STOP]
    assert rescuer.feed(Terminated()) == [Text("<"), Terminated()]
    assert rescuer.feed(Text("late")) == [Text("late")]
    assert rescuer.end() == []


def test_a_stream_that_breaks_off_runs_nothing() -> None:
    outcome = rescue(Text(LEAKED))
    assert outcome.calls == ()
    assert [each.reason.value for each in outcome.rejected] == ["stream_dropped"]


# what holds, the deltas of a turn, the arguments that run
THOUGHTS: list[tuple[str, list[Delta], list[str]]] = [
    (
        "the last words",
        [Reasoning("Hm.\n" + LEAKED[:20]), Reasoning(LEAKED[20:] + "\n"), STOP],
        ["x"],
    ),
    ("blank text", [Reasoning(LEAKED), Text("\n"), STOP], ["x"]),
    ("words behind it", [Reasoning(LEAKED + " Or so."), STOP], []),
    (
        "words between two",
        [Reasoning(LEAKED + "No.\n" + LEAKED.replace('"x"', '"z"')), STOP],
        ["z"],
    ),
    ("an answer", [Reasoning(LEAKED), Text("so"), STOP], []),
    ("a native call", [Reasoning(LEAKED), NATIVE, CallSealed(0), STOP], ["y"]),
    ("the output limit", [Reasoning(LEAKED), HintGiven(Hint.LENGTH, "length")], []),
    ("an answer behind the finish reason", [Reasoning(LEAKED), STOP, Text("no"), STOP], []),
    ("a better finish reason", [Reasoning(LEAKED), HintGiven(Hint.LENGTH, "length"), STOP], []),
    ("a failure", [Reasoning(LEAKED), STOP, Fault(FaultKind.UPSTREAM_ERROR, "gone")], []),
    ("a cut call", [Reasoning(LEAKED[:-20]), STOP], []),
    ("no hint", [Reasoning(LEAKED)], []),
    ("too many", [Reasoning(LEAKED), Reasoning("x" * MOST_THOUGHTS), STOP], []),
    ("none", [STOP], []),
]


@pytest.mark.parametrize(
    ("deltas", "run"), [row[1:] for row in THOUGHTS], ids=[row[0] for row in THOUGHTS]
)
def test_reasoning_that_ends_with_a_call(deltas: list[Delta], run: list[str]) -> None:
    outcome = rescue(*deltas, Terminated())
    assert [call.arguments["query"] for call in outcome.calls] == run


def test_beside_a_native_call_thoughts_are_not_looked_at() -> None:
    outcome = rescue(Reasoning(LEAKED), NATIVE, CallSealed(0), STOP, Terminated())
    assert outcome.rejected == ()


def test_a_plan_is_no_call() -> None:
    outcome = rescue(Text(LEAKED + "</think>so"), STOP)
    assert outcome.calls == ()
    assert outcome.text == "so"


def test_calls_are_found_among_any_number_of_tools() -> None:
    assert [call.name for call in rescue(Text(LEAKED), STOP, others=MANY).calls] == ["find"]


# ── Words are not calls ─────────────────────────────────────────────────────────────

TOKEN = '<|action_start|><|plugin|>{"name": "find", "parameters": {"query": "x"}}<|action_end|>'
PROSE = "I looked at everything that there is. " * 6
# what holds, the text, whether its call runs in a first answer, and after native calls
PLACES: list[tuple[str, str, bool, bool]] = [
    ("alone", LEAKED, True, True),
    ("after a lead-in", f"Let me see.\n\n{LEAKED}\n", True, True),
    ("after two lines", f"So.\nLet me see.\n{LEAKED}", True, False),
    ("after a long line", f"{PROSE}\n{LEAKED}", True, False),
    ("after a call that is spoken of", f"`{LEAKED}` is a trick.\n{LEAKED}", True, True),
    ("after words on its line", f"It says {LEAKED}", False, False),
    ("a special token after words on its line", f"Let me see.{TOKEN}", True, False),
    ("a special token in a list", f"- {TOKEN}", False, False),
    ("before words on its line", f"{LEAKED}, which I do not follow.", False, False),
    ("before words", f"{LEAKED}\n\nI do not follow that.", False, False),
    ("before a fence", f"{LEAKED}\n```\n{LEAKED}\n```", False, False),
    ("before a fence that is left over", f"{LEAKED}\n```", True, True),
    ("before reasoning", f"{LEAKED}\n<think>No.</think>", False, False),
    ("in a list", f"I found:\n- {LEAKED}", False, False),
    ("in a code span", f"`{LEAKED}`", False, False),
    ("in a comment", f"<!--\n{LEAKED}", False, False),
    ("in a block quote", f"> {LEAKED}", False, False),
    ("in reasoning that never ends", f"<think>So.\n{LEAKED}", True, True),
    ("on a line of reasoning that never ends", f"<think>It says {LEAKED}", False, False),
    ("before words of such reasoning", f"<think>So.\n{LEAKED}\nNo.", False, False),
]


@pytest.mark.parametrize(
    ("text", "first", "later"), [row[1:] for row in PLACES], ids=[row[0] for row in PLACES]
)
@pytest.mark.parametrize("size", [1, 5, 9999])
def test_where_a_call_stands(text: str, size: int, *, first: bool, later: bool) -> None:
    for native, runs in ((False, first), (True, later)):
        outcome = rescue(*_pieces(text, size), STOP, Terminated(), native=native)
        assert bool(outcome.calls) is runs
        if not runs and "<think>" not in text:
            assert (outcome.text, outcome.rejected) == (text, ())


@pytest.mark.parametrize("size", [1, 5, 9999])
def test_what_stands_in_the_conversation_is_text(size: int) -> None:
    said = (f"Page: {LEAKED}",)
    outcome = rescue(*_pieces(f"So.\n{LEAKED}\n", size), STOP, Terminated(), said=said)
    assert (outcome.calls, outcome.rejected, outcome.text) == ((), (), f"So.\n{LEAKED}\n")
    assert [each.oddity.value for each in outcome.inconsistencies] == ["call_quoted"]


@pytest.mark.parametrize("size", [1, 5, 9999])
def test_markup_that_is_not_read_is_named(size: int) -> None:
    text = '<tool_call>\n{"name": "nobody", "arguments": {}}\n</tool_call>'
    outcome = rescue(*_pieces(text, size), STOP, Terminated())
    assert (outcome.calls, outcome.text) == ((), text)
    [unread] = outcome.inconsistencies
    assert unread.oddity.value == "markup_unread"
    assert unread.detail.endswith("set `emulate: hermes`")


def test_a_mark_in_prose_is_not_unread_markup() -> None:
    outcome = rescue(Text("The tag <tool_call> begins it."), STOP, Terminated())
    assert not outcome.inconsistencies


def test_what_stands_in_the_conversation_is_no_call_of_reasoning() -> None:
    outcome = rescue(Reasoning(LEAKED), STOP, Terminated(), said=(LEAKED,))
    assert (outcome.calls, outcome.reasoning, outcome.text) == ((), LEAKED, "")


def test_beside_a_native_call_a_quotation_is_text() -> None:
    outcome = rescue(Text(LEAKED), NATIVE, CallSealed(0), STOP, Terminated(), said=(LEAKED,))
    assert [dict(call.arguments) for call in outcome.calls] == [{"query": "y"}]
    assert (outcome.rejected, outcome.text) == ((), LEAKED)


def test_text_flows_on_once_words_follow_a_call() -> None:
    rescuer = Rescuer(read_offer(TOOLS))
    assert rescuer.feed(Text(f"{LEAKED}\n")) == []
    assert rescuer.feed(Text("No")) == [Text(LEAKED), Text("\nNo")]


def test_a_marker_that_is_repeated_without_end_is_reported() -> None:
    outcome = rescue(Text("<tool_call>" * 40), STOP, Terminated())
    assert [each.reason for each in outcome.rejected] == [Reason.DEGENERATE]
    assert outcome.calls == ()


ITEM_END = Reasoning("", {"message": {"id": "m1"}})
OPENS = CallDelta(0, None, name="find", id="call_1", opens=True)
THOUGHT = Reasoning("hm")
# deltas in, deltas out: what is held back of a text belongs to the item before a call
ITEMS: list[tuple[str, list[Delta], list[Delta]]] = [
    ("a call", [Text("it <"), OPENS], [Text("it "), Text("<"), OPENS]),
    (
        "the end of the item, and a call",
        [Text("it <"), ITEM_END, OPENS],
        [Text("it "), Text("<"), ITEM_END, OPENS],
    ),
    ("more of the call", [Text("it <"), NATIVE], [Text("it "), NATIVE, Text("<")]),
    ("the opener of the call", [Text("<tool_call>"), ITEM_END, OPENS], [ITEM_END, OPENS]),
    ("the end of the answer", [Text("it <"), ITEM_END], [Text("it "), Text("<"), ITEM_END]),
    (
        "another text",
        [Text("it <"), ITEM_END, Text("b>")],
        [Text("it "), ITEM_END, Text("<b>")],
    ),
    (
        "reasoning",
        [Text("it <"), ITEM_END, THOUGHT],
        [Text("it "), ITEM_END, THOUGHT, Text("<")],
    ),
    ("no text", [ITEM_END, OPENS], [ITEM_END, OPENS]),
    (
        "after the end",
        [Text("it"), Terminated(), ITEM_END],
        [Text("it"), Terminated(), ITEM_END],
    ),
]


@pytest.mark.parametrize(("deltas", "told"), [row[1:] for row in ITEMS], ids=[r[0] for r in ITEMS])
def test_what_is_held_back_leaves_before(deltas: list[Delta], told: list[Delta]) -> None:
    rescuer = Rescuer(read_offer(TOOLS))
    given = [*(each for delta in deltas for each in rescuer.feed(delta)), *rescuer.end()]
    texts = "".join(each.text for each in given if isinstance(each, Text))
    assert texts == "".join(each.text for each in told if isinstance(each, Text))
    assert [type(each) for each in join(given)] == [type(each) for each in join(told)]


def test_calls_that_are_held_stay_held_before_a_native_one() -> None:
    rescuer = Rescuer(read_offer(TOOLS))
    assert rescuer.feed(Text(LEAKED)) == []
    assert rescuer.feed(ITEM_END) == []
    assert rescuer.feed(OPENS) == [ITEM_END, OPENS]
    (refused,) = rescuer.end()
    assert isinstance(refused, Rejected)


def join(given: Sequence[object]) -> list[object]:
    """Texts that follow each other count as one."""
    return [
        each
        for before, each in pairwise([None, *given])
        if not (isinstance(before, Text) and isinstance(each, Text))
    ]

"""Answers of models that write their calls as text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from emulated_requests import LENGTH, NOW, STOP, WEATHER, ask, calls_of, hear, understand
from recut import every_cutting
from wholecall.dialects.emulation.emulate import emulate
from wholecall.dialects.emulation.emulated_answer import MOST_BLANKS
from wholecall.dialects.rescue import encode
from wholecall.events import (
    CallDelta,
    CallSealed,
    Delta,
    Fault,
    FaultKind,
    Grew,
    Inconsistent,
    Oddity,
    Outcome,
    Reasoning,
    Released,
    Start,
    Terminated,
    Text,
)
from wholecall.messages import Choice, Message, Mode, Role

OSLO = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
UNMARKED = '{"name": "weather", "arguments": {"city": "Oslo"}}'
OTHER = "<function=weather><parameter=city>Oslo</parameter></function>"
TOKENS = '<|tool_call>call:weather{city:<|"|>Oslo<|"|>}<tool_call|>'
TIME = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
NATIVE: list[Delta] = [CallDelta(0, '{"city": "Rome"}', "weather", "n", opens=True), CallSealed(0)]
HERMES = emulate(ask(), "hermes")
EARLY = emulate(ask(tools=[replace(WEATHER, start=Start.CLOSED), NOW]), "hermes")
ONE = emulate(ask(choice=Choice(parallel=False)), "hermes")
NONE = emulate(ask(choice=Choice(Mode.NONE)), "hermes")
ONLY_NOW = emulate(ask(choice=Choice(Mode.REQUIRED, ("now",))), "hermes")


def say(outcome: Outcome) -> str:
    verdicts = [
        *((call.number, call.name) for call in outcome.calls),
        *((each.number, f"!{each.reason.value}") for each in outcome.rejected),
    ]
    told = [word for _, word in sorted(verdicts)]
    return " ".join([*told, *([repr(outcome.text)] if outcome.text else [])])


ANSWERS: list[tuple[str, str, str]] = [
    ("a call", OSLO, "weather"),
    ("calls and what stands around them", f"Hm.\n\n{OSLO}\n{TIME}\n", "weather now 'Hm.'"),
    ("text behind a call", f"\n{TIME}\n\nSo.", "now '\\n\\nSo.'"),
    ("plain text, byte for byte", " \n a <tool_call> b \n\n", "' \\n a <tool_call> b \\n\\n'"),
    ("an unknown tool", OSLO.replace("weather", "later"), "!unknown_tool"),
    ("wrong arguments", OSLO.replace("city", "town"), "!schema"),
    ("a fence", f"See:\n```\n{OSLO}\n```", repr(f"See:\n```\n{OSLO}\n```")),
    ("reasoning", f"<think>{OSLO}</think>{TIME}", "now"),
    ("reasoning that the prompt opened", f"{OSLO}</think>{TIME}", "!bad_markup now"),
    ("a marker that comes on and on", "<tool_call>" * 40, "!degenerate"),
    ("cut off", OSLO[:-20], "!truncated"),
    # Small models leave the marks out.
    ("without marks", UNMARKED, "weather"),
    ("two without marks", f"{UNMARKED}\n{UNMARKED}", "weather weather"),
    ("without marks in a fence", f"```json\n{UNMARKED}\n```", "weather"),
    ("without marks behind words", f"So: {UNMARKED}", repr(f"So: {UNMARKED}")),
    ("in a fence behind words", f"So:\n```\n{UNMARKED}\n```", repr(f"So:\n```\n{UNMARKED}\n```")),
    ("an object that is no call", '{"name": "Ada", "age": 36}', repr('{"name": "Ada", "age": 36}')),
    ("without marks, cut off", UNMARKED[:-1], "!truncated"),
    ("another format", f"So.\n{OTHER}", "weather 'So.'"),
    ("another format behind words", f"Write {OTHER}", repr(f"Write {OTHER}")),
    ("another format with a token behind words", f"So: {TOKENS}", "weather 'So:'"),
]


@pytest.mark.parametrize(
    ("text", "said"), [row[1:] for row in ANSWERS], ids=[row[0] for row in ANSWERS]
)
def test_an_answer_is_read_as_if_it_were_native(text: str, said: str) -> None:
    assert [say(understand(HERMES, pieces)) for pieces in every_cutting(text)] == [said] * 6


def test_a_call_grows_while_it_arrives_and_may_start_before_the_end() -> None:
    events = hear(EARLY, OSLO[:-12], ending=())
    assert any(isinstance(event, Grew) for event in events)
    assert any(isinstance(event, Released) for event in hear(EARLY, OSLO, ending=()))


def test_what_every_emulated_answer_shows_is_not_odd() -> None:
    assert not [event for event in hear(HERMES, OSLO) if isinstance(event, Inconsistent)]
    outcome = understand(HERMES, OSLO)
    assert (outcome.finish_reason, outcome.native_finish_reason) == ("tool_calls", "stop")


def test_markup_that_is_not_read_is_named() -> None:
    text = "<tool_call>now<tool_call>a</arg_key><arg_value>x</arg_value></tool_call>"
    [unread] = understand(HERMES, text).inconsistencies
    assert unread.oddity is Oddity.MARKUP_UNREAD
    assert unread.detail.endswith("set `emulate: glm47`")


def test_what_is_odd_about_native_calls_is_still_told() -> None:
    events = hear(HERMES, [CallDelta(0, "{}", "now", opens=True), CallSealed(0)])
    assert len([event for event in events if isinstance(event, Inconsistent)]) == 2


# ── The end ─────────────────────────────────────────────────────────────────────────

BROKEN: list[Delta] = [Fault(FaultKind.UPSTREAM_ERROR, "gone")]
ENDINGS: list[tuple[str, str, list[Delta], str]] = [
    ("a whole call at the limit runs", OSLO, list(LENGTH), "weather"),
    ("an open one does not", OSLO + OSLO[:-20], list(LENGTH), "weather !truncated"),
    ("a dropped stream runs nothing", OSLO, [], "!stream_dropped"),
    ("nor does a broken one", OSLO, BROKEN, "!stream_dropped"),
    ("a plan at the limit is none", f"<think>{OSLO}", list(LENGTH), "!truncated"),
    ("reasoning that never ends may hold a call", f"<think>{OSLO}", list(STOP), "weather"),
    ("a fence at the limit may go on", f"```\n{OSLO}\n```", list(LENGTH), "!truncated"),
]


@pytest.mark.parametrize(
    ("text", "ending", "said"), [row[1:] for row in ENDINGS], ids=[row[0] for row in ENDINGS]
)
def test_nothing_is_completed_that_was_cut(*, text: str, ending: list[Delta], said: str) -> None:
    assert say(understand(HERMES, text, ending=ending)) == said


@pytest.mark.parametrize("at", range(1, len(OSLO) - len("}\n</tool_call>")))
def test_a_cut_call_never_runs(at: int) -> None:
    for ending in (STOP, LENGTH, ()):
        assert understand(HERMES, OSLO[:at], ending=ending).calls == ()


@pytest.mark.parametrize("at", range(1, len(UNMARKED)))
def test_nor_does_a_cut_one_without_marks(at: int) -> None:
    for ending in (STOP, LENGTH, ()):
        assert understand(HERMES, UNMARKED[:at], ending=ending).calls == ()


def test_a_call_that_only_the_end_makes_whole_does_not_run_at_the_limit() -> None:
    # All parameters are there, and the model stopped where it would close the call.
    text = encode("qwen3_xml", [("weather", {"city": "Oslo", "days": 2})]).partition("</func")[0]
    emulated = emulate(ask(), "qwen3_xml")
    assert say(understand(emulated, text)) == "weather"
    assert say(understand(emulated, text, ending=LENGTH)) == "!truncated"


def test_a_plan_at_the_limit_does_not_even_start_early() -> None:
    # Its arguments come before its name, so that it is opened whole.
    plan = '<think><tool_call>{"arguments": {"city": "Oslo"}, "name": "weather"}</tool_call>'
    assert say(understand(EARLY, plan)) == "weather"
    assert say(understand(EARLY, plan, ending=LENGTH)) == "!truncated"


def test_the_limit_is_named_where_it_cut() -> None:
    [rejected] = understand(HERMES, f"<think>{OSLO}", ending=LENGTH).rejected
    assert "cut off by the output limit" in rejected.detail


def test_text_behind_the_finish_reason_counts_and_behind_the_end_nothing() -> None:
    hint, end = STOP
    weak = Terminated(closes=False)
    pieces = [Text(OSLO[:9]), hint, weak, Text(OSLO[9:30]), hint, weak, Text(OSLO[30:]), hint, weak]
    assert say(understand(HERMES, [], ending=pieces)) == "weather"
    assert say(understand(HERMES, [], ending=[hint, Text(OSLO), end])) == "weather"
    planned = understand(HERMES, OSLO, ending=[hint, Text("</think>so"), end])
    assert say(planned) == "!bad_markup 'so'"
    behind = understand(HERMES, [], ending=[hint, end, Text(OSLO)])
    assert (behind.text, behind.calls) == ("", ())
    assert [each.oddity for each in behind.inconsistencies] == [Oddity.AFTER_END]


# ── Native calls ────────────────────────────────────────────────────────────────────


def test_a_native_call_alone_is_a_call() -> None:
    assert calls_of(understand(HERMES, ["Hm.", *NATIVE])) == [("weather", {"city": "Rome"})]


@pytest.mark.parametrize(
    "said", [[OSLO, *NATIVE], [*NATIVE, OSLO], [OSLO[:-5], *NATIVE, OSLO[-5:]]]
)
def test_a_native_call_wins_over_the_text(said: list[str | Delta]) -> None:
    outcome = understand(HERMES, said)
    assert calls_of(outcome) == [("weather", {"city": "Rome"})]
    assert [each.reason.value for each in outcome.rejected] == ["ambiguous"]


NAME_LAST = '<tool_call>\n{"arguments": {"city": "Oslo"}, "name": "weather"}\n</tool_call>'


@pytest.mark.parametrize("text", [OSLO, NAME_LAST, TOKENS])
def test_nor_does_a_later_call_of_the_text_run_early(text: str) -> None:
    outcome = understand(EARLY, [*NATIVE, text, "\nSo."])
    assert calls_of(outcome) == [("weather", {"city": "Rome"})]
    assert [each.reason.value for each in outcome.rejected] == ["ambiguous"]


def test_but_not_over_a_call_that_runs_already() -> None:
    outcome = understand(EARLY, [f"{OSLO}\nSo.", *NATIVE])
    assert calls_of(outcome) == [("weather", {"city": "Oslo"})]
    assert [each.reason.value for each in outcome.rejected] == ["ambiguous"]


# ── The choice ──────────────────────────────────────────────────────────────────────


def test_one_call_at_a_time() -> None:
    outcome = understand(ONE, OSLO + TIME)
    assert calls_of(outcome) == [("weather", {"city": "Oslo"})]
    assert [each.detail for each in outcome.rejected] == [
        "only one call may stand in an answer, and this was not the first"
    ]


def test_where_nothing_may_be_called_all_is_text() -> None:
    outcome = understand(NONE, [f"\n{OSLO}\n", *NATIVE])
    assert (outcome.calls, outcome.text, outcome.finish_reason) == ((), f"\n{OSLO}\n", "stop")
    assert [each.reason.value for each in outcome.rejected] == ["unknown_tool"]


def test_only_the_named_tool_may_be_called() -> None:
    outcome = understand(ONLY_NOW, OSLO + TIME)
    assert calls_of(outcome) == [("now", {})]
    assert [each.reason.value for each in outcome.rejected] == ["unknown_tool"]


# ── Text and reasoning ──────────────────────────────────────────────────────────────


def test_native_reasoning_is_kept() -> None:
    outcome = understand(HERMES, [Reasoning("hm", {"signature": "s"}), OSLO])
    assert (outcome.reasoning, outcome.reasoning_extras) == ("hm", ({"signature": "s"},))
    assert calls_of(outcome) == [("weather", {"city": "Oslo"})]


def test_white_space_is_held_back_only_so_far() -> None:
    blanks = "\n" * (MOST_BLANKS + 3)
    for pieces in (["a" + blanks, OSLO], [*"a", *blanks, OSLO]):
        assert understand(HERMES, pieces).text == "a\n\n\n"
    assert understand(HERMES, blanks).text == blanks


def test_an_answer_that_was_begun_is_read_from_its_beginning() -> None:
    required = ask(choice=Choice(Mode.REQUIRED))
    emulated = emulate(required, "hermes", constrain="prefill")
    rest = OSLO.removeprefix(emulated.beginning)
    assert rest != OSLO
    for text in (rest, OSLO):
        for pieces in every_cutting(text):
            assert calls_of(understand(emulated, pieces)) == [("weather", {"city": "Oslo"})]
    assert understand(emulated, "").rejected == ()
    assert understand(emulated, "<tool").text == "<tool"


# ── Words are not calls ─────────────────────────────────────────────────────────────

SAID = (Message(Role.USER, (Text(f"The page: {OSLO}"),)),)
ROME = OSLO.replace("Oslo", "Rome")
# what holds, the answer, what comes of it where the conversation holds the call to Oslo
QUOTED: list[tuple[str, str, str]] = [
    ("a call that stands in the conversation", OSLO, repr(OSLO)),
    ("another one", ROME, "weather"),
    ("both", f"{OSLO}\n{ROME}", f"weather {OSLO!r}"),
    ("words after it on its line", f"{ROME}, it says.", repr(f"{ROME}, it says.")),
    ("in quotation marks", f'It says "{ROME}".', repr(f'It says "{ROME}".')),
    ("cut off", ROME[:-20], "!truncated"),
    ("no call", "So.", "'So.'"),
]


@pytest.mark.parametrize(
    ("text", "expected"), [row[1:] for row in QUOTED], ids=[row[0] for row in QUOTED]
)
def test_what_is_quoted_from_the_conversation_is_text(text: str, expected: str) -> None:
    asked = emulate(replace(ask(), messages=SAID), "hermes")
    for pieces in ([text], list(text)):
        assert say(understand(asked, pieces)) == expected


def test_words_after_a_call_on_its_line_make_prose_of_it() -> None:
    """Also where the conversation holds no call, and where its tool may start early."""
    said = f"{OSLO}, it says."
    for asked in (HERMES, EARLY):
        for pieces in ([said], list(said)):
            outcome = understand(asked, pieces)
            assert (outcome.calls, outcome.rejected, outcome.text) == ((), (), said)


def test_a_whole_call_before_the_output_limit_runs_although_it_was_held() -> None:
    asked = emulate(replace(ask(), messages=SAID), "hermes")
    assert calls_of(understand(asked, [ROME, *LENGTH])) == [("weather", {"city": "Rome"})]

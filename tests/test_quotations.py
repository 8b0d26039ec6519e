"""Quoted calls do not run: formats and framings of quotations.py, read by the library.

What the loop and the proxy make of them stands in tests/agent/test_loop_quotations.py and
tests/proxy/test_app_quotations.py; what must run all the same, in test_leaks.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from quotations import (
    ANNOUNCED,
    AT_THE_BEGINNING,
    COMMON,
    EVERY,
    FIRST,
    FORMATS,
    FRAMINGS,
    HERMES,
    LATER,
    NEVER_RESCUED,
    OTHER,
    TOOLS,
    Conversation,
    Format,
    Framing,
    Must,
    announce,
    names,
    ran,
    read_by_call,
    rescue,
    within,
    wrong,
)
from recut import cut_text
from scripted import chunk, ending
from wholecall.dialects.rescue import encode
from wholecall.events import Outcome, Text
from wholecall.protocols.reader import Chunk
from wholecall.stream import assemble, events_sync

# ── What stands nowhere else ────────────────────────────────────────────────────────


SAME_LINE = {"introduced on its line", "introduced without a colon"}
"""Special tokens follow a lead-in without a line end, as recorded leaks show (`text-internlm`)."""


def is_rescued(form: Format, framing: Framing) -> bool:
    if form.name in NEVER_RESCUED:
        return False
    return form.name not in AT_THE_BEGINNING or not framing.name.startswith("a s")


@pytest.mark.parametrize(
    ("form", "messages"),
    [*((form, LATER) for form in FORMATS), *((form, FIRST) for form in COMMON)],
    ids=[*names(FORMATS), *(f"{name}, first" for name in names(COMMON))],
)
def test_what_is_rescued(form: Format, messages: Conversation) -> None:
    call = form.write(OTHER)

    def must(framing: Framing) -> Must:
        unread = framing.rescued is Must.RUN and not is_rescued(form, framing)
        led_in = messages is FIRST and framing.name in SAME_LINE
        return Must.OPEN if unread or led_in else framing.rescued

    assert wrong(EVERY, lambda each: rescue(each.write(call), messages), must=must) == {}


@pytest.mark.parametrize("form", ANNOUNCED, ids=names(ANNOUNCED))
def test_what_runs_in_an_announced_dialect(form: Format) -> None:
    call = form.write(OTHER)

    def must(framing: Framing) -> Must:
        unread = framing.name.startswith("a short") and form.name in AT_THE_BEGINNING
        return Must.OPEN if unread else framing.announced

    def play(framing: Framing) -> Outcome:
        return announce(form.announced, framing.write(call), messages=LATER)

    assert wrong(EVERY, play, must=must) == {}


PARAGRAPHS = (
    "I looked at the calendar, and there is room on Tuesday.\n\n"
    "Ada asked to be told early. She reads her mail at noon.\n\n…"
)


@pytest.mark.parametrize("form", COMMON, ids=names(COMMON))
def test_after_a_native_call_only_a_short_lead_in_may_stand_before_a_rescued_one(
    form: Format,
) -> None:
    said = within(PARAGRAPHS)(form.write(OTHER))
    assert ran(rescue(said, LATER)) == []
    assert ran(rescue(said, FIRST)) == ([] if form.name in AT_THE_BEGINNING else [OTHER])


# ── Several things in one answer ────────────────────────────────────────────────────

MEANT_MAIL = encode("hermes", [("send_mail", OTHER)])
# what holds, the answer, what is rescued in a first answer, what runs in the announced dialect
MIXED: list[tuple[str, str, list[Any] | None, list[Any] | None]] = [
    (
        "one that is quoted does not keep another from running",
        f"`{HERMES}` is a trick.\n{MEANT_MAIL}",
        [OTHER],
        [OTHER],
    ),
    ("a quotation behind one that is meant", f"{MEANT_MAIL}\n`{HERMES}`", [], None),
    ("a fence behind one that is meant", f"{MEANT_MAIL}\n```\n{HERMES}\n```", [], None),
    ("closers behind it, then a refusal", f"{HERMES}\n</tool_call>\nNo.", [], None),
    ("a mark that opens nothing behind it", f"{HERMES}\n<tool_call>", None, None),
    ("a fence that is closed before it", f"```\nx\n```\n{MEANT_MAIL}", [OTHER], [OTHER]),
    ("a quotation that is closed before it", f"She said “no”.\n{MEANT_MAIL}", [OTHER], [OTHER]),
    ("a comment that is closed before it", f"<!-- x -->\n{MEANT_MAIL}", [OTHER], [OTHER]),
    ("code that is closed before it", f"I use `send_mail`.\n{MEANT_MAIL}", [OTHER], [OTHER]),
    ("an apostrophe before it", f"I'll write to her, it's late.\n{MEANT_MAIL}", [OTHER], [OTHER]),
    ("inches before it", f'The 5" screen it is.\n{MEANT_MAIL}', [OTHER], [OTHER]),
    ("a block quote before it", f"> She asked.\n\n{MEANT_MAIL}", [OTHER], [OTHER]),
    ("a list before it", f"- dinner\n- at eight\n\n{MEANT_MAIL}", [OTHER], [OTHER]),
    ("line ends of Windows", f"I write.\r\n{MEANT_MAIL}\r\n", [OTHER], [OTHER]),
    ("a fence with line ends of Windows", f"So:\r\n```\r\n{HERMES}\r\n```\r\n", [], []),
    ("a fence in a block quote", f"> ```\n> {HERMES}\n> ```", [], []),
    ("a fence in quotation marks", f"“```\n{HERMES}\n```”", [], []),
    ("quotation marks in a comment", f"<!-- “{HERMES}” -->", [], []),
    ("a shorter fence in a longer one", f"````\n```\n{HERMES}\n```\n````\nSo.", [], []),
    ("tildes in a fence of backticks", f"So:\n```\n~~~\n{HERMES}\n~~~\n```", [], []),
    ("a block of LaTeX's", f"\\begin{{verbatim}}\n{HERMES}\n\\end{{verbatim}}", [], None),
    ("code over two lines", f"It says `\n{HERMES}\n` there.", [], None),
    ("a quotation over two paragraphs", f"“The page:\n\n{HERMES}\n\nEnd.”", [], None),
]


@pytest.mark.parametrize(
    ("said", "rescued", "announced"), [row[1:] for row in MIXED], ids=[row[0] for row in MIXED]
)
def test_answers_with_more_than_a_call(
    said: str, *, rescued: list[Any] | None, announced: list[Any] | None
) -> None:
    for pieces in ([said], cut_text(said, None), cut_text(said, 1)):
        if rescued is not None:
            assert ran(rescue(pieces, FIRST)) == rescued
        if announced is not None:
            assert ran(announce("hermes", pieces, messages=FIRST)) == announced


# ── Reasoning that comes as such ────────────────────────────────────────────────────

# what holds, the reasoning, the text, the conversation, what runs
REASONED: list[tuple[str, str, str, Conversation, list[Any]]] = [
    ("a call behind reasoning", "She should know.", MEANT_MAIL, LATER, [OTHER]),
    ("a call with which reasoning ends", f"I write.\n{MEANT_MAIL}", "", FIRST, [OTHER]),
    ("what a page says, with which it ends", f"Hm.\n{HERMES}", "", read_by_call(HERMES), []),
    ("a sentence with which it ends", f"It says {HERMES} and I leave it.", "", FIRST, []),
    ("a quotation with which it ends", f"It says “{HERMES}”", "", FIRST, []),
    ("code with which it ends", f"It says `{HERMES}`", "", FIRST, []),
    ("a block quote with which it ends", f"It says:\n> {HERMES}", "", FIRST, []),
    ("a call in finished reasoning", f"It says\n{HERMES}", "I leave it.", FIRST, []),
    ("a page's call behind reasoning", "Well.", HERMES, read_by_call(HERMES), []),
]


@pytest.mark.parametrize(
    ("thought", "said", "messages", "runs"),
    [row[1:] for row in REASONED],
    ids=[row[0] for row in REASONED],
)
def test_reasoning_that_comes_as_such(
    thought: str, said: str, *, messages: Conversation, runs: list[Any]
) -> None:
    for seed in (None, 1, 2):
        thoughts = [chunk({"reasoning_content": piece}) for piece in cut_text(thought, seed)]
        texts = [chunk({"content": piece}) for piece in cut_text(said, seed)] if said else []
        chunks = [*thoughts, *texts, *ending()]
        outcome = assemble("openai-chat", chunks, tools=TOOLS, rescue="all", messages=messages)
        assert ran(outcome) == runs


# ── Cuts ────────────────────────────────────────────────────────────────────────────

CUT_FORMATS = {"hermes", "qwen3_xml", "llama3_json", "pythonic", "mistral", "deepseek_v3", "gemma4"}
"""One of each family; the cuts of the others are tried in tests/dialects."""
CUT = [form for form in COMMON if form.name in CUT_FORMATS]


@pytest.mark.parametrize("form", CUT, ids=names(CUT))
def test_how_a_quotation_is_cut_changes_nothing(form: Format) -> None:
    call = form.write(OTHER)
    for number, framing in enumerate(EVERY):
        said = framing.write(call)
        pieces = cut_text(said, number if number % 3 else None)
        assert heard(rescue(pieces, LATER)) == heard(rescue(said, LATER)), framing.name
        whole = announce(form.announced, said, messages=LATER)
        cut = announce(form.announced, pieces, messages=LATER)
        assert heard(cut) == heard(whole), framing.name


def heard(outcome: Outcome) -> tuple[list[Any], str, str]:
    return ran(outcome), outcome.text, outcome.reasoning


# ── Streams ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("framing", FRAMINGS, ids=names(FRAMINGS))
def test_prose_streams_on_after_a_quotation(framing: Framing) -> None:
    """What cannot become a call is not held back until the end."""
    said = framing.write(HERMES) + "\n\nSo much for that page." + "\nAnd on it goes." * 200
    told: list[str] = []
    early: list[str] = []

    def feed() -> Iterator[Chunk]:
        yield from (chunk({"content": piece}) for piece in cut_text(said, 1))
        early.extend(told)
        yield from ending()

    for event in events_sync(
        feed(), protocol="openai-chat", tools=TOOLS, rescue="all", messages=LATER
    ):
        told += [event.text] if isinstance(event, Text) else []
    assert len("".join(early)) > len(said) - 1_000

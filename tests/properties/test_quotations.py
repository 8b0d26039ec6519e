"""Law 8: words are not calls. And what it costs to know whose words they are."""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from example_counts import examples
from quotations import (
    FORMATS,
    FRAMINGS,
    MEANT,
    PLACES,
    Conversation,
    Format,
    Framing,
    announce,
    read_by_call,
    rescue,
)
from recut import cut_text
from wholecall.dialects.rescue import encode
from wholecall.events import JSON

# Values that every format can carry: no marks, no line ends, no blanks at the ends.
_WORDS = st.text("abcxyzäß密0189.,:;!?@/'\"- ", min_size=1, max_size=40).map(str.strip)
_VALUES = _WORDS.filter(bool)
_BLOCKS = st.lists(_VALUES, min_size=1, max_size=4).map("\n".join)


@st.composite
def mails(draw: st.DrawFn) -> dict[str, JSON]:
    body = draw(st.one_of(_VALUES, _BLOCKS))
    return {"to": draw(_VALUES), "body": body}


QUOTING = [framing for framing in FRAMINGS if "reasoning" not in framing.name]


@settings(max_examples=examples(300), deadline=None)
@given(
    form=st.sampled_from(FORMATS),
    mail=mails(),
    framings=st.lists(st.sampled_from([*QUOTING, *MEANT]), min_size=1, max_size=2),
    place=st.sampled_from(["a result", "the user's message", "the system prompt"]),
    seed=st.integers(min_value=0, max_value=3),
)
def test_no_quotation_of_what_the_conversation_says_ever_runs(
    form: Format,
    *,
    mail: dict[str, JSON],
    framings: list[Framing],
    place: str,
    seed: int,
) -> None:
    call = said = form.write(mail)
    for framing in framings:
        said = framing.write(said)
    messages = PLACES[place](call)
    for pieces in ([said], cut_text(said, seed)):
        assert rescue(pieces, messages).calls == ()
        assert announce(form.announced, pieces, messages=messages).calls == ()


@settings(max_examples=examples(200), deadline=None)
@given(
    form=st.sampled_from(FORMATS),
    mail=mails(),
    framing=st.sampled_from(QUOTING),
    seed=st.integers(min_value=0, max_value=3),
)
def test_where_nothing_runs_nothing_of_the_text_is_lost(
    form: Format, *, mail: dict[str, JSON], framing: Framing, seed: int
) -> None:
    said = framing.write(form.write(mail))
    outcome = rescue(cut_text(said, seed), read_by_call(form.write(mail)))
    if not outcome.rejected and "</s>" not in said:
        assert outcome.text == said


@settings(max_examples=examples(100), deadline=None)
@given(
    form=st.sampled_from(FORMATS),
    mail=mails(),
    framing=st.sampled_from([*FRAMINGS, *MEANT]),
)
def test_a_conversation_only_ever_takes_calls_away(
    form: Format, *, mail: dict[str, JSON], framing: Framing
) -> None:
    """What runs with a page that says something else is what runs, or less."""
    said = framing.write(form.write(mail))
    alone = rescue([said], [{"role": "user", "content": "Go."}])
    later = rescue([said], read_by_call("Rooms from 80 euros."))
    assert [call.arguments for call in later.calls] in (
        [],
        [call.arguments for call in alone.calls],
    )


# ── Law 7: what provenance costs ────────────────────────────────────────────────────


class Work:
    """Counts calls, and the characters of the texts that they are given, while it is entered."""

    def __init__(self) -> None:
        self.amount = 0

    def __enter__(self) -> Work:
        self._before = sys.getprofile()
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    # Python calls a profiler with these three.
    def _count(self, frame: FrameType, event: str, arg: Any) -> None:  # noqa: PLR0917
        self.amount += 1
        if event == "call":
            self.amount += _size(frame)
        elif event == "c_call":
            subject = getattr(arg, "__self__", None)
            if isinstance(subject, str):
                self.amount += len(subject)
            elif isinstance(subject, re.Pattern):
                self.amount += _size(frame)


def _size(frame: FrameType) -> int:
    """The longest text that is at hand: a search may look through it."""
    code = frame.f_code
    given = [frame.f_locals.get(name) for name in code.co_varnames]
    return max((len(each) for each in given if isinstance(each, str)), default=0)


def work(messages: Conversation, said: str) -> int:
    with Work() as counted:
        rescue([said], messages)
    return counted.amount


def answer(count: int, *, kind: str) -> str:
    """An answer of calls: none of them stands in the conversation, or all do."""
    mails = [
        ("send_mail", {"to": f"{kind}-{n}@example.org", "body": "x" * 20}) for n in range(count)
    ]
    return encode("hermes", mails)


def page(size: int) -> str:
    return " ".join(f"Room {number} costs {number} euros." for number in range(size))


def conversations(scale: int) -> dict[str, Conversation]:
    """Histories that are so many times as long."""
    told = read_by_call(page(400 * scale))
    near = "".join(f'{{"to": "page-{number}@example.org", "bo' for number in range(200 * scale))
    return {
        "one long result": told,
        "many messages": [*told[:1], *read_by_call(page(20))[1:] * (20 * scale)],
        "a result full of beginnings": read_by_call(near),
    }


def added(messages: Conversation, said: str) -> int:
    """The work that an answer makes more than it would after an empty question."""
    return work(messages, said) - work([{"role": "user", "content": ""}], said)


@pytest.mark.parametrize("kind", ["page", "fresh"])
@pytest.mark.parametrize("name", conversations(1))
def test_provenance_is_linear_in_the_conversation(name: str, kind: str) -> None:
    said = answer(12, kind=kind)
    rescue(said, conversations(1)[name])  # what is kept for the next time is no part of it
    once, twice, thrice = (added(conversations(scale)[name], said) for scale in (1, 2, 3))
    assert thrice - twice <= 1.3 * (twice - once) + 1_000

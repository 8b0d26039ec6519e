"""The phrases that scenarios are made of."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from wholecall.faults.script import (
    AUTO,
    FINAL_TEXT,
    Auto,
    Begin,
    Expected,
    FinishWith,
    Form,
    Grow,
    Say,
    ScriptAnswer,
    Seal,
    Step,
    Terminate,
    ToolRun,
    forms,
)

# ── Calls that the model wants to make ──────────────────────────────────────────────

OSLO = ToolRun("get_weather", {"city": "Oslo", "unit": "C"})
ROME = ToolRun("get_weather", {"city": "Rome", "unit": "C"})
ITEMS = ToolRun("list_items", {})
MAIL = ToolRun("send_email", {"to": "ada@example.org", "body": "Dinner is at eight."})
OTHER_MAIL = ToolRun("send_email", {"to": "bob@example.org", "body": "Dinner is at nine."})
FILE = ToolRun("write_file", {"path": "notes.txt", "content": "hello world, and good night"})
SHORT_FILE = ToolRun("write_file", {"path": "notes.txt", "content": "hello"})

# ── Forms ───────────────────────────────────────────────────────────────────────────

CHAT = forms(["openai-chat"])
STREAMED = forms(streamed=[True])
CHAT_STREAMED = forms(["openai-chat"], streamed=[True])
ANTHROPIC_WHOLE = Form("anthropic", False)
TEXTUAL = forms() - {ANTHROPIC_WHOLE}
"""Forms with textual arguments. Anthropic's whole answers hold an object, made by the server."""

# ── Steps ───────────────────────────────────────────────────────────────────────────


def write(run: ToolRun) -> str:
    """The arguments of a call as a model writes them."""
    return json.dumps(run.arguments, ensure_ascii=False)


def split(text: str, pieces: int = 4) -> list[str]:
    """A text in about so many pieces."""
    size = max(1, -(-len(text) // pieces))
    cuts = [*range(0, len(text), size), len(text)]
    return [text[begin:end] for begin, end in pairwise(cuts)]


def call(run: ToolRun, number: int = 0, *, text: str | None = None) -> tuple[Step, ...]:
    """A whole call, in pieces. `text` is how its arguments are written instead."""
    return (*open_call(run, number, text=text), Seal(call=number))


def open_call(run: ToolRun, number: int = 0, *, text: str | None = None) -> tuple[Step, ...]:
    """A call whose end has not come."""
    pieces = split(write(run) if text is None else text)
    grown = (Grow(call=number, arguments=piece) for piece in pieces)
    return (Begin(call=number, name=run.tool), *grown)


def cut_call(run: ToolRun, after: str, *, number: int = 0) -> tuple[Step, ...]:
    """A call that was cut off after a certain text."""
    text = write(run)
    return open_call(run, number, text=text[: text.index(after) + len(after)])


def address(
    steps: Iterable[Step],
    *,
    index: int | Auto | None = AUTO,
    id: str | Auto | None = AUTO,
) -> tuple[Step, ...]:
    """The same steps under another index; with another id where they begin a call."""
    return tuple(_address(step, index=index, id=id) for step in steps)


def _address(step: Step, *, index: int | Auto | None, id: str | Auto | None) -> Step:
    if isinstance(step, Begin):
        return replace(step, index=index, id=id)
    return replace(step, index=index) if isinstance(step, Grow) else step


# ── Answers ─────────────────────────────────────────────────────────────────────────


def answer(*steps: Step, reason: str | None = "tool_calls") -> ScriptAnswer:
    """An answer that comes to its end."""
    return ScriptAnswer(steps=(*steps, FinishWith(reason), Terminate()))


def calls(*runs: ToolRun) -> ScriptAnswer:
    """An answer that makes these calls and is right in every way."""
    return answer(*(step for number, run in enumerate(runs) for step in call(run, number)))


FINAL = answer(Say(FINAL_TEXT), reason="stop")

# ── Outcomes ────────────────────────────────────────────────────────────────────────


def runs(*expected: ToolRun) -> Expected:
    """All of these run, out of the first answer."""
    return Expected(runs=expected)


def later(*expected: ToolRun, may_give_up: bool = False) -> Expected:
    """Nothing runs out of the first answer; these run when the model has tried again."""
    return Expected(runs=expected, first=(), may_give_up=may_give_up)

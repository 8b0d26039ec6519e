"""Wholecall inside other libraries: each module here needs the library that it is named after.

Those libraries hand over an answer after they have read it: `check_answer` judges its calls as if
they had come from the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from wholecall.arguments.feedback import feedback
from wholecall.assembly.assembler import Assembler
from wholecall.events import Outcome, collect
from wholecall.messages import ToolSpec, read_offer
from wholecall.protocols.reader import Reader, Tools
from wholecall.protocols.registry import CHAT


class ReceivedCall(NamedTuple):
    """A call as another library handed it over. Nothing of it is proven."""

    id: str | None
    name: str
    arguments: str | Mapping[str, Any] | None


def check_answer(
    calls: Iterable[ReceivedCall], *, tools: Tools, finish_reason: str | None
) -> Outcome:
    """Judge the calls of a whole answer. A missing finish reason means that the stream broke off.

    A tool that is not offered is judged without a schema: its library knows more about it.
    """
    received = list(calls)
    written = [
        {"id": call.id, "type": "function", "function": _write_function(call)} for call in received
    ]
    message = {"role": "assistant", "tool_calls": written}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason or "error"}
    reader = Reader(CHAT, _complete(tools, received))
    return collect([*reader.feed_response({"choices": [choice]}), *reader.end()])


def check_chunks(
    chunks: Iterable[Mapping[str, Any]], *, tools: Tools, hides_truncation: bool = False
) -> Outcome:
    """Judge a stream of chat completions that another library has read."""
    make = partial(Assembler, hides_truncation=hides_truncation)
    reader = Reader(CHAT, list(read_offer(tools).values()), new_assembler=make)
    events = [event for chunk in chunks for event in reader.feed(chunk)]
    return collect([*events, *reader.end()])


def describe(outcome: Outcome, tools: Tools) -> str:
    """Return what a model should be told about the calls that cannot run."""
    offer = read_offer(tools)
    return "\n\n".join(
        feedback(rejected, offer.get(rejected.name or ""), offer=offer)
        for rejected in outcome.rejected
    )


def _write_function(call: ReceivedCall) -> dict[str, Any]:
    # An object stays one. Its closing brace would be ours, and so no proof at the output limit.
    return {"name": call.name, "arguments": call.arguments}


def _complete(tools: Tools, received: Iterable[ReceivedCall]) -> list[ToolSpec]:
    offer = dict(read_offer(tools))
    for call in received:
        offer.setdefault(call.name, ToolSpec(call.name))
    return list(offer.values())

"""A history rewritten in a dialect: what was called and what came of it, as text.

A model without tools of its own knows neither calls nor results. It reads its own past
calls in the form in which it is to write the next one, and their results in a message of
the user, in the order of the calls. Messages without either are handed on as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from wholecall.core.conversation import CallResult, Media, Message, Part, PastCall, Role
from wholecall.core.values import Text
from wholecall.dialects.encoding import Template, encode_calls, encode_result
from wholecall.dialects.formats.json_marked import OBJECT
from wholecall.protocols.requests.media import speak

# What a dialect cannot carry (a closing tag inside a value) is written as plain JSON.
_PLAIN = Template(OBJECT, between="\n")


def rewrite_history(messages: Iterable[Message], template: Template) -> tuple[Message, ...]:
    """The same history with its calls and results as text."""
    whole = tuple(messages)
    calls = _past_calls(whole)
    told: list[Message] = []
    for holds_results, group in groupby(whole, _holds_results):
        if holds_results:
            told.append(_tell_results(list(group), calls, template=template))
        else:
            told += (_tell_calls(message, template) for message in group)
    return tuple(_join_neighbours(told, written_by_caller={id(message) for message in whole}))


def _holds_results(message: Message) -> bool:
    return any(isinstance(part, CallResult) for part in message.parts)


def _past_calls(messages: Iterable[Message]) -> dict[str, tuple[int, str]]:
    """The place and the name of every call, by its id."""
    parts = (part for message in messages for part in message.parts)
    calls = (part for part in parts if isinstance(part, PastCall))
    return {call.id: (place, call.name) for place, call in enumerate(calls)}


# ── Calls ───────────────────────────────────────────────────────────────────────────


def _tell_calls(message: Message, template: Template) -> Message:
    if not any(isinstance(part, PastCall) for part in message.parts):
        return message
    return Message(message.role, tuple(_join_texts(_write_calls(message.parts, template))))


def _write_calls(parts: Iterable[Part], template: Template) -> Iterator[Part]:
    """Calls that follow one another are written together, as one answer has them."""
    for is_call, group in groupby(parts, lambda part: isinstance(part, PastCall)):
        if not is_call:
            yield from group
            continue
        calls = [(part.name, part.arguments) for part in group if isinstance(part, PastCall)]
        try:
            yield Text(encode_calls(template, calls).strip())
        except ValueError:
            yield Text(encode_calls(_PLAIN, calls))


# ── Results ─────────────────────────────────────────────────────────────────────────


def _tell_results(
    messages: list[Message], calls: Mapping[str, tuple[int, str]], *, template: Template
) -> Message:
    """One message of the user: the results, then whatever else was said with them."""
    parts = [part for message in messages for part in message.parts]
    results = [part for part in parts if isinstance(part, CallResult)]
    results.sort(key=lambda result: calls.get(result.call_id, (len(calls), ""))[0])
    told: list[Part] = []
    for result in results:
        name = result.name or calls.get(result.call_id, (0, ""))[1]
        output = speak(result.result)
        told.append(Text(encode_result(template, name, output=output, id=result.call_id)))
        told += (piece for piece in result.result.content if isinstance(piece, Media))
    told += (part for part in parts if not isinstance(part, CallResult))
    return Message(Role.USER, tuple(_join_texts(told)))


# ── Joining ─────────────────────────────────────────────────────────────────────────


def _join_neighbours(messages: Iterable[Message], *, written_by_caller: set[int]) -> list[Message]:
    """Let no two of a role follow each other, unless the caller wrote them so.

    Chat templates demand that user and assistant take turns.
    """
    runs: list[list[Message]] = []
    for message in messages:
        run = runs[-1] if runs else []
        same_role = bool(run) and run[-1].role is message.role
        both_theirs = len(run) == 1 and {id(run[0]), id(message)} <= written_by_caller
        if same_role and not both_theirs:
            run.append(message)
        else:
            runs.append([message])
    return [_join_messages(run) for run in runs]


def _join_messages(run: list[Message]) -> Message:
    if len(run) == 1:
        return run[0]
    parts = (part for message in run for part in message.parts)
    return Message(run[0].role, tuple(_join_texts(parts)))


def _join_texts(parts: Iterable[Part]) -> list[Part]:
    """Texts that follow one another as one, each on lines of its own."""
    joined: list[Part] = []
    for are_texts, group in groupby(parts, lambda part: isinstance(part, Text)):
        neighbours = list(group)
        joined += [_join_lines(neighbours)] if are_texts else neighbours
    return joined


def _join_lines(parts: Iterable[Part]) -> Text:
    *before, last = (part.text for part in parts if isinstance(part, Text))
    lines = [line for line in map(str.rstrip, before) if line]
    return Text("\n".join([*lines, last]))

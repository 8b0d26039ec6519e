"""Requests made up by hypothesis: what a protocol can carry, and histories that nothing holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from hypothesis import strategies as st

from wholecall.events import Reasoning, Text
from wholecall.messages import (
    CallResult,
    Choice,
    Media,
    Message,
    Mode,
    Native,
    OutputSchema,
    Part,
    PastCall,
    Request,
    Result,
    Role,
    ToolSpec,
)

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = (ToolSpec("weather", SCHEMA, "The weather"), ToolSpec("search", SCHEMA))
NAMES = tuple(spec.name for spec in TOOLS)

# Texts that say something: blank ones are dropped from a history.
texts = st.text(min_size=1, max_size=30).filter(lambda text: text.strip() != "")
scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=10)
arguments = st.dictionaries(
    st.text(max_size=8),
    st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=4),
    max_size=3,
)
base64_texts = st.sampled_from(["AAAA", "aGVsbG8=", "iVBORw0KGgo="])


def media(kinds: Sequence[str]) -> st.SearchStrategy[Media]:
    choices = {
        "image": st.builds(Media, kind=st.just("image"), url=st.just("https://x.example/a.png"))
        | st.builds(
            Media,
            kind=st.just("image"),
            media_type=st.sampled_from(["image/png", "image/jpeg"]),
            data=base64_texts,
        ),
        "audio": st.builds(
            Media,
            kind=st.just("audio"),
            media_type=st.sampled_from(["audio/wav", "audio/mpeg"]),
            data=base64_texts,
        ),
        "document": st.builds(
            Media,
            kind=st.just("document"),
            media_type=st.just("application/pdf"),
            data=base64_texts,
            name=st.sampled_from(["a.pdf", "b"]),
        ),
    }
    return st.one_of([choices[kind] for kind in kinds])


# ── What each protocol can carry ────────────────────────────────────────────────────


class Carried:
    """How the requests of one protocol may look without losing anything on the way."""

    model: str
    kinds: Sequence[str]
    result_kinds: Sequence[str] = ()
    failures = False
    together = False
    """Whether all results of a turn stand in one message."""
    stops = True
    ordered = True
    """Whether text and calls of an answer keep their order."""

    def reasoning(self) -> st.SearchStrategy[Reasoning]:
        raise NotImplementedError


class Chat(Carried):
    model = "llama"
    kinds: Sequence[str] = ("image", "audio", "document")
    ordered = False

    def reasoning(self) -> st.SearchStrategy[Reasoning]:
        return st.builds(Reasoning, texts)


class Portable(Chat):
    """What all three protocols carry."""

    kinds = ("image", "document")


class Responses(Carried):
    model = "gpt-x"
    kinds = ("image", "document")
    result_kinds = ("image", "document")
    stops = False

    def reasoning(self) -> st.SearchStrategy[Reasoning]:
        return texts.map(self._item)

    def _item(self, text: str) -> Reasoning:
        summary = [{"type": "summary_text", "text": text}]
        item = {"type": "reasoning", "id": "rs", "summary": summary, "encrypted_content": "zz"}
        return Reasoning(text, {"item": item})


class Anthropic(Carried):
    model = "claude-sonnet-4-5"
    kinds = ("image", "document")
    result_kinds = ("image", "document")
    failures = True
    together = True

    def reasoning(self) -> st.SearchStrategy[Reasoning]:
        signed = texts.map(lambda text: Reasoning(text, {"signature": "sig"}))
        return signed | texts.map(lambda text: Reasoning("", {"redacted_thinking": text}))


CARRIED: dict[str, Carried] = {
    "openai-chat": Chat(),
    "openai-responses": Responses(),
    "anthropic": Anthropic(),
}


@st.composite
def histories(draw: st.DrawFn, carried: Carried) -> tuple[Message, ...]:
    """A healthy history."""
    messages: list[Message] = []
    if draw(st.booleans()):
        messages.append(Message(Role.SYSTEM, (Text(draw(texts)),)))
    for turn in range(draw(st.integers(1, 3))):
        said = draw(st.lists(texts.map(Text) | media(carried.kinds), min_size=1, max_size=3))
        messages.append(Message(Role.USER, tuple(said)))
        calls = [
            PastCall(id=f"call_{turn}_{n}", name=name, arguments=draw(arguments))
            for n, name in enumerate(draw(st.lists(st.sampled_from(NAMES), max_size=3)))
        ]
        messages.append(Message(Role.ASSISTANT, tuple(draw(answers(carried, calls=calls)))))
        results = [draw(results_of(carried, call=call)) for call in calls]
        if carried.together and results:
            messages.append(Message(Role.TOOL, tuple(results)))
        else:
            messages += [Message(Role.TOOL, (result,)) for result in results]
    return tuple(messages)


@st.composite
def answers(draw: st.DrawFn, carried: Carried, *, calls: Sequence[PastCall]) -> list[Part]:
    parts: list[Part] = list(calls)
    if draw(st.booleans()) or not calls:
        place = draw(st.integers(0, len(calls))) if carried.ordered else 0
        parts.insert(place, Text(draw(texts)))
    return [*([draw(carried.reasoning())] if draw(st.booleans()) else []), *parts]


@st.composite
def results_of(draw: st.DrawFn, carried: Carried, *, call: PastCall) -> CallResult:
    content: list[Text | Media] = [Text(draw(texts))]
    if carried.result_kinds:
        content += draw(st.lists(media(carried.result_kinds), max_size=1))
    failed = carried.failures and draw(st.booleans())
    return CallResult(call_id=call.id, name=call.name, result=Result(tuple(content), failed))


@st.composite
def choices(draw: st.DrawFn) -> Choice:
    mode = draw(st.sampled_from(Mode))
    if mode is Mode.NONE:
        return Choice(mode)
    names = draw(st.sampled_from([(), ("weather",)])) if mode is Mode.REQUIRED else ()
    return Choice(mode, names, parallel=draw(st.booleans()))


@st.composite
def requests(draw: st.DrawFn, protocol: str, *, carried: Carried | None = None) -> Request:
    """A request that its protocol carries without a loss."""
    carried = carried or CARRIED[protocol]
    rest = draw(st.dictionaries(st.sampled_from(["metadata", "x_new", "seed"]), arguments))
    named = protocol != "anthropic"
    return Request(
        model=carried.model,
        messages=draw(histories(carried)),
        tools=TOOLS,
        choice=draw(choices()),
        stream=draw(st.booleans()),
        max_tokens=draw(st.integers(1, 9000)),
        temperature=draw(st.none() | st.sampled_from([0.0, 0.5, 1.0])),
        stop=tuple(draw(st.lists(texts, max_size=2))) if carried.stops else (),
        output=draw(st.none() | outputs(named=named)),
        rest=Native(protocol, rest) if rest else None,
    )


def outputs(*, named: bool) -> st.SearchStrategy[OutputSchema]:
    if not named:
        return st.just(OutputSchema(schema=SCHEMA))
    names = st.sampled_from(["answer", "report"])
    return st.builds(OutputSchema, schema=st.just(SCHEMA), name=names, strict=st.booleans())


# ── Histories that nothing holds ────────────────────────────────────────────────────

_ids = st.sampled_from(["a", "b", "call:1", "x" * 50, ""])
_calls = st.builds(PastCall, id=_ids, name=st.text(max_size=5), arguments=arguments)
_results = st.builds(
    CallResult,
    call_id=_ids,
    name=st.just("weather"),
    result=st.builds(
        Result,
        st.lists(st.builds(Text, st.text(max_size=5)) | media(["image", "audio"]), max_size=2).map(
            tuple
        ),
        st.booleans(),
    ),
)
_extras: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {},
        {"signature": "s"},
        {"redacted_thinking": "r"},
        {"thought_signature": "t"},
        {"item": {"type": "reasoning", "id": "rs", "summary": []}},
        {"message": {"id": "msg"}},
        {"reasoning_details": [{"type": "reasoning.text", "text": "d"}]},
    ]
)
_said = st.builds(Text, st.text(max_size=5)) | media(["image", "audio", "document"])
_thoughts = st.builds(Reasoning, st.text(max_size=5), _extras)


def _tell_apart(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Number the calls: one that is the same in all is a repeat, which `core.history` drops."""
    numbers = count()

    def number(part: Part) -> Part:
        if not isinstance(part, PastCall):
            return part
        return replace(part, arguments={**part.arguments, "number": next(numbers)})

    return tuple(replace(each, parts=tuple(map(number, each.parts))) for each in messages)


messes = st.lists(
    st.builds(Message, st.just(Role.SYSTEM), st.builds(Text, texts).map(lambda text: (text,)))
    | st.builds(Message, st.just(Role.USER), st.lists(_said, max_size=2).map(tuple))
    | st.builds(
        Message,
        st.just(Role.ASSISTANT),
        st.lists(st.builds(Text, st.text(max_size=5)) | _calls | _thoughts, max_size=4).map(tuple),
    )
    | st.builds(Message, st.just(Role.TOOL), st.lists(_results, max_size=3).map(tuple)),
    max_size=7,
).map(_tell_apart)


# ── Comparing ───────────────────────────────────────────────────────────────────────


def bare(request: Request) -> Request:
    """A request without the forms that it was read from."""
    messages = tuple(replace(message, native=None) for message in request.messages)
    rest = request.rest
    if rest is not None:
        kept = {key: value for key, value in rest.value.items() if key != "stream_options"}
        rest = Native(rest.protocol, kept) if kept else None
    return replace(request, messages=messages, rest=rest)


def told(request: Request) -> list[Any]:
    """What a history tells, whatever its protocol: texts, calls, and each call's result."""
    parts = [part for message in request.messages for part in message.parts]
    results = {part.call_id: part.result.text for part in parts if isinstance(part, CallResult)}
    story: list[Any] = []
    for message in request.messages:
        if message.text:
            story.append((message.role, message.text))
        for part in message.parts:
            if isinstance(part, PastCall):
                raw = json.dumps(part.arguments, sort_keys=True)
                story.append((part.name, raw, results[part.id]))
            elif isinstance(part, Media):
                story.append((part.kind, part.data or part.url))
    return story

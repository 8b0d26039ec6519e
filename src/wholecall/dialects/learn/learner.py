"""Derive a dialect from renderings of a chat template and prove it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from wholecall.dialects.dialect import THINK, Channel, Dialect, encode_calls, template_of
from wholecall.dialects.dialect_registry import DIALECTS
from wholecall.dialects.learn.call_shapes import (
    CALLS,
    IDS,
    NAMES,
    OUTPUT,
    TEXT,
    THOUGHT,
    TOOLS,
    CallShape,
    Probe,
    common_prefix,
    common_suffix,
    learn_gemma,
    learn_headed,
    learn_objects,
    learn_python,
    learn_tags,
    marks_in,
)
from wholecall.dialects.rescue import parse_text
from wholecall.errors import UnusableDialect
from wholecall.events import JSON


@dataclass(frozen=True, slots=True)
class Bodies:
    """The parts of an answer, as the template writes them."""

    one: str
    """One call."""
    two: str | None
    """Two calls; None if the template takes only one."""
    reasoning: tuple[Channel, ...]
    dropped: tuple[str, ...]
    """Marks around words, and at the end of an answer."""
    result: str | None
    """A result with places for name and output; None if it has no form of its own."""


def cut_bodies(renderings: Mapping[Probe, str]) -> Bodies:
    """Cut out the answers; raise UnusableDialect if they are missing."""
    for probe in (Probe.TEXT, Probe.ONE):
        if probe not in renderings:
            raise UnusableDialect(f"the template does not take {probe.value}")
    text, one = renderings[Probe.TEXT], renderings[Probe.ONE]
    if TEXT not in text:
        raise UnusableDialect("the template does not write the words of an answer")
    prompt = _prompt(renderings)
    reasoning = _reasoning(renderings, prompt)
    begin = _begin(one, text, prompt=prompt)
    end = common_suffix(text.partition(TEXT)[2], one[begin:])
    two = renderings.get(Probe.TWO, "")
    start = _begin(text, one, prompt=prompt)
    before, _, after = text[start:].partition(TEXT)
    for channel in reasoning:
        for mark in (channel.open, *channel.close):
            before = before.replace(mark, "")
    dropped = (*_whole_mark(before), *marks_in(after))
    return Bodies(
        one=_body(one[begin:], end, reasoning=reasoning),
        two=_body(two[begin:], end, reasoning=reasoning) if NAMES[1] in two[begin:] else None,
        reasoning=reasoning or (THINK,),
        dropped=tuple(dict.fromkeys(dropped)),
        result=_result(renderings),
    )


def _prompt(renderings: Mapping[Probe, str]) -> str:
    """Return the text that the template writes before an answer; empty if it cannot be
    distinguished from the question."""
    prompt = renderings.get(Probe.PROMPT, "")
    return prompt if prompt != renderings.get(Probe.QUESTION) else ""


def _begin(answer: str, other: str, *, prompt: str) -> int:
    """Return the start of an answer: after the prompt, or where it begins to differ from
    another."""
    if prompt and answer.startswith(prompt):
        return len(prompt)
    return len(common_prefix(answer, other))


def _body(text: str, end: str, *, reasoning: tuple[Channel, ...]) -> str:
    """The call without the end of the answer, and without reasoning that is empty."""
    body = text.removesuffix(end)
    for channel in reasoning:
        for close in channel.close:
            before, found, after = body.partition(close)
            if found and not before.replace(channel.open, "").strip():
                body = after
    return body


def _reasoning(renderings: Mapping[Probe, str], prompt: str) -> tuple[Channel, ...]:
    """The marks around a thought, if the template writes thoughts."""
    text = renderings.get(Probe.THOUGHT, "")
    before, found, after = text.partition(THOUGHT)
    start = _begin(text, renderings[Probe.TEXT], prompt=prompt)
    opens = _whole_mark(before[start:]) or tuple(marks_in(before)[-1:])
    closes = marks_in(after.partition(TEXT)[0])
    if not found or not opens or not closes:
        return ()
    prompted = prompt.rstrip().endswith(opens[0])
    return (Channel(opens[0], (closes[0],), prompted=prompted or opens[0] == THINK.open),)


def _whole_mark(text: str) -> tuple[str, ...]:
    """`<|channel|>final<|message|>` is one marker; words between lines are not."""
    mark = text.strip()
    is_one = bool(mark) and "\n" not in mark and mark.startswith(tuple(marks_in(mark)[:1]))
    return (mark,) if is_one else tuple(marks_in(mark))


def _result(renderings: Mapping[Probe, str]) -> str | None:
    """Return the form of a result, if it differs from a user's message."""
    told, result = renderings.get(Probe.TOLD), renderings.get(Probe.RESULT)
    if told is None or result is None or OUTPUT not in result:
        return None
    begin = len(common_prefix(told, result))
    end = common_suffix(told[begin:], result[begin:])
    form = result[begin:].removesuffix(end).strip()
    if not form.startswith(("<", "[")) or OUTPUT not in form or form == OUTPUT:
        return None
    for word, place in ((OUTPUT, "{output}"), (NAMES[0], "{name}"), (IDS[0], "{id}")):
        form = form.replace(word, place)
    quoted = {f'"{place}"': "{" + place[1:-1] + "_json}" for place in ("{output}", "{name}")}
    for place, escaped in quoted.items():
        form = form.replace(place, escaped)
    return form


# A dialect from renderings of a chat template: found by comparing, and then proven.
#
# Each family says whether what the template writes is of its shape. The first dialect that reads
# the template's own calls back as they were is the one. Without that proof nothing is learned.


_FAMILIES: tuple[Callable[[str, str | None], CallShape | None], ...] = (
    learn_objects,
    learn_headed,
    learn_gemma,
    learn_python,
    learn_tags,
)
PROOF: tuple[tuple[str, dict[str, JSON]], ...] = (
    (NAMES[0], {"zqplace": 'Paris, "old" town\nline <2>', "zqtopic": "007"}),
    (NAMES[1], {"zqplace": "{}"}),
)
"""Calls that are written in what was learned, and read back."""


@dataclass(frozen=True, slots=True)
class Learned:
    """A dialect, and what shows that it is the template's."""

    dialect: Dialect
    rendered: str
    """The template's own calls, which were read back as they were."""
    encoded: str
    """Other calls, written in the dialect, which were read back as they were."""
    known_as: str = ""
    """A dialect that comes with the package and writes the same, but for white space."""
    single: bool = False
    """The template takes only one call in an answer."""


def learn(renderings: Mapping[Probe, str], *, name: str) -> Learned:
    """Return the dialect of the renderings, or raise UnusableDialect with the reason."""
    bodies = cut_bodies(renderings)
    _refuse_unnamed(bodies.one)
    reasons: list[str] = []
    for family in _FAMILIES:
        try:
            shape = family(bodies.one, bodies.two)
            if shape is not None:
                return _proven(_dialect(shape, bodies, name=name), bodies)
        except UnusableDialect as error:
            reasons.append(str(error))
    seen = bodies.one.strip()[:200]
    why = f" ({reasons[-1]})" if reasons else ""
    raise UnusableDialect(f"the template writes a call in a form of its own{why}: {seen!r}")


def _refuse_unnamed(body: str) -> None:
    if NAMES[0] in body:
        return
    if IDS[0] in body:
        raise UnusableDialect("the template writes the id of a call in the place of its name")
    raise UnusableDialect("the template does not write the calls of an answer")


def _dialect(shape: CallShape, bodies: Bodies, *, name: str) -> Dialect:
    openers = {opener for written in shape.written for opener in written.openers}
    template = shape.template
    between = (template.between.strip(),) if marks_in(template.between) else ()
    after = marks_in(template.after)
    dropped = dict.fromkeys((*shape.dropped, *bodies.dropped, *between, *after))
    if bodies.result is not None:
        template = replace(template, result=bodies.result)
    return Dialect(
        name=name,
        written=shape.written,
        bare=shape.bare,
        reasoning=bodies.reasoning,
        dropped=tuple(mark for mark in dropped if mark not in openers),
        template=template,
        models=name,
    )


# ── The proof ───────────────────────────────────────────────────────────────────────


def _proven(dialect: Dialect, bodies: Bodies) -> Learned:
    calls = CALLS[:1] if bodies.two is None else CALLS
    proof = PROOF[: len(calls)]
    rendered = bodies.two or bodies.one
    _prove(dialect, bodies.one, calls=CALLS[:1])
    _prove(dialect, rendered, calls=calls)
    encoded = encode_calls(template_of(dialect), proof)
    _prove(dialect, encoded, calls=proof)
    return Learned(
        dialect,
        rendered=rendered,
        encoded=encoded,
        known_as=_known_as(rendered, calls),
        single=bodies.two is None,
    )


def _prove(dialect: Dialect, text: str, *, calls: Iterable[tuple[str, Mapping[str, JSON]]]) -> None:
    outcome = parse_text(dialect, text, tools=TOOLS)  # type: ignore[arg-type]  # JSON objects
    read = [(call.name, dict(call.arguments)) for call in outcome.calls]
    if read != list(calls) or outcome.rejected or outcome.text.strip():
        raise UnusableDialect(f"what was learned does not read {text.strip()[:200]!r} back")


def _known_as(rendered: str, calls: Iterable[tuple[str, Mapping[str, JSON]]]) -> str:
    for name, dialect in DIALECTS.items():
        if dialect.template is None:
            continue
        if _squeezed(encode_calls(dialect.template, calls)) == _squeezed(rendered):
            return name
    return ""


def _squeezed(text: str) -> str:
    return "".join(text.split())

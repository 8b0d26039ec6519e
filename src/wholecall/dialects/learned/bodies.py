"""Extract a call from the renderings, without the conversation around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wholecall.dialects.declaration import THINK, Channel
from wholecall.dialects.learned.comparing import common_prefix, common_suffix, marks_in
from wholecall.dialects.learned.probes import IDS, NAMES, OUTPUT, TEXT, THOUGHT, Probe
from wholecall.errors import UnusableDialect


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
    """Cut the answers out; raise UnusableDialect if there is none."""
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
    """Return the text that the template writes before an answer; empty if it cannot be told from
    the question."""
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

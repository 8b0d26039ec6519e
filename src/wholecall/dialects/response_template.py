"""A `response_template` of Hugging Face's transformers, loaded as a dialect.

It ships in `tokenizer_config.json` and describes a model's answer by fields:

    {"start_anchor": "<|im_start|>assistant\\n",
     "fields": {"thinking": {"open": "<think>", "close": "</think>"},
                "tool_calls": {"open": "<tool_call>", "close": "</tool_call>", "repeats": true,
                               "content": "json", "transform": {"function": "{content}"}},
                "content": {"close": "<|im_end|>"}}}

What its marks and patterns say becomes a declaration; no pattern is ever run over a model's
text. What cannot be said in a declaration is refused, with its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wholecall.dialects.declaration import Channel, Dialect
from wholecall.dialects.patterns import Alternative, Blanks, Edge, Mark, read_pattern
from wholecall.dialects.response_calls import CallField, translate_calls
from wholecall.errors import UnusableDialect

_REASONING = frozenset({"thinking", "reasoning", "reasoning_content"})
_TEXT = "content"
_CALLS = "tool_calls"
_KNOWN = _REASONING | {_TEXT, _CALLS}
_TOP = frozenset({"version", "defaults", "fields", "start_anchor", "start_anchor_pattern"})


@dataclass(frozen=True, slots=True)
class _Region:
    """The beginning and the end of a field."""

    opens: tuple[Alternative, ...]
    closes: tuple[str, ...]

    def marks(self, name: str) -> list[tuple[str, tuple[str, ...]]]:
        """The marks that open it, each with those that may stand before it."""
        found = [(way, [part.text for part in way if isinstance(part, Mark)]) for way in self.opens]
        if any(not marks and way != (Edge(),) for way, marks in found):
            raise UnusableDialect(f"the field {name!r} opens without a mark")
        return [(marks[-1], tuple(marks[:-1])) for _, marks in found if marks]


def load_response_template(described: object, *, name: str = "response_template") -> Dialect:
    """The dialect that a response template describes.

    Given is the template itself, or a `tokenizer_config.json` that holds one.
    """
    template = _template_in(described)
    fields = template["fields"]
    if _CALLS not in fields:
        raise UnusableDialect(f"the response_template has no field {_CALLS!r}: it calls no tools")
    regions = {key: _read_region(key, field) for key, field in fields.items()}
    calls = translate_calls(_call_field(fields[_CALLS], regions[_CALLS]))
    texts, before = _texts_of(regions.get(_TEXT))
    anchors = _literals(template.get("start_anchor", []), "start_anchor")
    return Dialect(
        name=name,
        written=calls.written,
        bare=calls.bare,
        reasoning=tuple(_channels(regions)),
        texts=texts,
        dropped=tuple(
            dict.fromkeys((*calls.dropped, *before, *(each for each in anchors if each[0] == "<")))
        ),
        template=calls.template,
        models="the model of the response template",
    )


def _template_in(described: object) -> Mapping[str, Any]:
    if not isinstance(described, Mapping):
        raise UnusableDialect("a response_template is a JSON object")
    inside = described.get("response_template", described)
    if inside is described and ("response_schema" in described or "x-regex" in described):
        raise UnusableDialect(
            "a response_schema (from transformers before 5.13) holds regular expressions over "
            "whole answers, which cannot be translated; learn the chat template instead"
        )
    if not isinstance(inside, Mapping) or not isinstance(inside.get("fields"), Mapping):
        raise UnusableDialect("there is no response_template with fields in it")
    unknown = sorted(inside.keys() - _TOP)
    if unknown:
        raise UnusableDialect(f"the response_template has {unknown[0]!r}, which is not known")
    if inside.get("version", 1) != 1:
        raise UnusableDialect(f"version {inside['version']!r} of response_template is not known")
    return inside


# ── Regions ─────────────────────────────────────────────────────────────────────────


def _read_region(name: str, field: object) -> _Region:
    if name not in _KNOWN:
        raise UnusableDialect(f"the field {name!r} is neither text nor reasoning nor calls")
    if not isinstance(field, Mapping):
        raise UnusableDialect(f"the field {name!r} is no object")
    where = f"the field {name!r}"
    closes = tuple(_closers(_ways(field, "close", where=where), where))
    return _Region(_ways(field, "open", where=where), closes)


def _ways(field: Mapping[str, Any], key: str, *, where: str) -> tuple[Alternative, ...]:
    pattern = field.get(f"{key}_pattern")
    if pattern is None:
        return tuple((Mark(text),) for text in _literals(field.get(key, []), f"{key} of {where}"))
    if not isinstance(pattern, str):
        raise UnusableDialect(f"{where}: {key}_pattern is no text")
    try:
        return read_pattern(pattern)
    except UnusableDialect as error:
        raise UnusableDialect(f"{where}: {key}_pattern: {error}") from None


def _literals(value: object, where: str) -> list[str]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(each, str) and each for each in listed):
        raise UnusableDialect(f"{where} is neither a text nor a list of texts")
    return listed


def _closers(ways: tuple[Alternative, ...], where: str) -> Iterator[str]:
    for way in ways:
        parts = [part for part in way if not isinstance(part, Blanks | Edge)]
        match parts:
            case []:
                continue
            case [Mark(text=text)]:
                yield text
            case _:
                raise UnusableDialect(f"{where} closes with more than one mark")


# ── Channels ────────────────────────────────────────────────────────────────────────


def _channels(regions: Mapping[str, _Region]) -> Iterator[Channel]:
    for name in regions.keys() & _REASONING:
        region = regions[name]
        others = {mark for key, other in regions.items() if key != name for mark in other.closes}
        # A closer of its own may come alone: then the prompt has opened the reasoning.
        prompted = others.isdisjoint(region.closes)
        for mark, _ in region.marks(name):
            yield Channel(mark, region.closes, prompted=prompted)


def _texts_of(region: _Region | None) -> tuple[tuple[Channel, ...], tuple[str, ...]]:
    """Return the channels of text, and markers that are not part of it."""
    if region is None:
        return (), ()
    if not region.opens:
        return (), region.closes
    marks = region.marks(_TEXT)
    before = tuple(each for _, earlier in marks for each in earlier)
    return tuple(Channel(mark, region.closes) for mark in dict(marks)), before


def _call_field(field: Mapping[str, Any], region: _Region) -> CallField:
    arguments = field.get("content_args", {})
    return CallField(
        opens=region.opens,
        closes=region.closes,
        content=str(field.get("content", "text")),
        content_args=arguments if isinstance(arguments, Mapping) else {},
        transform=field.get("transform"),
    )

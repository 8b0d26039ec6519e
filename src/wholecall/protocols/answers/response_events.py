"""The events of one text in a response: it begins, grows, and is repeated whole.

Four kinds of text are written in the same way under other names: output, refusal, reasoning summary
and reasoning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from wholecall.protocols.answers.frames import dump, frame, quote
from wholecall.protocols.answers.response_items import (
    declined_part,
    summary_part,
    text_part,
    thought_part,
)

_NO_NOTES: Mapping[str, Any] = {}


class TextKind(NamedTuple):
    """The names of a kind of text."""

    text: str
    """Of the events about the text."""
    part: str
    """Of the events about the part that holds it."""
    place: str
    """Of the field that counts the parts."""
    more: Mapping[str, Any]
    """Further fields of the events about the text."""
    field: str = "text"
    """Of the whole text."""

    def write_part(self, text: str) -> dict[str, Any]:
        """The part that holds a text."""
        return _PARTS[self.text](text)


SAID = TextKind(
    "response.output_text", "response.content_part", "content_index", more={"logprobs": []}
)
SAID_NO = TextKind(
    "response.refusal", "response.content_part", "content_index", more={}, field="refusal"
)
SUMMARY = TextKind(
    "response.reasoning_summary_text",
    "response.reasoning_summary_part",
    "summary_index",
    more={},
)
THOUGHT = TextKind("response.reasoning_text", "response.content_part", "content_index", more={})
_PARTS = {
    SAID.text: text_part,
    SAID_NO.text: declined_part,
    SUMMARY.text: summary_part,
    THOUGHT.text: thought_part,
}


class Events:
    """Writes events, each with the next number."""

    __slots__ = ("next",)

    def __init__(self) -> None:
        self.next = 0
        """The number of the event that is written next."""

    def write(self, kind: str, **fields: Any) -> bytes:
        """One event."""
        number = self.next
        self.next = number + 1
        return frame({"type": kind, "sequence_number": number, **fields}, kind)


class Growth:
    """Writes the pieces of one text: all but the number and the piece is prepared once."""

    __slots__ = ("_before", "_between", "_events")

    def __init__(self, events: Events, kind: str, *, fields: Mapping[str, Any]) -> None:
        self._events = events
        self._before = f'event: {kind}\ndata: {{"type":"{kind}","sequence_number":'.encode()
        self._between = b"," + dump(fields)[1:-1] + b',"delta":'

    def write(self, text: str) -> bytes:
        """One more piece."""
        number = self._events.next
        self._events.next = number + 1
        return b"%b%d%b%b}\n\n" % (self._before, number, self._between, quote(text))


class TextEvents:
    """Writes the events of one text."""

    __slots__ = ("_events", "_kind", "_where", "grow")

    def __init__(
        self, events: Events, kind: TextKind, *, where: Mapping[str, Any], at: int = 0
    ) -> None:
        """`where` names the item; `at` is the place of the part in it."""
        self._events = events
        self._kind = kind
        self._where = {**where, kind.place: at}
        fields = {**self._where, **kind.more}
        self.grow = Growth(events, f"{kind.text}.delta", fields=fields).write

    def open(self) -> bytes:
        """The part begins."""
        part = self._kind.write_part("")
        return self._events.write(f"{self._kind.part}.added", **self._where, part=part)

    def close(self, text: str, notes: Mapping[str, Any] = _NO_NOTES) -> bytes:
        """Write the end of the text and of its part; `notes` are added to it."""
        kind, part = self._kind, {**self._kind.write_part(text), **notes}
        more = {name: part[name] for name in kind.more}
        return b"".join(
            [
                *self._annotate(notes.get("annotations", ())),
                self._events.write(
                    f"{kind.text}.done", **self._where, **{kind.field: text}, **more
                ),
                self._events.write(f"{kind.part}.done", **self._where, part=part),
            ]
        )

    def _annotate(self, annotations: Iterable[Any]) -> Iterator[bytes]:
        for place, annotation in enumerate(annotations):
            yield self._events.write(
                f"{self._kind.text}.annotation.added",
                **self._where,
                annotation_index=place,
                annotation=annotation,
            )

    def write(self, text: str) -> bytes:
        """A text that is whole already."""
        return self.open() + self.grow(text) + self.close(text)

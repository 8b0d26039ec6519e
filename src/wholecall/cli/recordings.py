"""Recorded answers on disk: what `replay` and `check` read.

The content of a file decides its kind:

- a raw SSE dump (`data: …`, `event: …`, `: …`),
- JSON lines, or one JSON array: the payloads of one stream (a string is a raw line of it),
- JSON lines, one *case* each: an object with `protocol` and `events` or `response`, and, if the
  tools were in the prompt, with `tools` and `dialect`,
- whole answers that were not streamed: one JSON document, or one a line.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from wholecall.arguments.validate import admit
from wholecall.dialects.emulation.emulate import read_prompted
from wholecall.errors import InvalidChoice, UnreadableRecording, UnusableDialect
from wholecall.events import Event
from wholecall.messages import Prompted, read_offer
from wholecall.protocols.reader import CUT, Chunk, Reader, Tools
from wholecall.protocols.registry import NAMES, detect, is_full_response
from wholecall.upstreams.replay import case_assembler

STDIN = Path("-")
# A file is held in memory as a whole; the longest answers have a few megabytes.
MOST_BYTES = 256 * 1024 * 1024
_SSE_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
# Not `splitlines`: for text it also splits at characters that are legal in JSON strings.
_LINE_END = re.compile(r"\r\n|\r|\n")
_WANTED = "a recording holds raw SSE lines, or JSON: one payload a line"
_CASE = "a case is an object with 'protocol' and either 'events', a list, or 'response', an object"
_TOOLS = "tools are a JSON array of tool definitions"


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded answer."""

    title: str
    protocol: str
    chunks: tuple[Chunk, ...] = ()
    body: Mapping[str, Any] | None = None
    """The whole answer, if it was not streamed."""
    tools: tuple[Mapping[str, Any], ...] | None = None
    pauses: tuple[float, ...] = ()
    """Seconds before each chunk, as far as they were recorded."""
    prompted: Prompted | None = None
    """The tools again, if they stood in the prompt."""
    max_tokens: int | None = None
    """The limit of output tokens of the request, if it is known."""
    messages: object = ()
    """The conversation, if it is known, in the shape of any protocol: a call that is quoted from it
    is not run."""

    def play(self, tools: Tools | None = None) -> Iterator[list[Event]]:
        """The events of each chunk in turn, and of the end; `tools` replace the recorded ones."""
        offered = self.tools if tools is None else tools
        prompted = self.prompted
        if prompted is not None and tools is not None:
            prompted = replace(prompted, tools=tuple(read_offer(tools).values()))
        reader = Reader(
            self.protocol,
            offered,
            new_assembler=case_assembler(prompted, self.messages),
            max_tokens=self.max_tokens,
        )
        if self.body is not None:
            yield reader.feed_response(self.body)
        for chunk in self.chunks:
            if chunk == CUT:
                break
            yield reader.feed(chunk)
        yield reader.end()


class _Entry(NamedTuple):
    """A JSON value and its position."""

    place: str
    value: Any


def load(path: Path, protocol: str | None = None) -> list[Recording]:
    """Read a file of recorded answers; `-` is the standard input."""
    if protocol is not None:
        _check_protocol("--protocol", protocol)
    content = _read(path)
    if content.lstrip().startswith(_SSE_STARTS):
        return [_sse_dump(path, content, protocol=protocol)]
    entries = list(_entries(path, content.decode("utf-8", "replace")))
    if any(_is_case(entry.value) for entry in entries):
        return [_case(entry, protocol) for entry in entries]
    return list(_answers(path, entries, protocol=protocol))


def load_tools(path: Path) -> tuple[Mapping[str, Any], ...]:
    """Read a file of tool definitions."""
    text = _read(path).decode("utf-8", "replace")
    return _check_tools(str(path), _parse(path, text, wanted=_TOOLS))


# ── Files ───────────────────────────────────────────────────────────────────────────


def _read(path: Path) -> bytes:
    try:
        content = _read_stdin() if path == STDIN else _read_file(path)
    except OSError as error:
        raise UnreadableRecording(f"{path}: {error.strerror}") from error
    if len(content) > MOST_BYTES:
        raise UnreadableRecording(f"{path} has more than {MOST_BYTES} bytes: split it")
    if not content.strip():
        raise UnreadableRecording(f"{path} is empty: record something into it first")
    if b"\0" in content:
        raise UnreadableRecording(f"{path} is not UTF-8 text: {_WANTED}")
    return content.removeprefix(codecs.BOM_UTF8)


def _read_file(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1)


def _read_stdin() -> bytes:
    return sys.stdin.buffer.read(MOST_BYTES + 1)


def _entries(path: Path, text: str) -> Iterator[_Entry]:
    try:
        document = json.loads(text)  # one document, over any number of lines
    except (ValueError, RecursionError):
        yield from _lines(path, text)
        return
    if not isinstance(document, list):
        yield _Entry(str(path), document)
        return
    for number, value in enumerate(document, 1):
        yield _Entry(f"{path}, element {number}", value)


def _lines(path: Path, text: str) -> Iterator[_Entry]:
    *whole, last = _LINE_END.split(text)
    for number, line in enumerate(whole, 1):
        if line.strip():
            yield _Entry(f"{path}, line {number}", _parse(path, line, number=number))
    number = len(whole) + 1
    if last.strip():
        value = _parse_last(last) if whole else _parse(path, last)
        yield _Entry(f"{path}, line {number}", value)


def _parse(path: Path, text: str, *, number: int = 1, wanted: str = _WANTED) -> Any:
    """Parse a text that begins in line `number` of the file."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = number + error.lineno - 1
        raise UnreadableRecording(
            f"{path}, line {line}, column {error.colno} is not JSON ({error.msg}): {wanted}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise UnreadableRecording(f"{path}, line {number} cannot be read ({error})") from error


def _parse_last(line: str) -> Any:
    """A last line without its end may be cut: then it is raw bytes, for the reader to judge."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return line.encode()


# ── Kinds of recordings ─────────────────────────────────────────────────────────────


def _sse_dump(path: Path, content: bytes, *, protocol: str | None) -> Recording:
    lines = content.splitlines(keepends=True)
    return Recording(str(path), protocol or _guess(path, lines), tuple(lines))


def _answers(path: Path, entries: list[_Entry], *, protocol: str | None) -> Iterator[Recording]:
    values = [entry.value for entry in entries]
    protocol = protocol or _guess(path, values)
    if not all(is_full_response(value) for value in values):
        yield Recording(str(path), protocol, tuple(values))
        return
    for entry in entries:
        yield Recording(entry.place, protocol, body=entry.value)


def _is_case(value: Any) -> bool:
    return isinstance(value, dict) and "protocol" in value


def _case(entry: _Entry, protocol: str | None) -> Recording:
    place, case = entry
    if not _is_case(case):
        raise UnreadableRecording(f"{place}: {_CASE}")
    protocol = protocol or str(case["protocol"])
    _check_protocol(place, protocol)
    title = str(case.get("title") or case.get("id") or place)
    tools = None if case.get("tools") is None else _check_tools(place, case["tools"])
    prompted = _check_prompted(place, case, tools=tools or ())
    limit = _check_limit(place, case.get("max_tokens"))
    recording = Recording(title, protocol, tools=tools, prompted=prompted, max_tokens=limit)
    recording = replace(recording, messages=case.get("messages", ()))
    match case:
        case {"events": list(events)}:
            pauses = _check_pauses(place, case.get("pauses") or [])
            return replace(recording, chunks=tuple(events), pauses=pauses)
        case {"response": dict(body)}:
            return replace(recording, body=body)
    raise UnreadableRecording(f"{place}: {_CASE}")


def _check_prompted(place: str, case: Mapping[str, Any], *, tools: Tools) -> Prompted | None:
    try:
        return read_prompted(case, tools)
    except (UnusableDialect, InvalidChoice) as error:
        raise UnreadableRecording(f"{place}: {error}") from error


def _check_limit(place: str, limit: Any) -> int | None:
    if limit is None or (type(limit) is int and limit > 0):
        return limit
    raise UnreadableRecording(f"{place}: 'max_tokens' is a whole number above 0")


def _check_pauses(place: str, pauses: Any) -> tuple[float, ...]:
    match pauses:
        case [*seconds] if all(isinstance(one, int | float) and one >= 0 for one in seconds):
            return tuple(seconds)
    raise UnreadableRecording(f"{place}: 'pauses' is a list of seconds, one for each event")


def _guess(path: Path, payloads: Iterable[Any]) -> str:
    for payload in payloads:
        protocol = detect(_strip_field(payload))
        if protocol is not None:
            return protocol
    raise UnreadableRecording(
        f"{path}: no payload looks like a protocol that is known; name one with --protocol"
    )


def _strip_field(payload: Any) -> Any:
    """The JSON of a raw SSE line; anything else as it is."""
    if isinstance(payload, bytes):
        return payload.removeprefix(b"data:")
    return payload.removeprefix("data:") if isinstance(payload, str) else payload


def _check_protocol(place: str, protocol: str) -> None:
    if protocol not in NAMES:
        known = ", ".join(NAMES)
        raise UnreadableRecording(f"{place}: protocol {protocol!r} is unknown; known are {known}")


def _check_tools(place: str, tools: Any) -> tuple[Mapping[str, Any], ...]:
    if not isinstance(tools, list):
        raise UnreadableRecording(f"{place}: {_TOOLS}")
    problems = admit(tools)
    if problems:
        reasons = "; ".join(problem.message for problem in problems)
        raise UnreadableRecording(f"{place}: {reasons}")
    return tuple(tools)

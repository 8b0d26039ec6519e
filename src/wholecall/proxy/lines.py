"""The formatting of log lines: as JSON, or for people; never with a secret."""

from __future__ import annotations

import json
import logging
import time
from datetime import UTC, datetime
from typing import TextIO

import msgspec
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from wholecall.proxy.config.settings import LogConfig
from wholecall.proxy.hiding import Hiding

FIELDS = "fields"
"""Under this name an event may bring its fields as one dictionary. By their own names they would be
copied four times on their way through structlog."""
_LEVELS = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}
_PLAIN = frozenset({bool, int, float, type(None)})
_OURS = frozenset({"upstream", "way", "outcome", "finish_reason"})
"""Fields with a word out of few, all of which are ours."""
_SECOND, _MICROSECOND = 1_000_000_000, 1_000
_DEEPEST = 6
"""Levels of a field that are searched for secrets; deeper ones are omitted."""


class LogWriter:
    """A logger that goes by settings which may change while it is in use."""

    def __init__(self, settings: LogConfig, stream: TextIO, *, hiding: Hiding) -> None:
        self._settings = settings
        self._hiding = hiding
        self._least = _number(settings)
        self._clock = _Clock()
        self.log: FilteringBoundLogger = structlog.wrap_logger(
            _Lines(stream),
            processors=[
                self._compose,
                _render_json if settings.format == "json" else _make_console(stream),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        ).bind()  # what is not bound is put together anew for each line

    @property
    def bodies(self) -> bool:
        """True if texts, arguments and results are logged."""
        return self._settings.bodies

    def reload(self, settings: LogConfig) -> None:
        """Go by other settings from the next line on. The form of lines stays."""
        self._settings = settings
        self._least = _number(settings)

    def _compose(self, _: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """The line in the order in which it is written, without secrets.

        That is one processor and not one for each of its steps, because a line is written for
        every request: so it is gone through once.
        """
        if _LEVELS[method] < self._least:
            raise structlog.DropEvent
        if "exc_info" in event:
            event = structlog.processors.format_exc_info(None, method, event)
        fields: EventDict = event.pop(FIELDS, {})
        line: EventDict = {"timestamp": self._clock.read(), "level": method, "event": ""}
        self._put(event, line)  # with what happened, in its place
        self._put(fields, line)
        return line

    def _put(self, fields: EventDict, line: EventDict) -> None:
        for name, value in fields.items():
            kind = type(value)
            if kind in _PLAIN or name in _OURS:
                line[name] = value
            elif kind is str:
                line[name] = self._hiding.hide(value)
            else:
                line[name] = self._clean(value, _DEEPEST)

    def _clean(self, value: object, depth: int) -> object:
        """Every text of a value without secrets; the names of fields are ours."""
        match value:
            case str():
                return self._hiding.hide(value)
            case bool() | int() | float() | None:
                return value
            case dict() if depth:
                return {name: self._clean(each, depth - 1) for name, each in value.items()}
            case list() | tuple() if depth:
                return [self._clean(each, depth - 1) for each in value]
            case _:
                return self._hiding.hide(str(value))


class _Clock:
    """Says when a line is written. All but the fraction is the same for a second."""

    def __init__(self) -> None:
        self._second = 0
        self._written = ""

    def read(self) -> str:
        second, nanoseconds = divmod(time.time_ns(), _SECOND)
        if second != self._second:
            moment = datetime.fromtimestamp(second, UTC)
            self._second, self._written = second, moment.strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._written}.{nanoseconds // _MICROSECOND:06}Z"


class _Lines:
    """Writes lines. A closed log does not stop the server."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, line: str) -> None:
        try:
            self._stream.write(f"{line}\n")
            self._stream.flush()
        except (OSError, ValueError):  # a full disk; a stream that was closed
            return

    debug = info = warning = error = critical = write


def _number(settings: LogConfig) -> int:
    return _LEVELS[settings.level.lower()]


def _render_json(_: WrappedLogger, __: str, line: EventDict) -> str:
    try:
        return msgspec.json.encode(line).decode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can write
        return json.dumps(line)


def _make_console(stream: TextIO) -> structlog.dev.ConsoleRenderer:
    return structlog.dev.ConsoleRenderer(
        colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
    )

"""How lines of the log are written: as JSON, or in words for people; never with a secret."""

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

_FIRST = ("timestamp", "level", "event")
_LEVELS = logging.getLevelNamesMapping()
_PLAIN = frozenset({bool, int, float, type(None)})
_OURS = frozenset({"level", "upstream", "way", "outcome", "finish_reason"})
"""Fields with a word out of few, all of which are ours."""
_SECOND, _MICROSECOND = 1_000_000_000, 1_000
_DEEPEST = 6
"""Levels of a field that are looked through; deeper ones are left out."""


class LogWriter:
    """A logger that goes by settings which may change while it is in use."""

    def __init__(self, settings: LogConfig, stream: TextIO, *, hiding: Hiding) -> None:
        self._settings = settings
        self._hiding = hiding
        self._least = _number(settings)
        self.log: FilteringBoundLogger = structlog.wrap_logger(
            _Lines(stream),
            processors=[
                self._drop,
                structlog.processors.format_exc_info,
                self._hide,
                _Stamp(),
                _render_json if settings.format == "json" else _make_console(stream),
            ],
            wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        ).bind()  # what is not bound is put together anew for each line

    @property
    def bodies(self) -> bool:
        """Whether texts, arguments and results are written."""
        return self._settings.bodies

    def reload(self, settings: LogConfig) -> None:
        """Go by other settings from the next line on. The form of lines stays."""
        self._settings = settings
        self._least = _number(settings)

    def _drop(self, _: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if _LEVELS[method.upper()] < self._least:
            raise structlog.DropEvent
        event["level"] = method
        return event

    def _hide(self, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
        for name, value in event.items():
            kind = type(value)
            if kind is str and name not in _OURS:
                event[name] = self._hiding.hide(value)
            elif kind is not str and kind not in _PLAIN:
                event[name] = self._clean(value, _DEEPEST)
        return event

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


class _Stamp:
    """Says when a line was written. All but the fraction is the same for a second."""

    def __init__(self) -> None:
        self._second = 0
        self._written = ""

    def __call__(self, _: WrappedLogger, __: str, event: EventDict) -> EventDict:
        second, nanoseconds = divmod(time.time_ns(), _SECOND)
        if second != self._second:
            moment = datetime.fromtimestamp(second, UTC)
            self._second, self._written = second, moment.strftime("%Y-%m-%dT%H:%M:%S")
        event["timestamp"] = f"{self._written}.{nanoseconds // _MICROSECOND:06}Z"
        return event


class _Lines:
    """Writes lines. A log that nobody reads any more is no reason to stop serving."""

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
    return _LEVELS[settings.level.upper()]


def _render_json(_: WrappedLogger, __: str, event: EventDict) -> str:
    line = {**{name: event.pop(name) for name in _FIRST}, **event}
    try:
        return msgspec.json.encode(line).decode()
    except UnicodeEncodeError:  # half of a surrogate pair, which only an escape can write
        return json.dumps(line)


def _make_console(stream: TextIO) -> structlog.dev.ConsoleRenderer:
    return structlog.dev.ConsoleRenderer(
        colors=stream.isatty(), exception_formatter=structlog.dev.plain_traceback
    )

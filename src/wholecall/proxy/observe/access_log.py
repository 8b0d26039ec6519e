"""The access log: one line per exchange, as JSON or for a console, with secrets redacted."""

from __future__ import annotations

import json
import logging
import re
import time
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TextIO, TypeAlias

import msgspec
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from wholecall.agent.call_runner import CAPS
from wholecall.agent.run_events import (
    ApprovalAnswered,
    ApprovalAsked,
    ElicitationAnswered,
    ElicitationAsked,
    Resumed,
    RunEnded,
    Status,
    ToolAbandoned,
    ToolEnded,
    ToolEndedLate,
    ToolPrinted,
    ToolStarted,
    TurnRetried,
    TurnStarted,
)
from wholecall.dialects.provenance import RESCUED
from wholecall.events import (
    Call,
    Ended,
    Fault,
    Inconsistent,
    Reason,
    Rejected,
    Released,
    Text,
    Usage,
    merge_usage,
)
from wholecall.journal.journal_rows import APPROVALS
from wholecall.proxy.config.schema import LogConfig
from wholecall.proxy.http.refusals import HttpRefusal
from wholecall.proxy.observe.inspector_feed import ApprovalGiven
from wholecall.proxy.observe.redaction import Redactor
from wholecall.proxy.observe.taps import (
    AnswerBegan,
    Exchange,
    ExchangeEnded,
    Fate,
    Reading,
    Reads,
    RunOpened,
    UpstreamFailed,
    UpstreamRetried,
)
from wholecall.tools.mcp.tool_definitions import (
    McpEvent,
    ServerLost,
    ServerNoise,
    ServerStarted,
    ToolsListed,
)

_LEVELS = {name.lower(): number for name, number in logging.getLevelNamesMapping().items()}
_OURS = frozenset({"upstream", "way", "outcome", "finish_reason"})
"""Fields with a word out of few, all of which are ours."""
_SECOND, _MICROSECOND = 1_000_000_000, 1_000


class LogWriter:
    """A logger that goes by settings which may change while it is in use."""

    def __init__(self, settings: LogConfig, stream: TextIO, *, redactor: Redactor) -> None:
        self._settings = settings
        self._redactor = redactor
        self._least = _number(settings)
        self._clock = _Clock()
        self._lines = _Lines(stream)
        self._render = _render_json if settings.format == "json" else _make_console(stream)
        self.log: FilteringBoundLogger = structlog.wrap_logger(
            self._lines,
            processors=[self._compose, self._render],
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

    def write(self, level: str, event: str, *, fields: EventDict) -> None:
        """Write a line as `log` does, without the detours of structlog: every request has one."""
        if _LEVELS[level] >= self._least:
            line = self._begin_line(level, event)
            line.update(self._redactor.hide_fields(fields, known=_OURS))
            self._lines.write(self._render(None, level, line))

    def _compose(self, _: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """The line in the order in which it is written, without secrets."""
        if _LEVELS[method] < self._least:
            raise structlog.DropEvent
        if "exc_info" in event:
            event = structlog.processors.format_exc_info(None, method, event)
        line = self._begin_line(method, "")
        # With what happened, in its place.
        line.update(self._redactor.hide_fields(event, known=_OURS))
        return line

    def _begin_line(self, level: str, event: str) -> EventDict:
        return {"timestamp": self._clock.read(), "level": level, "event": event}


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


# The log: one line for each exchange when it is over, and warnings when they arise.
#
# Without `log.bodies` nothing is logged that a client or a model said: neither texts, arguments and
# results nor messages that quote them. Secrets are never logged. The message of an upstream's
# refusal is, because without it no one could find out the reason.


Fields: TypeAlias = dict[str, Any]
"""The fields of a line."""

MOST_CALLS = 64
"""Calls that are described in a line; more are counted."""
MOST_TEXT = 4_000
"""Characters of a text, an argument or a result, where bodies are logged."""
_NAME = re.compile(r"[\w.:/@*-]{1,128}")
_SERVER_FAULT = 500
_QUOTING = frozenset({"bad_call"})
"""Failures whose words quote the model."""
_GOOD_ENDS = frozenset({Status.DONE, Status.SKIPPED, Status.DENIED})
# The setting with which a call that was rejected would have run.
_SETTINGS: Mapping[Reason, Fields] = {Reason.WRITTEN_AS_TEXT: {"setting": "rescue: all"}}


class LogTap:
    """Writes what happens to exchanges."""

    def __init__(self, writer: LogWriter) -> None:
        self._writer = writer

    def open(self, exchange: Exchange) -> Reading:
        """Begin the line of an exchange."""
        bodies = self._writer.bodies
        reads = _READS_WITH_BODIES if bodies else _READS
        return _Line(self._writer, exchange, bodies=bodies), reads


class _Line:
    """One exchange, as far as it has come."""

    def __init__(self, writer: LogWriter, exchange: Exchange, *, bodies: bool) -> None:
        self._write = writer.write
        self._exchange = exchange
        self._bodies = bodies
        self._began: AnswerBegan | None = None
        self._ended: Ended | None = None
        self._stop = ""
        self._usage: Usage | None = None
        self._counts: dict[str, int] = defaultdict(int)
        self._oddities: dict[str, int] = defaultdict(int)
        self._calls: list[Fields] = []
        self._tools: list[Fields] = []
        self._texts: list[str] = []
        self._text_left = MOST_TEXT

    # ── Calls ───────────────────────────────────────────────────────────────────────

    def _release(self, event: Released) -> None:
        call = event.call
        self._describe(
            self._calls,
            name=_name(call.name),
            outcome="released",
            **({"rescued": True} if call.id.startswith(RESCUED) else {}),
            evidence=str(call.evidence.name).lower(),
            **_changes(call),
            **self._quote(arguments=call.raw),
        )

    def _reject(self, rejected: Rejected) -> None:
        told = {
            "name": _name(rejected.name or ""),
            "reason": rejected.reason.value,
            "problems": [problem.kind for problem in rejected.problems],
            **_SETTINGS.get(rejected.reason, {}),
            **self._quote(detail=rejected.detail, arguments=rejected.raw),
        }
        self._describe(self._calls, outcome="rejected", **told)
        self._warn("call rejected", **told)

    def _wonder(self, event: Inconsistent) -> None:
        oddity = event.oddity.value
        self._oddities[oddity] += 1
        if self._oddities[oddity] == 1:  # a stream that repeats itself fills no disk
            self._warn("inconsistent answer", oddity=oddity, **self._quote(detail=event.detail))

    # ── Turns and tools ─────────────────────────────────────────────────────────────

    def _start_turn(self, _: TurnStarted) -> None:
        self._counts["turns"] += 1

    def _retry_turn(self, event: TurnRetried) -> None:
        self._counts["turn_retries"] += 1
        self._warn("turn retried", turn=event.turn, why=event.why)

    def _end_turn(self, event: Ended) -> None:
        self._ended = event
        usage, self._usage = self._usage or Usage(), None
        self._counts["input_tokens"] += usage.input_tokens or 0
        self._counts["output_tokens"] += usage.output_tokens or 0

    def _end_run(self, event: RunEnded) -> None:
        self._stop = event.stop.value
        if event.no_answer or event.stop in CAPS:
            answered = not event.no_answer
            told = self._quote(why=event.no_answer)
            self._warn("run stopped", stop=self._stop, answered=answered, **told)

    def _take_usage(self, usage: Usage) -> None:
        self._usage = usage if self._usage is None else merge_usage(self._usage, usage)

    def _take_text(self, event: Text) -> None:
        self._texts.append(event.text[: self._text_left])
        self._text_left -= len(self._texts[-1])

    def _open_run(self, event: RunOpened) -> None:
        self._tell("run began", run=event.run)

    def _resume_run(self, event: Resumed) -> None:
        told = {"turn": event.turn, "worker": event.worker, "before": event.before}
        self._warn("run taken over", **told)

    def _start_tool(self, event: ToolStarted) -> None:
        self._tell("tool began", name=_name(event.call.name), call=event.call.id)

    def _end_tool(self, event: ToolEnded) -> None:
        told = {
            "name": _name(event.call.name),
            "status": event.status.value,
            "seconds": round(event.seconds, 6),
            **({"error": type(event.error).__name__} if event.error is not None else {}),
            **self._quote(result=event.result.text),
        }
        self._describe(self._tools, **told)
        if event.status not in _GOOD_ENDS:
            self._warn("tool failed", **told)
        if event.blocked:
            blocked = round(event.blocked, 6)
            self._warn("tool blocked the event loop", name=told["name"], seconds=blocked)

    def _end_tool_late(self, event: ToolEndedLate) -> None:
        self._warn(
            "tool ended late",
            name=_name(event.call.name),
            status=event.status.value,
            seconds=round(event.seconds, 6),
            **self._quote(result=event.result.text),
        )

    def _print(self, event: ToolPrinted) -> None:
        self._tell("tool printed", name=_name(event.call.name), text=_cut(event.line))

    def _abandon_tool(self, event: ToolAbandoned) -> None:
        self._warn("tool does not stop", name=_name(event.call.name))

    def _ask_for_approval(self, event: ApprovalAsked) -> None:
        self._tell("approval asked for", name=_name(event.call.name))

    def _answer_approval(self, event: ApprovalAnswered) -> None:
        told = {"approved": event.approved, **self._quote(why=event.why)}
        self._tell("approval answered", name=_name(event.call.name), **told)

    def _ask_user(self, event: ElicitationAsked) -> None:
        name = _name(event.call.name)
        self._tell("user asked", name=name, server=event.server, **self._quote(text=event.message))

    def _answer_user(self, event: ElicitationAnswered) -> None:
        self._tell("user answered", name=_name(event.call.name), action=event.action)

    # ── The upstream ────────────────────────────────────────────────────────────────

    def _retry_upstream(self, event: UpstreamRetried) -> None:
        self._counts["retries"] += 1
        self._warn("upstream asked again", delay=round(event.delay, 3))

    def _fail_upstream(self, event: UpstreamFailed) -> None:
        error = event.error
        self._warn(
            "upstream failed",
            status=error.status,
            code=error.code,
            message=str(error),
            retries=event.retries,
        )

    def _fault(self, event: Fault) -> None:
        self._warn("answer broken", fault=event.kind.value, message=_cut(event.message))

    # ── The end ─────────────────────────────────────────────────────────────────────

    def _begin(self, event: AnswerBegan) -> None:
        self._began = event

    def _end(self, event: ExchangeEnded) -> None:
        exchange, began, ended = self._exchange, self._began, self._ended
        quoting = event.status < _SERVER_FAULT or event.code in _QUOTING
        fields: Fields = {
            "key_id": exchange.key_id,
            "path": exchange.path,
            "upstream": exchange.upstream,
            "way": exchange.way,
            "stream": exchange.stream,
            "dropped": [_name(each) for each in exchange.dropped[:MOST_CALLS]],
            "outcome": event.fate.value,
            "status": event.status,
            "code": event.code,
            "message": "" if quoting and not self._bodies else _cut(event.message),
            "seconds": round(event.seconds, 6),
            "first_byte_seconds": None if began is None else round(began.seconds, 6),
            "added_seconds": None if began is None else round(began.added, 6),
            "finish_reason": None if ended is None else ended.finish_reason,
            "stop": self._stop,
            "native_finish_reason": None if ended is None else _name(ended.native or ""),
            **self._counts,
            "calls": self._calls,
            "tools": self._tools,
            "inconsistencies": self._oddities,
            "text": _cut("".join(self._texts)),
        }
        self._write(_level(event), "exchange", fields=_fill(self._who(), fields))

    # ── Lines ───────────────────────────────────────────────────────────────────────

    def _describe(self, place: list[Fields], **fields: Any) -> None:
        if len(place) < MOST_CALLS:
            place.append(_fill({}, fields))
        else:
            self._counts["left_out"] += 1

    def _warn(self, event: str, **fields: Any) -> None:
        self._write("warning", event, fields=_fill(self._who(), fields))

    def _tell(self, event: str, **fields: Any) -> None:
        self._write("info", event, fields=_fill(self._who(), fields))

    def _who(self) -> Fields:
        who = {"request_id": self._exchange.request_id}
        return _fill(who, {"model": _name(self._exchange.model)})

    def _quote(self, **texts: str) -> Fields:
        """Return content, if it may be logged."""
        return {name: _cut(text) for name, text in texts.items()} if self._bodies else {}


_READS = Reads(
    {
        Released: _Line._release,
        Rejected: _Line._reject,
        Inconsistent: _Line._wonder,
        Fault: _Line._fault,
        Usage: _Line._take_usage,
        Ended: _Line._end_turn,
        TurnStarted: _Line._start_turn,
        TurnRetried: _Line._retry_turn,
        RunEnded: _Line._end_run,
        RunOpened: _Line._open_run,
        Resumed: _Line._resume_run,
        ToolStarted: _Line._start_tool,
        ToolEnded: _Line._end_tool,
        ToolEndedLate: _Line._end_tool_late,
        ToolPrinted: _Line._print,
        ToolAbandoned: _Line._abandon_tool,
        ApprovalAsked: _Line._ask_for_approval,
        ApprovalAnswered: _Line._answer_approval,
        ElicitationAsked: _Line._ask_user,
        ElicitationAnswered: _Line._answer_user,
        UpstreamRetried: _Line._retry_upstream,
        UpstreamFailed: _Line._fail_upstream,
        AnswerBegan: _Line._begin,
        ExchangeEnded: _Line._end,
    }
)
_READS_WITH_BODIES = Reads({**_READS.by_type, Text: _Line._take_text})


def _fill(line: Fields, fields: Fields) -> Fields:
    """Put those into a line that say something; 0 and False do."""
    for name, value in fields.items():
        if value or value == 0:
            line[name] = value
    return line


def _level(event: ExchangeEnded) -> str:
    if event.fate is Fate.DONE:
        return "info"
    # Who left, or was there at the end of the proxy, has met no error.
    failed = event.fate is Fate.FAILED and event.status >= _SERVER_FAULT
    return "error" if failed else "warning"


def _changes(call: Call) -> Fields:
    return {
        "repairs": [repair.kind for repair in call.repairs],
        "coercions": len(call.coercions) or None,
        "dropped": len(call.dropped) or None,
    }


def _name(name: str) -> str:
    """A name, if it is a word. Models write whole sentences where names should stand."""
    if not name or _NAME.fullmatch(name):
        return name
    return f"({len(name)} characters that are no name)"


def _cut(text: str) -> str:
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]} …"


# ── Requests that were turned away ──────────────────────────────────────────────────


def log_refusal(log: FilteringBoundLogger, refusal: HttpRefusal) -> None:
    """One line for a request that was turned away at the door."""
    fields: Fields = {
        "request_id": refusal.request_id,
        "key_id": refusal.key_id,
        "path": _name(refusal.path),
        "status": refusal.status,
        "code": refusal.code,
    }
    log.warning("request refused", **_fill({}, fields))


# ── Approvals ───────────────────────────────────────────────────────────────────────


def log_approval(log: FilteringBoundLogger, given: ApprovalGiven) -> None:
    """One line for an answer: who gave it, for what. The run that waited has lines of its own."""
    fields: Fields = {**given._asdict(), "tool": _name(given.tool)}
    if given.decision in APPROVALS:
        fields["approved"] = fields.pop("decision") == APPROVALS[0]
        log.info("approval given", **_fill({}, fields))
    else:
        log.info("decision given", **_fill({}, fields))


# ── MCP servers ─────────────────────────────────────────────────────────────────────


def log_server_event(log: FilteringBoundLogger, event: McpEvent) -> None:
    """One line for what became of an MCP server."""
    match event:
        case ServerStarted(server):
            log.info("MCP server started", server=server)
        case ServerLost():
            log.warning(
                "MCP server lost",
                server=event.server,
                why=event.reason,
                stderr=_cut(event.stderr),
                delay=event.delay,
            )
        case ServerNoise(server, line):
            log.warning(
                "MCP server wrote a line that is not a message", server=server, line=_cut(line)
            )
        case ToolsListed():
            # A changed tool under a known name is not offered until an operator accepts it.
            changed = [each.tool for each in event.changed]
            refused = {each.tool: each.reason for each in event.refused}
            level = logging.WARNING if changed or refused else logging.INFO
            fields: Fields = {
                "server": event.server,
                "offered": list(event.offered),
                "changed": changed,
                "refused": refused,
            }
            log.log(level, "MCP tools listed", **_fill({}, fields))


# ── Output ──────────────────────────────────────────────────────────────────────────


def log_print(log: FilteringBoundLogger, line: str) -> None:
    """Write a line that was printed in this process, and not by a tool that is known."""
    log.info("printed", text=_cut(line))


# ── Libraries ───────────────────────────────────────────────────────────────────────


class _Forwarder(logging.Handler):
    """Forwards the lines of libraries, and ours about our own bugs, to the same log."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line."""
        self._log.log(
            record.levelno, record.getMessage(), logger=record.name, exc_info=record.exc_info
        )


def take_library_logs(log: FilteringBoundLogger) -> None:
    """From now on, whatever is logged by the standard library's `logging` goes into `log`.

    For processes that do nothing but serve. Libraries tell of every request at the level of
    information, with its address; that is not written.
    """
    root = logging.getLogger()
    root.handlers = [_Forwarder(log)]
    root.setLevel(logging.WARNING)

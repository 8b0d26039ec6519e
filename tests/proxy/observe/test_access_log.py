from __future__ import annotations

import io
import json
import logging
from typing import Any

import pytest

from exchanges import Clock, call, watch
from wholecall.agent.budget import Stop
from wholecall.agent.run_events import (
    ApprovalAnswered,
    ApprovalAsked,
    RunEnded,
    Status,
    ToolAbandoned,
    ToolEnded,
    ToolEndedLate,
    ToolPrinted,
    TurnRetried,
    TurnStarted,
)
from wholecall.errors import UpstreamError
from wholecall.events import (
    Coercion,
    Ended,
    Evidence,
    Fault,
    FaultKind,
    Hint,
    Inconsistent,
    Oddity,
    Problem,
    Reason,
    Rejected,
    Released,
    Repair,
    Text,
    Usage,
)
from wholecall.messages import Result
from wholecall.proxy.config.schema import LogConfig
from wholecall.proxy.observe.access_log import (
    MOST_CALLS,
    MOST_TEXT,
    LogTap,
    LogWriter,
    take_library_logs,
)
from wholecall.proxy.observe.redaction import Redactor
from wholecall.proxy.observe.taps import (
    AnswerBegan,
    Exchange,
    ExchangeWatch,
    Fate,
    TapEvent,
    UpstreamFailed,
    UpstreamRetried,
)

WHO = {"request_id": "req_1", "model": "gpt-x"}
SAID = "Berlin, said Anna"
"""What a client or a model said."""


class Book:
    """A log that is read again."""

    def __init__(self, *, bodies: bool = False, secrets: tuple[str, ...] = ()) -> None:
        self._stream = io.StringIO()
        self.writer = LogWriter(LogConfig(bodies=bodies), self._stream, redactor=Redactor(secrets))
        self.tap = LogTap(self.writer)

    @property
    def text(self) -> str:
        return self._stream.getvalue()

    def lines(self) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in self.text.splitlines()]
        assert all(line.pop("timestamp") for line in lines)
        return lines


def show(*events: TapEvent, bodies: bool = False) -> list[dict[str, Any]]:
    book = Book(bodies=bodies)
    shown = watch(book.tap)
    for event in events:
        shown.take(event)
    return book.lines()


def conclude(*events: TapEvent, bodies: bool = False) -> dict[str, Any]:
    book = Book(bodies=bodies)
    shown = watch(book.tap)
    for event in events:
        shown.take(event)
    shown.end(Fate.DONE)
    return book.lines()[-1]


def test_each_exchange_ends_in_one_line() -> None:
    book, clock = Book(), Clock()
    shown = watch(book.tap, clock=clock)
    whole = call(
        evidence=Evidence.CLOSED | Evidence.CONFIRMED,
        repairs=(Repair("strip_fence", "", ""),),
        coercions=(Coercion("$.a", "1", 1),),
        dropped=("extra", "more"),
    )
    for event in (
        TurnStarted(1),
        Text("one moment"),
        Released(whole),
        Usage(10, 2),
        Usage(None, 5),
        Ended("tool_calls", Hint.TOOL_CALLS, "tool_calls", None),
        ToolEnded(call(), Status.DONE, Result((Text("sun"),)), 0.25),
        TurnStarted(2),
        Usage(20, 7),
        AnswerBegan(1.5, added=0.5),
        Ended("stop", Hint.STOP, "end_turn", None),
    ):
        shown.take(event)
    clock.now += 3
    shown.end(Fate.DONE)
    assert book.lines() == [
        {
            "level": "info",
            "event": "exchange",
            **WHO,
            "key_id": "key_1",
            "path": "/v1/chat/completions",
            "upstream": "openai-chat",
            "way": "gate",
            "stream": True,
            "outcome": "done",
            "status": 200,
            "seconds": 3.0,
            "first_byte_seconds": 1.5,
            "added_seconds": 0.5,
            "finish_reason": "stop",
            "native_finish_reason": "end_turn",
            "turns": 2,
            "input_tokens": 30,
            "output_tokens": 12,
            "calls": [
                {
                    "name": "get_weather",
                    "outcome": "released",
                    "evidence": "closed|confirmed",
                    "repairs": ["strip_fence"],
                    "coercions": 1,
                    "dropped": 2,
                }
            ],
            "tools": [{"name": "get_weather", "status": "done", "seconds": 0.25}],
        }
    ]


WARNINGS: dict[str, tuple[TapEvent, dict[str, Any]]] = {
    "a call that cannot be run": (
        Rejected(
            reason=Reason.SCHEMA,
            detail=f"the city is {SAID}",
            name="get_weather",
            raw=SAID,
            problems=(Problem("$.city", "type", SAID, received=SAID, expected=SAID),),
        ),
        {
            "event": "call rejected",
            "name": "get_weather",
            "reason": "schema",
            "problems": ["type"],
        },
    ),
    "a call that a setting forbids": (
        Rejected(reason=Reason.WRITTEN_AS_TEXT, detail="", name="get_weather"),
        {
            "event": "call rejected",
            "name": "get_weather",
            "reason": "written_as_text",
            "setting": "rescue: all",
        },
    ),
    "a name that is none": (
        Rejected(reason=Reason.UNKNOWN_TOOL, detail="", name=SAID),
        {
            "event": "call rejected",
            "name": "(17 characters that are no name)",
            "reason": "unknown_tool",
        },
    ),
    "a strange answer": (
        Inconsistent(Oddity.CALLS_WITH_OTHER_HINT, SAID),
        {"event": "inconsistent answer", "oddity": "calls_with_other_hint"},
    ),
    "a broken stream": (
        Fault(FaultKind.STREAM_DROPPED, "it ended without an end"),
        {
            "event": "answer broken",
            "fault": "stream_dropped",
            "message": "it ended without an end",
        },
    ),
    "a void answer": (
        TurnRetried(2, "the answer was empty"),
        {"event": "turn retried", "turn": 2, "why": "the answer was empty"},
    ),
    "another attempt": (
        UpstreamRetried(0.51234),
        {"event": "upstream asked again", "delay": 0.512},
    ),
    "an upstream that refuses": (
        UpstreamFailed(UpstreamError("the model is not loaded", status=503, code="loading"), 2),
        {
            "event": "upstream failed",
            "status": 503,
            "code": "loading",
            "message": "the model is not loaded",
            "retries": 2,
        },
    ),
    "a tool that fails": (
        ToolEnded(call(), Status.FAILED, Result((Text(SAID),)), 0.5, KeyError(SAID)),
        {
            "event": "tool failed",
            "name": "get_weather",
            "status": "failed",
            "seconds": 0.5,
            "error": "KeyError",
        },
    ),
    "a tool that blocks": (
        ToolEnded(call(), Status.DONE, Result((Text(SAID),)), 3.0, blocked=2.5),
        {"event": "tool blocked the event loop", "name": "get_weather", "seconds": 2.5},
    ),
    "a tool that ends after its time": (
        ToolEndedLate(call(), Status.DONE, Result((Text(SAID),)), 40.5),
        {"event": "tool ended late", "name": "get_weather", "status": "done", "seconds": 40.5},
    ),
    "a run that was stopped": (
        RunEnded(Stop.TURNS),
        {"event": "run stopped", "stop": "turns", "answered": True},
    ),
    "a run that was stopped without an answer": (
        RunEnded(Stop.IDENTICAL, SAID),
        {"event": "run stopped", "stop": "identical", "answered": False},
    ),
    "a tool that goes on": (
        ToolAbandoned(call()),
        {"event": "tool does not stop", "name": "get_weather"},
    ),
}


@pytest.mark.parametrize("case", WARNINGS)
def test_warnings_come_at_once_and_quote_nobody(case: str) -> None:
    event, expected = WARNINGS[case]
    assert show(event) == [{"level": "warning", **WHO, **expected}]


def test_approvals_are_told_at_once_and_quote_nobody() -> None:
    told = {"level": "info", **WHO, "name": "get_weather"}
    events = (ApprovalAsked(call()), ApprovalAnswered(call(), False, SAID))
    assert show(*events) == [
        {"event": "approval asked for", **told},
        {"event": "approval answered", **told, "approved": False},
    ]


def test_what_a_tool_prints_is_a_line_of_its_own() -> None:
    told = {"level": "info", **WHO, "event": "tool printed", "name": "get_weather"}
    assert show(ToolPrinted(call(), "half of it")) == [{**told, "text": "half of it"}]


def test_a_tool_that_was_not_run_is_no_failure() -> None:
    assert show(ToolEnded(call(), Status.DENIED, Result(()))) == []


def test_the_line_says_why_a_run_ended() -> None:
    assert show(RunEnded(Stop.ANSWER)) == []
    assert conclude(RunEnded(Stop.ANSWER))["stop"] == "answer"
    assert conclude(RunEnded(Stop.CALLS))["stop"] == "calls"
    assert "stop" not in conclude()


def test_an_oddity_that_repeats_itself_is_told_once_and_counted() -> None:
    odd = Inconsistent(Oddity.ID_MISSING)
    assert len(show(odd, odd, odd)) == 1
    assert conclude(odd, odd, odd)["inconsistencies"] == {"id_missing": 3}


def test_the_line_is_bounded() -> None:
    line = conclude(*[Released(call())] * (MOST_CALLS + 3))
    assert len(line["calls"]) == MOST_CALLS
    assert line["left_out"] == 3


def test_a_request_that_names_no_model_has_none_in_its_line() -> None:
    book = Book()
    ExchangeWatch(Exchange(request_id="req_1"), [book.tap]).end(Fate.FAILED, status=400)
    [line] = book.lines()
    assert line["request_id"] == "req_1"
    assert "model" not in line


def test_retries_are_in_the_line() -> None:
    line = conclude(UpstreamRetried(1.0), TurnRetried(1, ""))
    assert (line["retries"], line["turn_retries"]) == (1, 1)


ENDS = [
    ((Fate.DONE, 200, ""), ("info", None)),
    ((Fate.GONE, 499, ""), ("warning", None)),
    ((Fate.STOPPED, 503, "shutting_down"), ("warning", SAID)),
    ((Fate.FAILED, 400, "invalid_value"), ("warning", None)),
    ((Fate.FAILED, 502, "bad_call"), ("error", None)),
    ((Fate.FAILED, 502, "connection"), ("error", SAID)),
]


@pytest.mark.parametrize(("end", "expected"), ENDS)
def test_a_failure_is_told_in_words_that_quote_nobody(
    end: tuple[Fate, int, str], expected: tuple[str, str | None]
) -> None:
    fate, status, code = end
    book = Book()
    watch(book.tap).end(fate, status=status, code=code, message=SAID)
    [line] = book.lines()
    assert (line["level"], line.get("message")) == expected
    assert (line["outcome"], line["status"], line.get("code", "")) == (fate.value, status, code)


# ── Bodies ──────────────────────────────────────────────────────────────────────────

SPOKEN: list[TapEvent] = [
    Text(SAID),
    Released(call(raw=f'{{"city": "{SAID}"}}')),
    Rejected(reason=Reason.BAD_JSON, detail=SAID, raw=SAID),
    Inconsistent(Oddity.NAME_SPLIT, SAID),
    ApprovalAnswered(call(), False, SAID),
    ToolEnded(call(), Status.DONE, Result((Text(SAID),))),
    ToolEnded(call(), Status.TIMED_OUT, Result((Text(SAID),))),
]


@pytest.mark.parametrize("event", SPOKEN)
def test_nothing_that_was_said_is_logged(event: TapEvent) -> None:
    book = Book()
    shown = watch(book.tap)
    shown.take(event)
    shown.end(Fate.FAILED, status=400, message=SAID)
    assert SAID not in book.text


@pytest.mark.parametrize("event", SPOKEN)
def test_unless_it_is_wanted(event: TapEvent) -> None:
    book = Book(bodies=True)
    shown = watch(book.tap)
    shown.take(event)
    shown.end(Fate.DONE)
    assert SAID in book.text


def test_bodies_are_cut() -> None:
    line = conclude(Text("x" * 3000), Text("y" * 3000), Text("z"), bodies=True)
    assert line["text"] == "x" * 3000 + "y" * (MOST_TEXT - 3000)
    [found] = conclude(Released(call(raw="{" + " " * 9000 + "}")), bodies=True)["calls"]
    assert len(found["arguments"]) == MOST_TEXT + 2


# ── Secrets ─────────────────────────────────────────────────────────────────────────

KEY = "Zq81hHw0pLx5RkT2"
PLANTED: list[TapEvent] = [
    UpstreamFailed(UpstreamError(f"Incorrect API key provided: sk-{KEY}", status=401)),
    UpstreamFailed(UpstreamError(f"cannot reach https://anna:{KEY}@models.example.com")),
    UpstreamFailed(UpstreamError(f"GET /v1?key={KEY}", code="connection")),
    UpstreamFailed(UpstreamError("refused", status=401, code=KEY)),
    Fault(FaultKind.UPSTREAM_ERROR, f"header Authorization: Bearer {KEY} is wrong"),
    TurnRetried(1, f"x-api-key: {KEY} was refused"),
    Released(call(raw=f'{{"api_key": "{KEY}"}}')),
    Rejected(reason=Reason.UNKNOWN_TOOL, detail=f"sk-{KEY}", name=KEY, raw=KEY),
    ToolEnded(call(), Status.FAILED, Result((Text(f"password={KEY}"),))),
    ApprovalAsked(call(name=KEY)),
    ApprovalAnswered(call(name=KEY), True, f"token={KEY}"),
    Text(f"your key is sk-{KEY}"),
]


@pytest.mark.parametrize("event", PLANTED)
@pytest.mark.parametrize("bodies", [False, True])
def test_secrets_are_never_logged(event: TapEvent, *, bodies: bool) -> None:
    book = Book(bodies=bodies, secrets=(KEY,))
    shown = watch(book.tap, model=KEY)
    shown.take(event)
    shown.end(Fate.FAILED, status=500, code="internal_error", message=f"oh, {KEY}")
    assert len(book.lines()) >= 1
    assert KEY not in book.text


# ── Libraries ───────────────────────────────────────────────────────────────────────


def test_lines_of_libraries_come_into_the_same_log() -> None:
    book, root = Book(secrets=(KEY,)), logging.getLogger()
    before = (root.handlers[:], root.level)
    take_library_logs(book.writer.log)
    try:
        logging.getLogger("aiohttp.client").warning("cannot reach %s", KEY)
        logging.getLogger("aiohttp.client").debug("too much")
        int(f"no {KEY}")
    except ValueError:
        logging.getLogger("wholecall").exception("request %s failed", "req_1")
    finally:
        root.handlers, root.level = before
    first, second = book.lines()
    assert first == {
        "level": "warning",
        "event": "cannot reach ***",
        "logger": "aiohttp.client",
    }
    assert (second["level"], second["event"]) == ("error", "request req_1 failed")
    assert "'no ***'" in second["exception"]
    assert KEY not in book.text
    assert (root.handlers, root.level) == before

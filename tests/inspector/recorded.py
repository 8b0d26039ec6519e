"""Runs for the tests of the inspector."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from wholecall.agent.run_events import TurnStarted
from wholecall.events import (
    Call,
    Ended,
    Evidence,
    Grew,
    Hint,
    Opened,
    Reason,
    Rejected,
    Released,
    Value,
)
from wholecall.inspector.page_encoder import Encoders, Fields, Quoting, make_encoder
from wholecall.inspector.run_record import (
    USUAL_LIMITS,
    About,
    Batch,
    Record,
    RecordLimits,
    StoredRun,
    make_id,
    write_run,
)
from wholecall.inspector.run_store import RunStore
from wholecall.inspector.tap import Describe
from wholecall.proxy.observe.inspector_feed import ENCODERS
from wholecall.proxy.observe.taps import ExchangeEnded, Fate
from wholecall.storage import StoreFailed

SECRET = "hunter2-hunter2"
ARGUMENTS = '{"city": "Rome"}'
CALL = Call(
    id="c1",
    name="look",
    arguments={"city": "Rome"},
    raw=ARGUMENTS,
    evidence=Evidence.CLOSED | Evidence.CONFIRMED,
)


class Note(Value, frozen=True):
    """An event that others know."""

    text: str = ""


def end(fate: str = "done", message: str = "", *, code: str = "") -> ExchangeEnded:
    """The last event of a run."""
    status = 200 if fate == "done" else 502
    return ExchangeEnded(fate=Fate(fate), seconds=1.5, status=status, code=code, message=message)


TELLING: Encoders = {**ENCODERS, Note: make_encoder(Note, text=Quoting.clean)}
OVER = end()
STORY: tuple[object, ...] = (
    TurnStarted(1),
    Opened(0, "c1", "look"),
    Grew(0, '{"city": '),
    Grew(0, '"Rome"}'),
    Released(CALL),
    Ended("tool_calls", Hint.TOOL_CALLS, "tool_calls", None),
)


class NoSecrets:
    """The filter where no secrets are known."""

    def hide(self, text: str) -> str:
        """The text as it is."""
        return text

    def tail(self, _: str) -> str:
        """Nothing has begun."""
        return ""

    def finds_in(self, _: Sequence[str]) -> bool:
        """Return False: no secrets are known."""
        return False


class Hider:
    """Knows one secret."""

    def __init__(self, secret: str = SECRET) -> None:
        self._secret = secret

    def hide(self, text: str) -> str:
        return text.replace(self._secret, "***")

    def tail(self, text: str) -> str:
        return text[-len(self._secret) :]

    def finds_in(self, texts: Sequence[str]) -> bool:
        return any(self._secret in text for text in texts)


def make_head(id: str | None = None, **fields: Any) -> Fields:
    """How a run begins."""
    given = {"type": "Exchange", "began": 1000.0, "model": "m", "bodies": True, **fields}
    return {**given, "id": id or make_id(given["began"]), "request_id": "req_1", "way": "gate"}


def describing(key: str = "k1", *, started: float | None = None) -> Describe:
    """What tells of a run that begins now."""
    now = time.perf_counter() if started is None else started
    about = About(make_head(began=time.time()), key, started=now)
    return lambda _: about


def record(
    items: Iterable[object] = (),
    *,
    bodies: bool = True,
    key: str = "",
    model: str = "m",
    limits: RecordLimits = USUAL_LIMITS,
) -> Record:
    """A run, as far as these events go; one comes each second."""
    about = About(make_head(model=model, bodies=bodies), key, started=100.0)
    made = Record(about, Quoting(bodies, Hider()), encoders=TELLING, limits=limits)
    for number, item in enumerate(items, 1):
        made.take_all([100.0 + number, item])
    return made


def told(made: Record) -> list[Fields]:
    """The events of a run, as the page gets them."""
    return list(msgspec.json.decode(msgspec.json.encode(made.events)))


def show(*events: object, quoting: Quoting | None = None) -> list[Fields]:
    """Events, as the page gets them."""
    quoting = quoting or Quoting(bodies=True, hides=Hider())
    shown = [TELLING[type(event)](event, quoting) for event in events]
    return list(msgspec.json.decode(msgspec.json.encode(shown)))


def kept(id: str = "run_1", events: Iterable[object] = (), **fields: Any) -> Batch:
    """A run for the file, with these events between its beginning and its end."""
    given = {"key": "", "began": 1000.0, "model": "m", "answers": (), "over": OVER, **fields}
    head = make_head(id, began=given["began"], model=given["model"])
    told = [head, *show(*events, given["over"])]
    for number, event in enumerate(told):
        event["n"], event["at"] = number, float(number)
    return write_run(StoredRun(told, given["key"]), given["answers"])


def released(name: str = "look", number: int = 0, **fields: Any) -> Released:
    """A call that may run."""
    return Released(replace(CALL, id=f"c{number}", name=name, number=number, **fields))


def rejected(name: str, reason: str) -> Rejected:
    """A call that may not."""
    return Rejected(reason=Reason(reason), detail="no", name=name, raw="12345678")


class SlowStore(RunStore):
    """A store on a disk that makes one wait, or that is full."""

    def __init__(self, *, full: bool = False) -> None:
        super().__init__()
        self.go_on = threading.Event()
        self.reached = threading.Event()
        self.given: list[Batch] = []
        """What was to be kept."""
        self._full = full
        if full:
            self.go_on.set()

    def put(self, *batches: Batch) -> None:
        self.given += batches
        if batches:
            self.reached.set()
            assert self.go_on.wait(20)
            if self._full:
                raise StoreFailed("the disk is full")
        super().put(*batches)

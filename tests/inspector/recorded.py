"""Runs for the tests of the inspector."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from wholecall.agent.run_events import TurnStarted
from wholecall.events import Call, Ended, Evidence, Grew, Hint, Opened, Released
from wholecall.inspector import page_events
from wholecall.inspector.page_encoder import ENCODERS, Encoders, Fields, Quoting
from wholecall.inspector.run_record import About, Record, make_id
from wholecall.inspector.run_store import RunStore
from wholecall.inspector.stored_run import Batch, StoredRun, read_runs, write_runs
from wholecall.inspector.tap import Describe
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


class Note(NamedTuple):
    """An event that others know."""

    text: str = ""


class Done(NamedTuple):
    """The last event of a run."""

    fate: str = "done"
    message: str = ""


def tell_note(note: Note, quoting: Quoting) -> page_events.PageEvent:
    return page_events.PageFault("noted", quoting.clean(note.text))


def tell_done(done: Done, quoting: Quoting) -> page_events.PageEvent:
    message = quoting.clean(done.message)
    return page_events.PageOver(fate=done.fate, status=200, seconds=1.5, message=message)


TELLING: Encoders = {**ENCODERS, Note: tell_note, Done: tell_done}
OVER = Done()
STORY: tuple[object, ...] = (
    TurnStarted(1),
    Opened(0, "c1", "look"),
    Grew(0, '{"city": '),
    Grew(0, '"Rome"}'),
    Released(CALL),
    Ended("tool_calls", Hint.TOOL_CALLS, "tool_calls", None),
)


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


def make_head(id: str | None = None, **fields: Any) -> page_events.PageRun:
    """How a run begins."""
    given = {"began": 1000.0, "model": "m", "bodies": True, **fields}
    return page_events.PageRun(
        id=id or make_id(given["began"]),
        request_id="req_1",
        protocol="openai-chat",
        upstream="openai-chat",
        upstream_model="m",
        way="gate",
        stream=True,
        n=0,
        at=0.0,
        **given,
    )


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
    **limits: int,
) -> Record:
    """A run, as far as these events go; one comes each second."""
    about = About(make_head(model=model, bodies=bodies), key, started=100.0)
    made = Record(about, Quoting(bodies, Hider()), encoders=TELLING, **limits)
    for number, item in enumerate(items, 1):
        made.take_all([100.0 + number, item])
    return made


def told(made: Record) -> list[Fields]:
    """The events of a run, as the page gets them."""
    return list(msgspec.json.decode(msgspec.json.encode(made.events)))


def kept(
    id: str = "run_1",
    events: Iterable[page_events.PageEvent] = (),
    *,
    fate: str = "done",
    code: str = "",
    **fields: Any,
) -> Batch:
    """A run for the file, with these events between its beginning and its end."""
    given = {"key": "", "began": 1000.0, "model": "m", "answers": (), **fields}
    head = make_head(id, began=given["began"], model=given["model"])
    over = page_events.PageOver(fate=fate, status=200, seconds=1.5, code=code)
    told = [head, *events, over]
    for number, event in enumerate(told):
        event.n, event.at = number, float(number)
    run = StoredRun(cast(list[page_events.AnyPageEvent], told), given["key"])
    return Batch(given["began"], write_runs([run]), answers=given["answers"])


def join(*batches: Batch) -> Batch:
    """The same runs in one batch."""
    runs = [run for batch in batches for run in read_runs(batch.content)]
    return Batch(batches[-1].began, write_runs(runs), len(runs))


def released(name: str = "look", number: int = 0) -> page_events.PageReleased:
    """A call that may run."""
    return page_events.PageReleased(number=number, id=f"c{number}", name=name, characters=8)


def rejected(name: str, reason: str) -> page_events.PageRejected:
    """A call that may not."""
    return page_events.PageRejected(number=0, name=name, reason=reason, characters=8)


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

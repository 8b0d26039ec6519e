"""Runs for the tests of the inspector."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from wholecall.core.values import Call, Ended, Evidence, Grew, Hint, Opened, Released
from wholecall.inspector.encoding import Fields, Quoting
from wholecall.inspector.record import About, Notes, Record
from wholecall.inspector.store import KeptRun
from wholecall.inspector.tally import CallTally
from wholecall.runs.events import TurnStarted

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

    fields: Fields


def tell(note: Note, quoting: Quoting) -> Fields:
    texts = {name: text for name, text in note.fields.items() if isinstance(text, str)}
    return {**note.fields, **{name: quoting.clean(text) for name, text in texts.items()}}


NOTES: Notes = {Note: tell}
OVER = Note({"kind": "over", "fate": "done", "status": 200, "code": "", "seconds": 1.5})
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


def record(
    items: Iterable[object] = (),
    *,
    bodies: bool = True,
    key: str = "",
    model: str = "m",
    **limits: int,
) -> Record:
    """A run, as far as these events go; one comes each second."""
    about = About(request_id="req_1", model=model, key=key, way="run", started=100.0)
    made = Record(about, Quoting(bodies, Hider()), notes=NOTES, **limits)
    for number, item in enumerate(items, 1):
        made.take_all([100.0 + number, item])
    return made


def kept(id: str = "run_1", **fields: Any) -> KeptRun:
    """A run of the file."""
    usual: dict[str, Any] = {
        "began": 1000.0,
        "model": "m",
        "summary": {"id": id, "fate": "done"},
        "calls": (CallTally(turn=1, number=0, name="look", verdict="released"),),
        "events": b'[{"n": 0, "at": 0.0, "kind": "run"}]',
    }
    return KeptRun(id=id, **{**usual, **fields})

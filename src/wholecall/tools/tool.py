"""A tool: one callable with its schema, the rules by which it runs, and its limit of concurrent
calls.
"""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias, TypeVar

import pydantic_core

from wholecall.arguments.describe import cut
from wholecall.arguments.validate import check
from wholecall.events import JSON, Call, Problem, Text
from wholecall.messages import Content, Media, Result, ToolSpec

# Exceptions by which a tool says what the model should do.
#
# Any other exception means that the tool itself is at fault. The model learns so, and a read-only
# or idempotent tool with `retries` is tried again first. These two are final.


class Retry(Exception):
    """A call that can be corrected: the model learns how, and is asked to send it again.

    `raise Retry("there is no city 'Olso'; the nearest is 'Oslo'")`
    """


class Failed(Exception):
    """No other call would help: the model learns why, and continues without the result.

    `raise Failed("the archive is closed until Monday")`
    """


# Taps of users: functions that look on, and must not change what they look at.


_Event = TypeVar("_Event")


def notify(event: _Event, tap: Callable[[_Event], None], *, of: str) -> None:
    """Show an event to a tap `of` something. What it raises goes to the event loop's exception
    handler, which logs it, and nowhere else."""
    try:
        tap(event)
    # It is the user's code, and may raise anything.
    except Exception as error:  # noqa: BLE001
        message = f"a tap of {of} raised at {type(event).__name__}"
        asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})


# Limit the concurrent calls of one tool, in the whole process.
#
# A tool outlives its runs and may be used by several event loops, each in a thread of its own
# (`ask_sync`). `asyncio.Semaphore` belongs to one loop, so it cannot be used.


class _Waiter(NamedTuple):
    loop: asyncio.AbstractEventLoop
    arrived: asyncio.Future[None]


class Places:
    """Lets at most `limit` in at a time; the others wait in the order of their coming."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"a tool needs room for one call at least, not {limit!r}")
        self._lock = threading.Lock()
        self._free = limit
        self._waiting: deque[_Waiter] = deque()

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        waiter = _Waiter(loop, loop.create_future())
        with self._lock:
            if self._free:
                self._free -= 1
                return
            self._waiting.append(waiter)
        try:
            await waiter.arrived
        except asyncio.CancelledError:
            self._give_up(waiter)
            raise

    async def __aexit__(self, *_: object) -> None:
        self._pass_on()

    def _give_up(self, waiter: _Waiter) -> None:
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                return
        # It was called in at the same moment: the place is taken, and goes to the next.
        self._pass_on()

    def _pass_on(self) -> None:
        with self._lock:
            while self._waiting:
                waiter = self._waiting.popleft()
                if _call_in(waiter):
                    return
            self._free += 1


def _call_in(waiter: _Waiter) -> bool:
    """Return True if the waiter was still there to be woken."""
    try:
        waiter.loop.call_soon_threadsafe(_arrive, waiter.arrived)
    except RuntimeError:  # its loop was closed
        return False
    return True


def _arrive(arrived: asyncio.Future[None]) -> None:
    if not arrived.done():
        arrived.set_result(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elicitation:
    """A question to the user, in the middle of a call: a form to fill in, or a page to visit."""

    server: str
    """The MCP server that asks."""
    message: str
    schema: Mapping[str, JSON] = field(default_factory=dict)
    """The form: an object of texts, numbers, booleans and choices."""
    url: str = ""
    """The page. Then there is no form."""


class Elicited(NamedTuple):
    """The user's answer to an elicitation."""

    action: Literal["accept", "decline", "cancel"]
    """`cancel`: there was no answer."""
    content: Mapping[str, JSON] = {}
    """The form as it was filled in."""


class FilledForm(NamedTuple):
    """A form as it was filled in, and what is wrong with it."""

    content: Mapping[str, JSON]
    problems: tuple[Problem, ...] = ()


def check_form(asked: Elicitation, content: Mapping[str, JSON]) -> FilledForm:
    """Check an answer against the form. A text that says a number becomes one."""
    if asked.url:
        return FilledForm({})
    checked = check(dict(content), ToolSpec("form", asked.schema))
    return FilledForm(checked.value, checked.problems)


Elicit: TypeAlias = Callable[[Elicitation], Awaitable[Elicited]]
CANCELLED = Elicited("cancel")


async def cancel_elicitation(_asked: Elicitation) -> Elicited:
    """Answer where no user can be asked."""
    return CANCELLED


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A tool's information about the call that it serves."""

    call_id: str
    run_id: str
    idempotency_key: str
    """The same for every attempt at this call, and for no other call."""
    user: str | None = None
    report: Callable[[JSON], None] = field(default=lambda _: None)
    """Tell how far the tool is; it becomes an event of the run, if it is JSON of at most 16,384
    characters. May be called from any thread."""
    is_cancelled: Callable[[], bool] = field(default=lambda: False)
    """Returns True if the result is not awaited any more: a thread should check it now and then."""
    elicit: Elicit = field(default=cancel_elicitation)
    """Asks the user. The tool's time does not run meanwhile. In any event loop."""


Runner: TypeAlias = Callable[[Mapping[str, JSON], Context], Awaitable[Result]]
"""Runs one call. It may raise `Retry`, `Failed` or anything else; that is a failure."""


@dataclass(frozen=True, slots=True)
class Blocking:
    """A body that blocks: it runs in a thread of its own, never on the event loop."""

    run: Callable[[Mapping[str, JSON], Context], Result]


OnCrash: TypeAlias = (
    Literal["rerun", "unknown", "ask"] | Callable[[Call, Context], object | Awaitable[object]]
)
"""The rule for a call that had begun before a crash and has no result.

`rerun` begins it again, with the same idempotency key; `unknown` tells the model that its outcome
is unknown; `ask` waits for a person's decision. A function finds out: it returns the result, True
(it was carried out), False (it was not, and is begun now) or None (unknown)."""
Approve: TypeAlias = bool | Callable[[Call], bool | Awaitable[bool]]
"""The condition under which a call needs approval: never, always, or as the predicate says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A tool of a run."""

    spec: ToolSpec
    run: Runner | Blocking | None
    """None: the tool is the client's. Its calls are handed over, and never run here."""
    read_only: bool = False
    """It changes nothing: it may start early, be broken off and be tried again."""
    idempotent: bool = False
    """Twice does the same as once: it may start early, be broken off and be tried again."""
    timeout: float | None = None
    """Seconds; None: the run's default."""
    barrier: bool = False
    """It runs alone: after every call before it, and before every call after it."""
    approve: Approve = False
    retries: int = 0
    """Retries of a failed call of an idempotent or read-only tool."""
    concurrency: int | None = None
    """The largest number of concurrent calls in this process; None: no limit of its own."""
    result_limit: int | None = None
    """Characters of a result that the model gets to see; None: the run's default."""
    ends_run: bool = False
    """Its result is the run's final answer, read as the type that `output=` asks for."""
    on_crash: OnCrash | None = None
    """None: `rerun` if it is read-only or idempotent, else `unknown`."""
    places: Places | None = field(default=None, repr=False, compare=False)
    """The slots of its concurrent calls, over all runs. `concurrency` makes them; tools that share
    a limit, such as those of one MCP server, get the same ones."""

    def __post_init__(self) -> None:
        # Written so that NaN, which is neither more nor less than anything, is refused as well.
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"the timeout of {self.name!r} must be more than 0 seconds")
        for rule in ("retries", "result_limit"):
            if (getattr(self, rule) or 0) < 0:
                raise ValueError(f"{rule} of {self.name!r} must be 0 or more")
        if self.retries and not self.repeatable:
            raise ValueError(f"{self.name!r} has retries, but is neither read_only nor idempotent")
        if self.concurrency is not None:
            object.__setattr__(self, "places", Places(self.concurrency))

    @property
    def name(self) -> str:
        """The name by which the model calls it."""
        return self.spec.name

    @property
    def repeatable(self) -> bool:
        """True if a second or partial run of the same call does no harm."""
        return self.read_only or self.idempotent


# ── Results ────────────────────────────────────────────────────────────────────────────

NO_OUTPUT = "(no output)"
"""The result of a tool that returned nothing. Some providers refuse an empty result."""
MEDIA_BYTES = 20 * 1024 * 1024
"""Of one image, sound or document. No provider takes more."""
STRUCTURED_BYTES = 4 * 1024 * 1024
"""Of JSON that is kept as a value beside its text. What is larger is cut off anyhow."""
PROGRESS_CHARACTERS = 16_384
"""Of one progress report; a longer one is left out. It may be the result itself."""


def to_result(value: object) -> Result:
    """Convert any return value to a result. Raise `Failed` for one that cannot be expressed."""
    match value:
        case Result():
            return _check(value)
        case None:
            return Result((Text(NO_OUTPUT),))
        case str() | Text() | Media() | bytes() | bytearray() | memoryview():
            return Result((_to_content(value),))
        case list() | tuple() if any(isinstance(item, Text | Media) for item in value):
            return Result(tuple(_to_content(item) for item in value))
        case _:
            text = _to_json(value)
            return Result((Text(text.decode()),), structured=_read_back(text))


def to_progress(value: object) -> JSON:
    """Convert a yielded value to a progress report; None if it cannot or should not be one."""
    if isinstance(value, str):
        return value if len(value) <= PROGRESS_CHARACTERS else None
    if isinstance(value, Result | Text | Media | bytes | bytearray | memoryview):
        return None
    try:
        text = _to_json(value)
    except Failed:
        return None
    progress: JSON = pydantic_core.from_json(text) if len(text) <= PROGRESS_CHARACTERS else None
    return progress


def _check(result: Result) -> Result:
    """Check a result that a tool made itself, and normalise its content."""
    if result.structured is not None:
        result = replace(result, structured=_read_back(_to_json(result.structured)))
    content: object = result.content
    if isinstance(content, tuple) and all(isinstance(piece, Text | Media) for piece in content):
        return result
    if isinstance(content, str):
        content = (content,)
    if not isinstance(content, list | tuple):
        raise Failed(f"the content of its Result is a {type(content).__qualname__}, not a tuple")
    return replace(result, content=tuple(map(_to_content, content)))


def _read_back(text: bytes) -> JSON:
    """The value of a JSON text, unless it is too large or too deep to be kept beside it."""
    if len(text) > STRUCTURED_BYTES:
        return None
    try:
        value: JSON = pydantic_core.from_json(text)
    except ValueError:
        return None
    return value


def _to_content(value: object) -> Content:
    match value:
        case Text() | Media():
            return value
        case str():
            # A member of a string enumeration is its value, not its name.
            return Text(str.__str__(value))
        case bytes() | bytearray() | memoryview():
            return _to_media(value)
        case _:
            return Text(_to_json(value).decode())


def _to_json(value: object) -> bytes:
    try:
        # JSON has no NaN. As a string it is at least not lost.
        return pydantic_core.to_json(value, inf_nan_mode="strings")
    except ValueError as error:
        escaped = _escape(value)
        if escaped is not None:
            return escaped
        kind = type(value).__qualname__
        raise Failed(
            f"it returned a value of type {kind!r} that cannot be written as JSON "
            f"({cut(str(error))})"
        ) from error


def _escape(value: object) -> bytes | None:
    """Plain JSON with half of a surrogate pair in it, as in the names of some files."""
    try:
        return json.dumps(value, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError):
        return None


# ── Media ───────────────────────────────────────────────────────────────────────────


class _Signature(NamedTuple):
    """The first bytes of a format; `at` eight, formats in a RIFF file name themselves."""

    head: bytes
    at_eight: bytes
    kind: str
    media_type: str


_SIGNATURES = (
    _Signature(b"\x89PNG\r\n\x1a\n", b"", "image", "image/png"),
    _Signature(b"\xff\xd8\xff", b"", "image", "image/jpeg"),
    _Signature(b"GIF87a", b"", "image", "image/gif"),
    _Signature(b"GIF89a", b"", "image", "image/gif"),
    _Signature(b"RIFF", b"WEBP", "image", "image/webp"),
    _Signature(b"RIFF", b"WAVE", "audio", "audio/wav"),
    _Signature(b"%PDF-", b"", "document", "application/pdf"),
)


def _to_media(value: bytes | bytearray | memoryview) -> Media:
    view = memoryview(value).cast("B")
    if view.nbytes > MEDIA_BYTES:
        raise Failed(f"it returned {view.nbytes} bytes; at most {MEDIA_BYTES} can be shown")
    head = bytes(view[:16])
    for signature in _SIGNATURES:
        if head.startswith(signature.head) and head.startswith(signature.at_eight, 8):
            data = base64.b64encode(view).decode("ascii")
            return Media(kind=signature.kind, media_type=signature.media_type, data=data)
    raise Failed(
        f"it returned {view.nbytes} bytes of no known kind; "
        "PNG, JPEG, GIF, WebP, WAV and PDF are recognised, text must be decoded"
    )


# ── Size ────────────────────────────────────────────────────────────────────────────


def cap(result: Result, limit: int) -> Result:
    """Cut the text of a result to `limit` characters, with a notice of how many there were.

    Only the head is copied. The value goes with the text: it would bypass the limit.
    """
    total = sum(len(piece.text) for piece in result.content if isinstance(piece, Text))
    content = tuple(_cut(result.content, limit))
    if total <= limit:
        return replace(result, content=content)
    shown = f"the first {limit} of {total} characters"
    notice = Text(f"\n[Cut off: these are {shown}. Ask for less, or for a part.]")
    return replace(result, content=(*content, notice), structured=None)


def add_note(result: Result, note: str) -> Result:
    """Say something more at the end of a result."""
    return replace(result, content=(*result.content, Text(f"\n\n{note}"))) if note else result


def _cut(content: tuple[Content, ...], room: int) -> Iterator[Content]:
    for piece in content:
        if isinstance(piece, Text):
            text = piece.text[:room]
            room -= len(text)
            yield Text(_make_sendable(text))
        else:
            yield piece


def _make_sendable(text: str) -> str:
    """Half of a surrogate pair is escaped: it could not be sent to anyone."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text

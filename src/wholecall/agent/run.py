"""A run: its plan, its structured output, its events, its result, and how it is cancelled."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    get_origin,
)

from pydantic import PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import SchemaError

from wholecall.agent.approvals import Approvals
from wholecall.agent.budget import RunLimits, Stop
from wholecall.agent.run_events import RunEvent, ToolEnded, ToolEndedLate, ToolReported
from wholecall.agent.turn import Sender
from wholecall.arguments.argument_reader import RefusedArguments, read_arguments
from wholecall.arguments.describe import show
from wholecall.errors import RunCancelled, UnusableFunction
from wholecall.events import Call, Usage
from wholecall.messages import Message, OutputSchema, Request, Result, ToolSpec
from wholecall.tools.toolbox import Toolbox
from wholecall.upstreams.base import Upstream

_VALUE = "value"
if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault  # in `typing` from Python 3.13 on

    OutputT = TypeVarWithDefault("OutputT", default=Any)
else:
    OutputT = TypeVar("OutputT")


class OutputForm(Protocol):
    """The form of the final answer."""

    @property
    def schema(self) -> OutputSchema | None:
        """The form for the upstream; None: any text."""

    def read(self, text: str) -> tuple[object, str]:
        """The answer in its form, or, in words for the model, what is wrong with it."""

    def complain(self, text: str) -> str:
        """Say in the caller's words why an answer does not fit."""

    def take(self, result: Result) -> object:
        """The result of a tool that ends the run, in the form; None if it is of another."""


class AnyText:
    """No form: the answer is its text."""

    schema = None

    def read(self, text: str) -> tuple[object, str]:
        """The text itself."""
        return text, ""

    def complain(self, text: str) -> str:  # noqa: ARG002 - any text fits
        """Say nothing: every text fits."""
        return ""

    def take(self, result: Result) -> object:
        """The tool's own value."""
        return result.structured


class _Unfit(NamedTuple):
    """The reasons why an answer does not have the requested form."""

    problems: tuple[str, ...]
    told: str
    """The same for the model, with what it should send instead."""


class TypedOutput:
    """A type that pydantic knows: a model, a dataclass, a TypedDict, a list of them, …"""

    def __init__(self, type_: Any) -> None:
        try:
            self._adapter: TypeAdapter[object] = TypeAdapter(type_)
            schema = self._adapter.json_schema()
        except (PydanticUserError, SchemaError, AttributeError) as error:
            what = "a type that pydantic knows, such as a dataclass: no name, value or schema"
            raise UnusableFunction(f"output={type_!r} has no JSON schema: give {what}") from error
        plain = isinstance(type_, type) and get_origin(type_) is None
        self._name = type_.__qualname__ if plain else repr(type_)
        self._is_wrapped = schema.get("type") != "object" and "properties" not in schema
        self._spec = ToolSpec("answer", _wrapped(schema) if self._is_wrapped else schema)
        self.schema: OutputSchema | None = OutputSchema(schema=self._spec.parameters)

    def read(self, text: str) -> tuple[object, str]:
        """Parse, repair what is safe to repair, check, and make the value."""
        value = self._read(text)
        return (None, value.told) if isinstance(value, _Unfit) else (value, "")

    def complain(self, text: str) -> str:
        """Name the type, what is wrong with the answer, and the answer itself."""
        unfit = self._read(text)
        problems = unfit.problems if isinstance(unfit, _Unfit) else ()
        return (
            f"the model gave no answer that fits output={self._name}: "
            f"{'; '.join(problems)}. Its last text was {show(text)}"
        )

    def _read(self, text: str) -> object:
        found = read_arguments(text, self._spec, whole=True)
        if isinstance(found, RefusedArguments):
            problems = tuple(problem.message for problem in found.problems) or (found.detail,)
            return _Unfit(tuple(map(self._unwrap, problems)), explain_format(found))
        value: Any = found.value[_VALUE] if self._is_wrapped else found.value
        try:
            return self._adapter.validate_python(value)
        except ValidationError as error:
            problems = tuple(
                f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}"
                for each in error.errors(include_url=False, include_input=False)
            )
            wrong = "; ".join(problems)
            told = f"Your answer does not fit: {wrong}. Send the whole answer again."
            return _Unfit(problems, told)

    def _unwrap(self, problem: str) -> str:
        """Remove the object around the value, which the caller did not request, from a problem's
        text."""
        return problem.replace(f"$.{_VALUE}", "$") if self._is_wrapped else problem

    def take(self, result: Result) -> object:
        """A tool gives the value itself, or writes it as a model would."""
        given = result.text if result.structured is None else result.structured
        try:
            return self._adapter.validate_python(given)
        except ValidationError:
            value, _ = self.read(result.text)
            return value


def _wrapped(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema inside of an object; its definitions stay at the root, where `$ref` looks."""
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    outer = {"type": "object", "properties": {_VALUE: inner}, "required": [_VALUE]}
    return {**outer, "$defs": schema["$defs"]} if "$defs" in schema else outer


def explain_format(refused: RefusedArguments) -> str:
    """Tell the model what is wrong with the form of its answer."""
    problems = [f"- {problem.message}" for problem in refused.problems]
    return "\n".join(
        [
            "Your answer must be one JSON object in the given form.",
            *(problems or [f"- {refused.detail}"]),
            "Send the whole answer again, as JSON and nothing else.",
        ]
    )


# The plan and the result of a run.


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The input of a stop condition after each turn."""

    turns: int
    usage: Usage
    ended: tuple[ToolEnded, ...]
    """Every call of the run so far, with its result."""


StopCondition: TypeAlias = Callable[[Progress], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The plan of a run."""

    request: Request
    upstream: Upstream
    toolbox: Toolbox
    sender: Sender
    limits: RunLimits = field(default_factory=RunLimits)
    stop_when: tuple[StopCondition, ...] = ()
    output: OutputForm = field(default_factory=AnyText)
    continue_text: bool = False
    """Continue a final answer that the output limit cut off."""


_NO_OUTPUT: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult(Generic[OutputT]):
    """The result of a run."""

    text: str
    """The final answer. Where a run was stopped and the model gave none: a sentence that says why,
    with the results so far."""
    stop: Stop
    """The reason why the run ended."""
    no_answer: str = ""
    """The reason why the model gave no answer, or none in the requested form; empty if it gave one.
    `ask` raises it as a `RunFailed`."""
    output: OutputT = _NO_OUTPUT
    """The final answer as the type that `output=` named; without one, its text. None if the run
    produced none: it stopped before, handed calls to the caller (`pending`), or ended with a tool's
    result of another form."""
    messages: tuple[Message, ...] = ()
    """The messages that the run added to the conversation: answers and results."""
    ended: tuple[ToolEnded, ...] = ()
    """Every call that has a result, in the order in which they got it."""
    late: tuple[ToolEndedLate, ...] = ()
    """Outcomes of tools that ended after their calls had timed out, if they arrived before the end
    of the run."""
    pending: tuple[Call, ...] = ()
    """Calls of tools that only the caller can run."""
    usage: Usage = field(default_factory=Usage)
    turns: int = 0


# A run as its user holds it: events to read, a result to wait for, a way to stop it.


UNREAD = 1_000
"""Events that wait for a reader; beyond it the upstream's answer is not read further, unless the
result is awaited."""


class RunBody(Protocol):
    """The work of a run."""

    async def __call__(self, channel: EventChannel) -> RunResult[Any]:
        """Do it, and tell of it."""

    @property
    def ran(self) -> tuple[Call, ...]:
        """The calls that have begun: what they did is done."""

    def halt(self) -> None:
        """Begin nothing more that could not be taken back, from this moment on."""


class EventChannel:
    """A channel for events from a run to its reader.

    A tool's progress is dropped if the reader is slow: the next report replaces it. While the end
    is awaited, back-pressure is off: the waiting task may be the reader, and would wait for itself.
    """

    def __init__(self) -> None:
        self._events: deque[RunEvent] = deque()
        self._changed = asyncio.Event()
        self._over = False
        self._awaited = 0
        self.is_read = False

    @property
    def is_awaited(self) -> bool:
        """True if the end is awaited."""
        return self._awaited > 0

    def put(self, event: RunEvent) -> None:
        """Add an event. Without a reader it is dropped."""
        crowded = len(self._events) >= UNREAD and isinstance(event, ToolReported)
        if self.is_read and not crowded:
            self._events.append(event)
            self._changed.set()

    async def room(self) -> None:
        """Wait until the reader has caught up, or the end is awaited."""
        while self.is_read and not self.is_awaited and len(self._events) >= UNREAD:
            self._changed.clear()
            await self._changed.wait()

    @contextmanager
    def without_back_pressure(self) -> Iterator[None]:
        """Suspend back-pressure; unread events are kept."""
        self._awaited += 1
        self._changed.set()
        try:
            yield
        finally:
            self._awaited -= 1

    def leave(self) -> None:
        """Stop keeping events: the reader left."""
        self.is_read = False
        self._events.clear()
        self._changed.set()

    def close(self) -> None:
        """No event follows."""
        self._over = True
        self._changed.set()

    async def get(self) -> RunEvent | None:
        """The next event; None after the last."""
        while not self._events:
            if self._over:
                return None
            self._changed.clear()
            await self._changed.wait()
        if len(self._events) == UNREAD:
            self._changed.set()
        return self._events.popleft()


class Run(Generic[OutputT]):
    """Turns until the final answer, in progress or about to begin.

    It begins when it is first read or awaited. Iterate over it for the events, or await `result`,
    or both; `for event in run` and `wait` do the same without an event loop. Leaving the
    `async with` block cancels it; so does leaving the iteration early, unless the result is
    awaited. It has one reader at a time, who gets the events from then on. A run waits for a reader
    that lags by a thousand events, unless the result is awaited: then it continues and keeps the
    unread events, as it keeps the answers themselves.
    """

    def __init__(self, body: RunBody, *, approvals: Approvals) -> None:
        self._body = body
        self._channel = EventChannel()
        self._task: asyncio.Task[RunResult[OutputT]] | None = None
        self.approvals = approvals
        """Pending approvals, and where they are answered."""

    @property
    def ran(self) -> tuple[Call, ...]:
        """The calls that have begun, in order: what they did is done."""
        return self._body.ran

    async def result(self) -> RunResult[OutputT]:
        """Wait for the end. A failed run raises here, and in the iteration.

        A caller that stops waiting does not stop the run: `cancel` does, or leaving its block.
        """
        task = self._begin()
        with self._channel.without_back_pressure():
            await _wait_for(task)
        return self._read(task)

    def wait(self) -> RunResult[OutputT]:
        """`result`, for programs without an event loop; after `for event in run`, or instead."""
        if self._task is None:
            return run_to_end(self.result(), instead="await run.result()")
        if not self._task.done():
            raise RuntimeError("this run is still being read: wait for it after its last event")
        return self._read(self._task)

    async def cancel(self) -> None:
        """Stop: no further turn, no further tool; running tools are cancelled.

        Readers of the run and callers that await it get a `RunCancelled`.
        """
        task = self._begin()
        self._body.halt()
        task.cancel()
        await _wait_for(task)

    async def __aiter__(self) -> AsyncGenerator[RunEvent, None]:
        if self._channel.is_read:
            raise RuntimeError("this run is being read already, and its events are told once")
        self._channel.is_read = True
        task = self._begin()
        try:
            while (event := await self._channel.get()) is not None:
                yield event
            self._read(task)
        finally:
            self._channel.leave()
            if not task.done() and not self._channel.is_awaited:
                await self.cancel()

    def __iter__(self) -> Iterator[RunEvent]:
        """Yield the events, for programs without an event loop.

        The run continues while the next event is awaited, and is cancelled if the iteration is left
        before its end.
        """
        with _own_loop("async for event in run") as loop:
            events = aiter(self)
            try:
                while (event := _await_here(loop, anext(events, None))) is not None:
                    yield event
            finally:
                loop.run_until_complete(events.aclose())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None and not self._task.done():
            await self.cancel()

    def _begin(self) -> asyncio.Task[RunResult[OutputT]]:
        if self._task is None:
            self._task = asyncio.create_task(self._carry_out(), name="wholecall run")
            # Even a task that is cancelled before its first step passes here.
            self._task.add_done_callback(self._end)
        return self._task

    async def _carry_out(self) -> RunResult[OutputT]:
        return await self._body(self._channel)

    def _read(self, task: asyncio.Task[RunResult[OutputT]]) -> RunResult[OutputT]:
        # As `CancelledError` it would look as if the reader's task had been cancelled.
        if task.cancelled():
            raise RunCancelled("the run was cancelled", ran=self._body.ran)
        return task.result()

    def _end(self, task: asyncio.Task[RunResult[OutputT]]) -> None:
        self._channel.close()
        if not task.cancelled():
            task.exception()  # a task that only reads the events sees the failure there


async def _wait_for(task: asyncio.Task[Any]) -> None:
    """Wait for its end, and do not end it. One that is over may belong to a loop that is closed."""
    if not task.done():
        await asyncio.wait([task])


# Without an event loop of the caller's own.


CLOSING_SECONDS = 1.0
"""Seconds that a synchronous caller waits for cancelled tasks that do not end."""
AwaitedT = TypeVar("AwaitedT")


def run_to_end(awaited: Coroutine[Any, Any, AwaitedT], *, instead: str) -> AwaitedT:
    """Wait in a loop of its own; `instead` is what to write where a loop is running."""
    try:
        with _own_loop(instead) as loop:
            return _await_here(loop, awaited)
    finally:
        awaited.close()  # one that was refused was never begun


@contextmanager
def _own_loop(instead: str) -> Iterator[asyncio.AbstractEventLoop]:
    """Make a loop, and close it.

    `asyncio.run` would wait at the end for tasks that ignore their cancellation. Such a tool
    was given its time, and its run has an answer.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        loop = asyncio.new_event_loop()
    else:
        raise RuntimeError(f"this would block the running event loop: write `{instead}` here")
    try:
        yield loop
    finally:
        _close(loop)


def _await_here(loop: asyncio.AbstractEventLoop, awaited: Awaitable[AwaitedT]) -> AwaitedT:
    async def wait() -> AwaitedT:
        return await awaited

    task = loop.create_task(wait())
    with _stoppable(task):
        return loop.run_until_complete(task)


@contextmanager
def _stoppable(task: asyncio.Task[Any]) -> Iterator[None]:
    """Let Ctrl-C cancel the task, as `asyncio.run` does; a second one is raised at once.

    Raised right away it could hit the midst of a tool, and would count as that tool's failure.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    stopped = False

    def stop(*_: object) -> None:
        nonlocal stopped
        if stopped:
            raise KeyboardInterrupt
        stopped = True
        task.get_loop().call_soon_threadsafe(task.cancel)

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    except asyncio.CancelledError:
        if stopped:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    try:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=CLOSING_SECONDS))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
    finally:
        loop.close()

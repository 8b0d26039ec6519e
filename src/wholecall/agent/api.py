"""Ask a model and let it use tools: `run`, `ask` and `ask_sync`.

run = wholecall.run("openai/gpt-x", "Weather in Oslo?", tools=[weather])
async for event in run: ...
print((await run.result()).text)
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import (
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, cast

from wholecall.agent.approvals import Approvals, Approver
from wholecall.agent.budget import RunLimits, default_limits
from wholecall.agent.call_runner import ExecutorSettings
from wholecall.agent.executor import Executor
from wholecall.agent.loop import Loop
from wholecall.agent.run import (
    AnyText,
    EventChannel,
    Plan,
    Run,
    RunResult,
    StopCondition,
    TypedOutput,
)
from wholecall.agent.run_events import RunEvent
from wholecall.agent.tool_middleware import Around
from wholecall.agent.turn import RescueRule, sender_for
from wholecall.dialects.dialect import Dialect
from wholecall.dialects.rescue import Rescue
from wholecall.errors import InvalidChoice, RunFailed
from wholecall.events import Call, Text
from wholecall.messages import Message, Native, Request, Role
from wholecall.protocols.codecs import decode_choice, decode_request
from wholecall.protocols.registry import CHAT
from wholecall.protocols.request_fields import tool_names
from wholecall.tool_choice import Choice, Mode
from wholecall.tools.tool import notify
from wholecall.tools.toolbox import Offered, Toolbox
from wholecall.upstreams.base import Upstream
from wholecall.upstreams.providers import find_upstream

Question: TypeAlias = str | Sequence[Mapping[str, Any] | Message]
"""A question, or a conversation: messages in the form of OpenAI's chat, or our own."""
CLOSING_SECONDS = 1.0
"""Seconds that `ask_sync` waits for cancelled tasks that do not end."""
Tap: TypeAlias = Callable[[RunEvent], None]
"""Receives every event of a run and cannot change it. An exception that it raises goes to the event
loop's exception handler, which logs it."""


class RunOptions(TypedDict, total=False):
    """Keyword options of `run`, `ask` and `ask_sync`. Each may be omitted or None."""

    tools: Iterable[Offered]
    """Functions, tools, tools of MCP servers; a bare definition is handed back to you."""
    system: str
    """Instructions, put before the messages."""
    output: Any
    """A type: the final answer is read as this (`result.output`)."""
    tool_choice: str | Mapping[str, Any] | Choice
    """`auto`, `none`, `required`, or one tool, as OpenAI's chat says it."""
    emulate: str | Dialect
    """A dialect, `auto`, `native` or `constrained`: how the model is offered tools."""
    rescue: Literal["off", "read_only", "all"]
    """The calls to start among those that the model wrote as text: none, those of tools that change
    nothing (the default), or all."""
    stream: bool
    """Request a stream from the upstream. True by default."""
    base_url: str
    """Of the endpoint; else the variable of the model's prefix, else the provider's own."""
    api_key: str
    """Of the endpoint; else the variable of the model's prefix."""
    upstream: Upstream
    """Instead of an address: who answers. It stays open, so that runs share connections."""
    limits: RunLimits
    """Limits of the run."""
    user: str
    """The user on whose behalf the tools work; tools find it in their context."""
    approve: Approver | Approvals
    """Asked about each call whose tool needs approval. Without it, `run.approvals` waits."""
    around: Sequence[Around]
    """Wrappers around every call: to time, cache, deny or fake it."""
    stop_when: Sequence[StopCondition]
    """Asked after each turn whether the run should end."""
    continue_text: bool
    """Continue a final answer that the output limit cut off."""
    max_tokens: int
    """Of one answer."""
    temperature: float
    taps: Sequence[Tap]
    """Functions that see every event of the run."""


def run(model: str, prompt: Question, **options: Unpack[RunOptions]) -> Run:
    """Let a model answer with tools. Nothing happens before the run is read or waited for.

    ```python no-run
    async def show() -> None:
        async with wholecall.run("openai/gpt-x", "Weather in Oslo?", tools=[weather]) as run:
            async for event in run:
                if isinstance(event, wholecall.Text):
                    print(event.text, end="")
            print((await run.result()).usage)
    ```
    """
    options = _read_options(options)
    toolbox = Toolbox(options.get("tools", ()))
    output = TypedOutput(options["output"]) if "output" in options else AnyText()
    upstream, name, owned = _find_upstream(model, options)
    request = replace(
        _make_request(toolbox, options, protocol=upstream.protocol),
        model=name,
        messages=(*_read_system(options), *_read_prompt(prompt, name)),
        output=output.schema,
    )
    emulation = options.get("emulate")
    rule = RescueRule(toolbox, Rescue(options["rescue"]) if "rescue" in options else None)
    plan = Plan(
        request=request,
        upstream=upstream,
        toolbox=toolbox,
        sender=sender_for(model, request.messages, rule=rule, emulation=emulation),
        limits=options.get("limits") or default_limits(model),
        stop_when=tuple(options.get("stop_when", ())),
        output=output,
        continue_text=options.get("continue_text", False),
    )
    approve = options.get("approve")
    approvals = approve if isinstance(approve, Approvals) else Approvals(approve)
    settings = ExecutorSettings(
        user=options.get("user"), approvals=approvals, around=tuple(options.get("around", ()))
    )
    errand = _Errand(plan, settings, taps=tuple(options.get("taps", ())), owned=owned)
    return Run(errand, approvals=approvals)


async def ask(model: str, prompt: Question, **options: Unpack[RunOptions]) -> RunResult:
    """Let a model answer with tools, and wait for the end.

    Raise `RunFailed` for a run without an answer, or an `UpstreamError` if the upstream failed to
    answer; the exception's `ran` lists the calls that had begun. A run that was stopped at a limit
    has an answer if the model gave one to the last request; `result.stop` names the limit.
    """
    async with run(model, prompt, **options) as started:
        result = await started.result()
        if result.no_answer:
            said = result.text.removesuffix(result.no_answer).rstrip()
            raise RunFailed(result.no_answer, ran=started.ran, text=said)
        return result


def ask_sync(model: str, prompt: Question, **options: Unpack[RunOptions]) -> RunResult:
    """`ask`, for programs without an event loop.

    ```python no-run
    result = wholecall.ask_sync("openai/gpt-x", "Weather in Oslo?", tools=[weather])
    print(result.text)
    ```
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run_to_end(ask(model, prompt, **options))
    raise RuntimeError("ask_sync would block the running event loop: write `await ask(…)` here")


def _run_to_end(asked: Coroutine[Any, Any, RunResult]) -> RunResult:
    """Run it in a loop of its own.

    `asyncio.run` would wait at the end for tasks that ignore their cancellation. Such a tool
    was given its time, and its run has an answer.
    """
    loop = asyncio.new_event_loop()
    try:
        task = loop.create_task(asked)
        with _stoppable(task):
            return loop.run_until_complete(task)
    finally:
        _close(loop)


@contextmanager
def _stoppable(task: asyncio.Task[RunResult]) -> Iterator[None]:
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


class _Errand:
    """Carries out a plan for a `Run`."""

    def __init__(
        self, plan: Plan, settings: ExecutorSettings, *, taps: tuple[Tap, ...], owned: bool
    ) -> None:
        self._plan = plan
        self._settings = settings
        self._taps = taps
        self._owned = owned
        self._loop: Loop | None = None

    async def __call__(self, channel: EventChannel) -> RunResult:
        def emit(event: RunEvent) -> None:
            for tap in self._taps:
                notify(event, tap, of="a run")
            channel.put(event)

        def make_executor(emit: Callable[[RunEvent], None]) -> Executor:
            plan = self._plan
            return Executor(plan.toolbox, emit=emit, limits=plan.limits, settings=self._settings)

        self._loop = Loop(self._plan, make_executor=make_executor, emit=emit, room=channel.room)
        try:
            return await self._loop.run()
        finally:
            if self._owned:
                await self._plan.upstream.close()

    @property
    def ran(self) -> tuple[Call, ...]:
        return () if self._loop is None else self._loop.ran

    def halt(self) -> None:
        if self._loop is not None:
            self._loop.halt()


def _find_upstream(model: str, options: RunOptions) -> tuple[Upstream, str, bool]:
    """Return the upstream, its name for the model, and whether we must close it."""
    given = options.get("upstream")
    if given is not None:
        return given, model, False
    route = find_upstream(model, base_url=options.get("base_url"), api_key=options.get("api_key"))
    return route.upstream, route.model, True


def _read_options(options: RunOptions) -> RunOptions:
    """Reject unknown options: a misspelt limit would not hold, and a misspelt rule would never
    apply."""
    known = RunOptions.__annotations__
    for name in options.keys() - known.keys():
        raise TypeError(f"{name!r} is no option of a run; there are {', '.join(known)}")
    given = {name: value for name, value in options.items() if value is not None}
    return cast("RunOptions", given)


def _make_request(toolbox: Toolbox, options: RunOptions, *, protocol: str) -> Request:
    request = Request(
        model="",
        messages=(),
        tools=tuple(toolbox.offer.values()),
        native_tools=tuple(Native(protocol, definition) for definition in toolbox.native),
        stream=options.get("stream", True),
        max_tokens=options.get("max_tokens"),
        temperature=options.get("temperature"),
    )
    offered = tool_names(request)
    return replace(request, choice=_read_choice(options.get("tool_choice"), offered))


def _read_system(options: RunOptions) -> tuple[Message, ...]:
    system = options.get("system")
    return (Message(Role.SYSTEM, (Text(system),)),) if system else ()


def _read_prompt(prompt: Question, model: str) -> tuple[Message, ...]:
    if isinstance(prompt, str):
        return (Message(Role.USER, (Text(prompt),)),)
    messages: list[Message] = []
    for kind, group in groupby(prompt, lambda message: isinstance(message, Message)):
        together = list(group)
        ours = [message for message in together if isinstance(message, Message)]
        body = {"model": model, "messages": together}
        messages += ours if kind else decode_request(CHAT, body).messages
    return tuple(messages)


def _read_choice(
    choice: str | Mapping[str, Any] | Choice | None, offered: Collection[str]
) -> Choice:
    if choice is None:
        return Choice()
    if not isinstance(choice, Choice):
        return decode_choice(CHAT, {"tool_choice": choice}, offered=offered)
    unknown = ", ".join(repr(name) for name in choice.names if name not in offered)
    if unknown:
        raise InvalidChoice(f"tool_choice names {unknown}, not offered here", param="tool_choice")
    if choice.mode is Mode.REQUIRED and not offered:
        raise InvalidChoice("tool_choice demands a call without any tools", param="tool_choice")
    return choice

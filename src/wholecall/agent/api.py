"""Ask a model and let it use tools: `run`, `ask` and `ask_sync`.

run = wholecall.run("openai/gpt-x", "Weather in Oslo?", tools=[weather])
async for event in run: ...
print((await run.result()).text)
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, cast, overload

from wholecall.agent.approvals import Approvals, Approver, Elicitor
from wholecall.agent.budget import RunLimits, default_limits
from wholecall.agent.call_runner import ExecutorSettings
from wholecall.agent.executor import Executor
from wholecall.agent.loop import Loop
from wholecall.agent.run import (
    AnyText,
    EventChannel,
    OutputT,
    Plan,
    Run,
    RunResult,
    StopCondition,
    TypedOutput,
    run_to_end,
)
from wholecall.agent.run_events import RunEvent
from wholecall.agent.tool_middleware import Around
from wholecall.agent.turn import RescueRule, Sender, sender_for
from wholecall.arguments.describe import name_nearest
from wholecall.dialects.dialect import Dialect
from wholecall.dialects.rescue import Rescue
from wholecall.errors import InvalidChoice, RunFailed
from wholecall.events import Call, Text
from wholecall.journal.journal_rows import (
    PlanRow,
    decode_row,
    encode_row,
    read_messages,
    write_messages,
)
from wholecall.journal.postgres_journal import find_store
from wholecall.journal.run_journal import JournalStore, RunJournal, RunRow, open_journal
from wholecall.messages import Choice, Message, Mode, Native, Request, Role
from wholecall.protocols.registry import CHAT, decode_choice, decode_request
from wholecall.protocols.request_fields import tool_names
from wholecall.tools.tool import notify
from wholecall.tools.toolbox import Offered, Toolbox
from wholecall.upstreams.base import Upstream
from wholecall.upstreams.providers import demand_key, find_upstream

_UNPLAIN = (Dialect, Choice)
Question: TypeAlias = str | Sequence[Mapping[str, Any] | Message]
"""A question, or a conversation: messages in the form of OpenAI's chat, or our own."""
Tap: TypeAlias = Callable[[RunEvent], None]
"""Receives every event of a run and cannot change it. An exception that it raises goes to the event
loop's exception handler, which logs it."""


class RunOptions(TypedDict, total=False):
    """Keyword options of `run`, `ask` and `ask_sync`. Each may be omitted or None."""

    tools: Iterable[Offered]
    """Functions, tools, tools of MCP servers; a bare definition is handed back to you."""
    system: str
    """Instructions, put before the messages."""
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
    """Asked about each call whose tool needs approval. Without it, `run.approvals` waits; a durable
    run that was started by `ask` or `resume` raises `RunWaiting`, and waits in its journal."""
    elicit: Elicitor
    """Answers what MCP servers ask the user during a call. Without it, the answer is `cancel`."""
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
    journal: str | JournalStore
    """Where the run is written down, so that it survives a crash: `sqlite:runs.sqlite`, or
    `postgresql://…` for more than one machine."""
    id: str
    """The name of a durable run. The same name again is the same run: it returns its result, or
    continues where it was interrupted."""


@overload
def run(
    model: str, prompt: Question, *, output: type[OutputT], **options: Unpack[RunOptions]
) -> Run[OutputT]: ...
@overload
def run(
    model: str, prompt: Question, *, output: object = None, **options: Unpack[RunOptions]
) -> Run[Any]: ...
def run(
    model: str, prompt: Question, *, output: object = None, **options: Unpack[RunOptions]
) -> Run[Any]:
    """Let a model answer with tools. Nothing happens before the run is read or waited for.

    `output` is the type that the final answer is read as: `(await run.result()).output`.

    ```python no-run
    async def show() -> None:
        async with wholecall.run("openai/gpt-x", "Weather in Oslo?", tools=[weather]) as run:
            async for event in run:
                if isinstance(event, wholecall.Text):
                    print(event.text, end="")
            print((await run.result()).usage)
    ```
    """
    return _make_run(model, prompt, output=output, options=options)


def _make_run(
    model: str, prompt: Question, *, output: object, options: RunOptions, parks: bool = False
) -> Run[Any]:
    """Make a run. `parks`: a durable one waits in its journal for approvals, and not here."""
    options = _read_options(options)
    toolbox = Toolbox(options.get("tools", ()))
    form = AnyText() if output is None else TypedOutput(output)
    upstream, name, owned = _find_upstream(model, options)
    request = replace(
        _make_request(toolbox, options, protocol=upstream.protocol),
        model=name,
        messages=(*_read_system(options), *_read_prompt(prompt, name)),
        output=form.schema,
    )
    _demand_key(model, options)
    rule = RescueRule(toolbox, Rescue(options["rescue"]) if "rescue" in options else None)
    make_sender = partial(sender_for, model, rule=rule, emulation=options.get("emulate"))
    plan = Plan(
        request=request,
        upstream=upstream,
        toolbox=toolbox,
        sender=make_sender(request.messages),
        limits=options.get("limits") or default_limits(model),
        stop_when=tuple(options.get("stop_when", ())),
        output=form,
        continue_text=options.get("continue_text", False),
    )
    settings = _read_settings(options)
    body = _RunBody(plan, settings, taps=tuple(options.get("taps", ())), owned=owned)
    if "journal" not in options:
        return Run(body, approvals=settings.approvals)
    saved = RunRow(settings.run_id, model=model, plan=_save_plan(model, request.messages, options))
    durable = DurableBody(body, journal=options["journal"], run=saved, make_sender=make_sender)
    durable.parks = parks and "approve" not in options
    return Run(durable, approvals=settings.approvals)


async def resume(
    id: str, /, *, output: object = None, **options: Unpack[RunOptions]
) -> RunResult[Any]:
    """Go on with a durable run, and wait for its end; a run that is over returns its result.

    The model, the messages and the plain options are in the journal. Functions and secrets are not:
    give the tools again, and `output`, `approve`, `around`, `stop_when`, `taps`, `api_key` if there
    were any.
    """
    if "journal" not in options:
        raise TypeError("resume needs the journal= of the run")
    store = find_store(options["journal"])
    found = await asyncio.wrap_future(store.load(id))
    if found is None:
        raise ValueError(f"there is no run {id!r} in this journal")
    plan = decode_row(PlanRow, found.run.plan)
    saved = cast("RunOptions", dict(plan.options))
    if "limits" in saved:
        saved["limits"] = RunLimits(**plan.options["limits"])
    saved.update(_read_options(options))
    saved["journal"], saved["id"] = store, id
    messages = read_messages(plan.messages)
    made = _make_run(plan.model, messages, output=output, options=saved, parks=True)
    async with made as started:
        return await started.result()


@overload
async def ask(
    model: str, prompt: Question, *, output: type[OutputT], **options: Unpack[RunOptions]
) -> RunResult[OutputT]: ...
@overload
async def ask(
    model: str, prompt: Question, *, output: object = None, **options: Unpack[RunOptions]
) -> RunResult[Any]: ...
async def ask(
    model: str, prompt: Question, *, output: object = None, **options: Unpack[RunOptions]
) -> RunResult[Any]:
    """Let a model answer with tools, and wait for the end.

    Raise `RunFailed` for a run without an answer, or an `UpstreamError` if the upstream failed to
    answer; the exception's `ran` lists the calls that had begun. A run that was stopped at a limit
    has an answer if the model gave one to the last request; `result.stop` names the limit.
    """
    made = _make_run(model, prompt, output=output, options=options, parks=True)
    async with made as started:
        result = await started.result()
        if result.no_answer:
            said = result.text.removesuffix(result.no_answer).rstrip()
            raise RunFailed(result.no_answer, ran=started.ran, text=said)
        return result


@overload
def ask_sync(
    model: str, prompt: Question, *, output: type[OutputT], **options: Unpack[RunOptions]
) -> RunResult[OutputT]: ...
@overload
def ask_sync(
    model: str, prompt: Question, *, output: object = None, **options: Unpack[RunOptions]
) -> RunResult[Any]: ...
def ask_sync(
    model: str, prompt: Question, *, output: object = None, **options: Unpack[RunOptions]
) -> RunResult[Any]:
    """`ask`, for programs without an event loop.

    ```python no-run
    result = wholecall.ask_sync("openai/gpt-x", "Weather in Oslo?", tools=[weather])
    print(result.text)
    ```
    """
    return run_to_end(ask(model, prompt, output=output, **options), instead="await ask(…)")


class _RunBody:
    """Carries out a plan for a `Run`."""

    def __init__(
        self, plan: Plan, settings: ExecutorSettings, *, taps: tuple[Tap, ...], owned: bool
    ) -> None:
        self._plan = plan
        self._settings = settings
        self._taps = taps
        self._owned = owned
        self._loop: Loop | None = None

    def change(self, make_sender: Callable[..., Sender], *, journal: RunJournal) -> None:
        """Set what is known only when the journal is open."""
        sender = make_sender(self._plan.request.messages, taken=journal.restored.ids)
        self._plan = replace(self._plan, sender=sender)
        self._settings = replace(self._settings, journal=journal)

    async def close(self) -> None:
        """Close the upstream, unless it is the caller's."""
        if self._owned:
            await self._plan.upstream.close()

    async def __call__(self, channel: EventChannel) -> RunResult[Any]:
        def emit(event: RunEvent) -> None:
            for tap in self._taps:
                notify(event, tap, of="a run")
            channel.put(event)

        def make_executor(emit: Callable[[RunEvent], None]) -> Executor:
            plan = self._plan
            return Executor(plan.toolbox, emit=emit, limits=plan.limits, settings=self._settings)

        self._loop = Loop(
            self._plan,
            make_executor=make_executor,
            emit=emit,
            room=channel.room,
            journal=self._settings.journal,
        )
        try:
            return await self._loop.run()
        finally:
            await self.close()

    @property
    def ran(self) -> tuple[Call, ...]:
        return () if self._loop is None else self._loop.ran

    def halt(self) -> None:
        if self._loop is not None:
            self._loop.halt()


class DurableBody:
    """Opens the journal of a run, and carries it out."""

    def __init__(
        self,
        body: _RunBody,
        *,
        journal: str | JournalStore,
        run: RunRow,
        make_sender: Callable[..., Sender],
    ) -> None:
        self._body = body
        self._journal = journal
        self._run = run
        self._make_sender = make_sender
        self.parks = False
        """True if the run waits in its journal for approvals."""

    async def __call__(self, channel: EventChannel) -> RunResult[Any]:
        try:
            journal = await open_journal(find_store(self._journal), self._run)
            journal.parks = self.parks
            _demand_same(journal.run, self._run)
        except BaseException:
            await self._body.close()
            raise
        self._body.change(self._make_sender, journal=journal)
        return await self._body(channel)

    @property
    def ran(self) -> tuple[Call, ...]:
        return self._body.ran

    def halt(self) -> None:
        self._body.halt()


_PLAIN_OPTIONS = (
    *("tool_choice", "emulate", "rescue", "stream", "base_url", "limits", "user"),
    *("continue_text", "max_tokens", "temperature"),
)
"""The options that a journal keeps. Functions and secrets are not among them."""


def make_row(model: str, prompt: Question, **options: Unpack[RunOptions]) -> RunRow:
    """Return the row of a run that any worker may carry out later, with tools of its own."""
    given = _read_options(options)
    messages = (*_read_system(given), *_read_prompt(prompt, model))
    id = given.get("id") or uuid.uuid4().hex
    return RunRow(id, model=model, background=True, plan=_save_plan(model, messages, given))


def _save_plan(model: str, messages: Sequence[Message], options: RunOptions) -> bytes:  # noqa: PLR0917 - three different things
    given = {name: value for name, value in options.items() if name in _PLAIN_OPTIONS}
    plain = {name: value for name, value in given.items() if not isinstance(value, _UNPLAIN)}
    return encode_row(PlanRow(model, write_messages(messages, native=True), plain))


def _demand_same(found: RunRow, wanted: RunRow) -> None:
    """Refuse a question under the name of another one."""
    if found.plan == wanted.plan:
        return
    before, now = decode_row(PlanRow, found.plan), decode_row(PlanRow, wanted.plan)
    if (before.model, before.messages) != (now.model, now.messages):
        raise ValueError(f"the run {found.id!r} is of another model or other messages")


def _find_upstream(model: str, options: RunOptions) -> tuple[Upstream, str, bool]:
    """Return the upstream, its name for the model, and whether we must close it."""
    given = options.get("upstream")
    if given is not None:
        return given, model, False
    base_url, api_key = options.get("base_url"), options.get("api_key")
    route = find_upstream(model, base_url=base_url, api_key=api_key)
    return route.upstream, route.model, True


def _demand_key(model: str, options: RunOptions) -> None:
    if "upstream" not in options and "api_key" not in options:
        demand_key(model, options.get("base_url"), environ=os.environ)


def _read_options(options: RunOptions) -> RunOptions:
    """Reject unknown options: a misspelt limit would not hold, and a misspelt rule would never
    apply."""
    known = RunOptions.__annotations__
    for name in options.keys() - known.keys():
        raise TypeError(f"a run has no option {name!r}; {name_nearest(name, ['output', *known])}")
    given = {name: value for name, value in options.items() if value is not None}
    if not isinstance(given.get("limits", RunLimits()), RunLimits):
        raise TypeError(f"limits={given['limits']!r} are not RunLimits(…)")
    if "id" in given and "journal" not in given:
        raise TypeError("id= names a durable run: give its journal= as well")
    return cast("RunOptions", given)


def _read_settings(options: RunOptions) -> ExecutorSettings:
    approve = options.get("approve")
    if isinstance(approve, Approvals) and "elicit" in options:
        raise TypeError("approve= brings its own elicitor: give Approvals(elicitor=…) instead")
    return ExecutorSettings(
        run_id=options.get("id") or uuid.uuid4().hex,
        user=options.get("user"),
        approvals=(
            approve
            if isinstance(approve, Approvals)
            else Approvals(approve, elicitor=options.get("elicit"))
        ),
        around=tuple(options.get("around", ())),
    )


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

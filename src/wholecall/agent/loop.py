"""The loop: turns until the final answer.

    ask ──▶ read ──▶ start calls ──▶ settle ──▶ results ──▶ ask …
     ▲        │            (while the stream is still read)
     └─retry──┘                                  no calls ──▶ the final answer

Four rules make it safe:

1. A call starts as soon as it is proved whole, before the stream has ended. What only the end of
   the stream proves waits for the verdict on the whole answer, because a bad end is a reason to ask
   again instead.
2. An answer is requested again only while none of its calls has begun: the effects of a tool
   remain, and a second answer would make it run twice. After that, a broken answer fails the run,
   and the error names the calls that have begun.
3. Every call gets exactly one result, in call order: rejected and skipped calls too, because
   providers refuse a history with an unanswered call. The caller's messages are only read.
4. The loop ends. A cap (turns, calls, tokens, time, the same call again and again) does not cut the
   run off: the model gets one last turn without tools, to say what it knows. If it says nothing,
   the run says why in its own words.

So a run ends with an answer, at a cap, at a tool that ends it, with calls that only the caller can
run, or with an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from wholecall.agent.answer_retry import AnswerRetry, RetryRequest
from wholecall.agent.budget import Budget, Guard, NotRun, Stop, call_key
from wholecall.agent.call_runner import tell_late, tell_stop
from wholecall.agent.executor import Executor
from wholecall.agent.run import Plan, Progress, RunResult
from wholecall.agent.run_events import (
    Resumed,
    RunEnded,
    RunEvent,
    Status,
    ToolEnded,
    ToolEndedLate,
    TurnRetried,
    TurnStarted,
)
from wholecall.agent.turn import ReadAnswer, Turn
from wholecall.arguments.feedback import SkipReason, feedback, skipped
from wholecall.assembly.finish_reasons import read_hint
from wholecall.errors import RunFailed, RunWaiting, UpstreamError
from wholecall.events import Call, Event, Hint, Outcome, Reason, Rejected, Text
from wholecall.journal.journal_rows import (
    AnswerRow,
    EndRow,
    Row,
    TurnRow,
    encode_row,
    read_call,
    write_messages,
)
from wholecall.journal.run_journal import RunJournal, RunStatus
from wholecall.messages import CallResult, Choice, Message, Mode, Request, Result, Role
from wholecall.protocols.reader import MOST_TIMES_ASKED, ask_again

LAST_ANSWER_SECONDS = 30.0
"""Seconds for the last answer if the run's time is over."""
_GO_ON = "Go on exactly where you stopped, without repeating anything."
_SILENT_ENDS = {
    Stop.CONTENT_FILTER: "a content filter stopped the answer before its first word",
    Stop.LENGTH: "the output limit was reached before the first word of the answer",
}
_FAILURES = frozenset({Status.FAILED, Status.TIMED_OUT})
# The call itself was right; it was not wanted, or it is a limit that stood against it.
_NO_MISTAKES = frozenset({Reason.UNKNOWN_TOOL, Reason.LIMIT, Reason.CONTENT_FILTER})


@dataclass(slots=True)
class _Wanted:
    """A requested answer, and the results of its calls. A retry makes it void."""

    cap: Stop | None = None
    """The cap that is reached: the answer is the last one, and without tools."""
    begun: list[Call] = field(default_factory=list)
    pending: list[Call] = field(default_factory=list)
    """Calls of tools that only the caller can run."""
    ended_before: int = 0
    """The number of ended tools at the time of the request."""


@dataclass(slots=True)
class _FinalAnswer:
    """The text of the final answer so far, and what became of it."""

    texts: list[str] = field(default_factory=list)
    output: object = None
    no_answer: str = ""

    @property
    def text(self) -> str:
        return "".join(self.texts)


class _Results:
    """The tools that ended, by their events.

    It does not know the loop: the loop holds the executor, which holds this, and a cycle would keep
    all of the run until the garbage collector comes.
    """

    def __init__(self, emit: Callable[[RunEvent], None]) -> None:
        self.ended: list[ToolEnded] = []
        self.late: list[ToolEndedLate] = []
        self._told = 0
        self._emit = emit

    def take(self, event: RunEvent) -> None:
        """Remember the end of a tool, and pass every event on."""
        if isinstance(event, ToolEnded):
            self.ended.append(event)
        elif isinstance(event, ToolEndedLate):
            self.late.append(event)
        self._emit(event)

    def find_same(self, call: Call) -> Result | None:
        """Return what the same call gave before, if it succeeded."""
        key = call_key(call)
        done = (each for each in reversed(self.ended) if each.status is Status.DONE)
        return next((each.result for each in done if call_key(each.call) == key), None)

    def take_late(self) -> list[ToolEndedLate]:
        """Return the late ends that the model does not know yet."""
        news, self._told = self.late[self._told :], len(self.late)
        return news


class Loop:
    """Carries out one plan, once."""

    def __init__(
        self,
        plan: Plan,
        *,
        make_executor: Callable[[Callable[[RunEvent], None]], Executor],
        emit: Callable[[RunEvent], None],
        room: Callable[[], Awaitable[None]],
        journal: RunJournal | None = None,
    ) -> None:
        self._plan = plan
        self._journal = journal
        self._results = _Results(emit)
        self._emit = self._results.take
        self._room = room
        self._executor = make_executor(self._emit)
        self._budget = Budget(plan.limits, started=0)
        self._guard = Guard(plan.limits)
        self._messages: list[Message] = []
        self._choice = plan.request.choice
        self._max_tokens = plan.request.max_tokens
        self._final = _FinalAnswer()
        self._reminders = 0
        self._wanted = _Wanted()

    async def run(self) -> RunResult:
        """Take turns until the run is over."""
        self._budget = Budget(self._plan.limits, started=self._now())
        if self._journal is None:
            return await self._take_turns()
        if self._journal.restored.rows or self._journal.is_resumed:
            self._restore(self._journal)
        end = self._journal.restored.end
        if end is not None:
            return self._recall_end(end)
        return await self._journal.carry_out(self._take_turns())

    async def _take_turns(self) -> RunResult[Any]:
        try:
            stop = None
            while stop is None:
                stop = await self._take_turn()
        finally:
            await self._executor.cancel()
        final = self._final
        if stop in _SILENT_ENDS and not final.text.strip():
            final.no_answer = _SILENT_ENDS[stop]
        if self._journal is not None:
            await self._write_end(self._journal, stop)
        self._emit(RunEnded(stop, final.no_answer))
        return self._make_result(stop)

    def _make_result(self, stop: Stop) -> RunResult[Any]:
        final = self._final
        return RunResult(
            text=final.text,
            stop=stop,
            no_answer=final.no_answer,
            output=final.output,
            messages=tuple(self._messages),
            ended=tuple(self._results.ended),
            late=tuple(self._results.late),
            pending=tuple(self._wanted.pending),
            usage=self._budget.usage,
            turns=self._budget.turns,
        )

    @property
    def ran(self) -> tuple[Call, ...]:
        """The calls that have begun, in all turns."""
        return self._executor.ran

    def halt(self) -> None:
        """Begin no further tool, from this moment on."""
        self._executor.halt()

    async def _take_turn(self) -> Stop | None:
        answered = self._reopen() or await self._ask(self._find_cap())
        self._messages.append(answered.message)
        journal = self._journal
        if journal is not None:
            self._write_answer(journal, answered)
        for call in answered.waiting:
            self._start(call)
        outcome = answered.outcome
        if not outcome.calls and not outcome.rejected:
            stop = self._conclude(outcome)
        else:
            stop = await self._answer_calls(outcome)
        if journal is not None and stop is None:
            journal.append(f"turn {journal.turn}", self._save(journal))
            journal.turn += 1
        return stop

    # ── The journal ─────────────────────────────────────────────────────────────────

    def _write_answer(self, journal: RunJournal, answered: ReadAnswer) -> None:
        outcome = answered.outcome
        row = AnswerRow(
            messages=write_messages(self._messages[journal.kept_messages :]),
            calls=outcome.calls,
            rejected=outcome.rejected,
            text=outcome.text,
            finish_reason=outcome.finish_reason,
            native_finish_reason=outcome.native_finish_reason,
        )
        if not journal.restored.is_answered:
            journal.append(f"answer {journal.turn}", row)
        journal.kept_messages = len(self._messages)
        journal.parts = tuple
        journal.restored.is_answered = False

    def _save(self, journal: RunJournal) -> TurnRow:
        """Return what the next turn depends on."""
        kept, journal.kept_messages = journal.kept_messages, len(self._messages)
        return TurnRow(
            messages=write_messages(self._messages[kept:]),
            ended=[each.call.id for each in self._ended_now()],
            turns=self._budget.turns,
            usage=self._budget.usage,
            guard=self._guard.save(),
            choice=self._choice,
            max_tokens=self._max_tokens,
            texts=self._final.texts,
            reminders=self._reminders,
            seconds=self._budget.seconds_spent(self._now()),
            is_whole=False,
        )

    async def _write_end(self, journal: RunJournal, stop: Stop) -> None:
        end = EndRow(stop.value, self._final.no_answer, pending=self._wanted.pending)
        turn = Row(f"turn {journal.turn}", encode_row(self._save(journal)))
        rows = (turn, Row("end", encode_row(end)))
        status = RunStatus.CLIENT if self._wanted.pending else RunStatus.DONE
        await journal.end(rows, status=status, stop=stop.value)

    def _restore(self, journal: RunJournal) -> None:
        """Take up the state that the rows describe."""
        restored, state = journal.restored, journal.restored.state
        self._messages = list(restored.messages)
        self._results.ended = [
            ToolEnded(each.call, Status(each.status), each.result, each.seconds)
            for each in restored.ended
        ]
        if state is not None:
            self._budget = Budget(self._plan.limits, started=self._now() - state.seconds)
            self._budget.turns, self._budget.usage = state.turns, state.usage
            self._guard.load(state.guard)
            self._choice, self._max_tokens = state.choice, state.max_tokens
            self._final.texts, self._reminders = list(state.texts), state.reminders
        if restored.end is None:
            self._emit(Resumed(journal.turn, journal.worker, journal.before))

    def _recall_end(self, end: EndRow) -> RunResult[Any]:
        """Return the result of a run that is over."""
        if end.error:
            raise RunFailed(end.error, ran=self._executor.ran, text=end.text)
        stop, final = Stop(end.stop), self._final
        final.no_answer = end.no_answer
        self._wanted.pending = [read_call(call) for call in end.pending]
        if stop is Stop.TOOL and self._results.ended:
            final.output = self._plan.output.take(self._results.ended[-1].result)
        elif not end.no_answer and not end.pending:
            final.output, _ = self._plan.output.read(final.text)
        self._emit(RunEnded(stop, final.no_answer))
        return self._make_result(stop)

    def _reopen(self) -> ReadAnswer | None:
        """Return the answer in whose turn a restored run was interrupted, once."""
        answer = None if self._journal is None else self._journal.restored.open_answer
        if self._journal is None or answer is None:
            return None
        self._journal.restored.open_answer = None
        self._wanted = _Wanted(self._find_cap(), ended_before=len(self._results.ended))
        *before, message = answer.messages
        self._messages += before
        self._budget.turns += 1
        for call in answer.outcome.calls:
            self._demand_tool(self._journal, call)
        return ReadAnswer(answer.outcome, answer.outcome.calls, lambda: message)

    def _demand_tool(self, journal: RunJournal, call: Call) -> None:
        """A call whose tool is not here any more waits for it, unless it has its result."""
        if call.name not in self._plan.toolbox and journal.recall(call.id) is None:
            why = f"the run called {call.name!r}, which is not among its tools any more"
            raise RunWaiting(why, id=journal.run.id)

    # ── Asking ──────────────────────────────────────────────────────────────────────

    def _find_cap(self) -> Stop | None:
        if self._guard.stuck:
            return Stop.IDENTICAL
        if self._guard.calls >= self._plan.limits.calls:
            return Stop.CALLS
        return self._budget.reached(self._now())

    async def _ask(self, cap: Stop | None) -> ReadAnswer:
        """Ask until there is an answer that can be used."""
        self._wanted = _Wanted(cap, ended_before=len(self._results.ended))
        self._tell_late()
        request = self._next_request()
        retry = AnswerRetry(self._plan.limits)
        while True:
            self._emit(TurnStarted(self._budget.turns + 1))
            try:
                given = await self._try(request, retry)
            except (RunFailed, UpstreamError) as error:
                # What was started comes to its end, so that the error is right about it.
                await self._executor.settle()
                error.ran = self._executor.ran
                raise
            if isinstance(given, ReadAnswer):
                self._budget.turns += 1
                return given
            self._emit(TurnRetried(self._budget.turns + 1, given.why))
            request = given.request
            self._max_tokens = request.max_tokens
            self._wanted = _Wanted(self._wanted.cap, ended_before=len(self._results.ended))

    def _emit_all(self, events: list[Event]) -> None:
        for event in events:
            self._emit(event)

    async def _try(self, request: Request, retry: AnswerRetry) -> ReadAnswer | RetryRequest:
        turn = Turn(emit=self._emit_all, start=self._start, room=self._room)
        if self._journal is not None:
            self._journal.check()
            self._journal.parts = lambda: turn.parts
        limit = asyncio.timeout_at(self._deadline())
        try:
            async with limit:
                sent = self._plan.sender(request, silent=self._is_silent())
                answered = await turn.read(self._plan.upstream, sent)
        except UpstreamError as error:
            retried = retry.after_error(request, error, began=tuple(self._wanted.begun))
            if retried is None:
                raise
            return retried
        except TimeoutError:
            if not limit.expired():
                raise  # not our clock's, so the time of the run is not to blame
            return self._after_time()
        outcome = answered.outcome
        self._budget.spend(outcome.usage)
        began, last = tuple(self._wanted.begun), self._wanted.cap is not None
        return retry.after_answer(request, outcome, began=began, last=last) or answered

    def _after_time(self) -> RetryRequest:
        """The answer took longer than the run may: there is time for one last, shorter one."""
        why = "the time of the run is over"
        if self._wanted.begun or self._wanted.cap is Stop.SECONDS:
            raise RunFailed(why, ran=self._executor.ran)
        self._wanted.cap = Stop.SECONDS
        return RetryRequest(why, self._next_request())

    def _next_request(self) -> Request:
        base = self._plan.request
        withdrawn = self._guard.withdrawn
        silent = self._is_silent()
        tools = tuple(spec for spec in base.tools if spec.name not in withdrawn)
        names = tuple(name for name in self._choice.names if name not in withdrawn)
        return replace(
            base,
            messages=(*base.messages, *self._messages),
            tools=base.tools if silent else tools,
            choice=Choice(Mode.NONE) if silent else replace(self._choice, names=names),
            max_tokens=self._max_tokens,
        )

    def _tell_late(self) -> None:
        """Tell the model once what tools gave after their calls had timed out."""
        told = tuple(part for late in self._results.take_late() for part in tell_late(late))
        if told:
            self._messages.append(Message(Role.USER, told))

    def _is_silent(self) -> bool:
        """Return True if there are tools and none may be called: at a cap, or all withdrawn."""
        base = self._plan.request
        if self._wanted.cap is not None:
            return bool(base.tools or base.native_tools)
        if self._choice.specials or (base.native_tools and not self._choice.names):
            return False
        allowed = self._choice.names or tuple(spec.name for spec in base.tools)
        return bool(allowed) and self._guard.withdrawn.issuperset(allowed)

    def _deadline(self) -> float | None:
        if self._wanted.cap is Stop.SECONDS:
            return self._now() + LAST_ANSWER_SECONDS
        return self._budget.deadline

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    # ── Calls ───────────────────────────────────────────────────────────────────────

    def _start(self, call: Call) -> None:
        refused = self._guard.refuse(call)
        if refused is not None and not self._is_recalled(call):
            self._skip(call, refused)
        elif self._plan.toolbox.runs(call.name) or self._is_recalled(call):
            self._wanted.begun.append(call)
            self._executor.start(call)
        else:
            self._wanted.pending.append(call)

    def _skip(self, call: Call, refused: NotRun) -> None:
        earlier = self._results.find_same(call)
        if refused.reason is SkipReason.IDENTICAL and earlier is not None:
            self._executor.repeat(call, refused.why, earlier=earlier)
        else:
            self._executor.skip(call, refused.why, reason=refused.reason)

    def _is_recalled(self, call: Call) -> bool:
        """Return True for a call of a restored run that has begun or ended."""
        journal = self._journal
        return journal is not None and (
            journal.has_begun(call.id) or journal.recall(call.id) is not None
        )

    async def _answer_calls(self, outcome: Outcome) -> Stop | None:
        """Give every call of the answer its result."""
        results = {result.call_id: result for result in await self._settle()}
        for each in self._ended_now():
            self._count(each)
        answers: list[tuple[int, CallResult]] = [
            (call.number, self._with_warning(call, results[call.id]))
            for call in outcome.calls
            if call.id in results
        ]
        answers += ((each.number, self._reject(each)) for each in outcome.rejected if each.id)
        in_order = tuple(result for _, result in sorted(answers, key=lambda answer: answer[0]))
        if in_order:
            self._messages.append(Message(Role.TOOL, in_order))
        # Text that is not a call has no result: the model gets feedback in a user message.
        told = tuple(Text(self._explain(each)) for each in outcome.rejected if not each.id)
        if told:
            self._messages.append(Message(Role.USER, told))
        return self._stop_after(outcome)

    async def _settle(self) -> tuple[CallResult, ...]:
        limit = asyncio.timeout_at(self._budget.deadline)
        try:
            async with limit:
                return await self._executor.settle()
        except TimeoutError:
            if not limit.expired():
                raise  # not from a tool: those are results
            await self._executor.cancel()
            return await self._executor.settle()

    def _stop_after(self, outcome: Outcome) -> Stop | None:
        if self._wanted.cap is not None:
            return self._close(self._wanted.cap, outcome)
        if self._wanted.pending:
            self._final.texts.append(outcome.text)
            return Stop.CLIENT_CALLS
        for each in sorted(self._ended_now(), key=lambda each: each.call.number):
            tool = self._plan.toolbox.find(each.call.name)
            if tool is not None and tool.ends_run and each.status is Status.DONE:
                self._final.texts.append(each.result.text)
                self._final.output = self._plan.output.take(each.result)
                return Stop.TOOL
        if outcome.calls:
            # What was demanded was done; the model is free to answer now.
            self._choice = _relaxed(self._choice)
        progress = Progress(
            turns=self._budget.turns, usage=self._budget.usage, ended=tuple(self._results.ended)
        )
        if any(holds(progress) for holds in self._plan.stop_when):
            self._final.texts.append(outcome.text)
            return Stop.CONDITION
        return None

    def _ended_now(self) -> list[ToolEnded]:
        """Return the results of the current answer's calls."""
        return self._results.ended[self._wanted.ended_before :]

    def _count(self, ended: ToolEnded) -> None:
        if ended.status is Status.DONE:
            self._guard.succeeded(ended.call.name)
        elif ended.status in _FAILURES:
            self._guard.failed(ended.call.name)

    def _reject(self, rejected: Rejected) -> CallResult:
        name = rejected.name or ""
        if name in self._plan.toolbox and rejected.reason not in _NO_MISTAKES:
            self._guard.failed(name)
        told = Result((Text(self._explain(rejected)),), failed=True)
        return CallResult(call_id=rejected.id, name=name, result=told)

    def _explain(self, rejected: Rejected) -> str:
        offer, name = self._plan.toolbox.offer, rejected.name or ""
        barred = self._bar(name) if rejected.reason is Reason.UNKNOWN_TOOL else None
        if barred is not None:
            return skipped(name, barred.why, reason=barred.reason).text
        return feedback(rejected, offer.get(name), offer=offer)

    def _bar(self, name: str) -> NotRun | None:
        """Return why a tool that there is may not be called any more."""
        if name not in self._plan.toolbox.offer:
            return None
        if self._wanted.cap is not None:
            return NotRun(SkipReason.CAPPED, "this answer was to be the last, without tools")
        return self._guard.describe_withdrawn(name) if name in self._guard.withdrawn else None

    def _with_warning(self, call: Call, result: CallResult) -> CallResult:
        warning = self._guard.warning(call)
        if not warning or self._guard.stuck:
            return result
        content = (*result.result.content, Text(f"\n{warning}"))
        return replace(result, result=replace(result.result, content=content))

    # ── The final answer ────────────────────────────────────────────────────────────

    def _conclude(self, outcome: Outcome) -> Stop | None:
        """The answer has no calls: it is the final one, unless it will not do."""
        if outcome.finish_reason == "content_filter":
            self._final.texts.append(outcome.text)
            return Stop.CONTENT_FILTER
        if self._wanted.cap is not None:
            return self._close(self._wanted.cap, outcome)
        self._final.texts.append(outcome.text)
        if read_hint(outcome.native_finish_reason or "") is Hint.PAUSE:
            return None  # the provider's own tools took long: continue with what it has said
        breach = None if self._is_silent() else ask_again(self._choice, outcome)
        if breach is not None:
            return self._remind(breach, f"the model did not do as it was told: {breach}")
        if outcome.finish_reason == "length":
            return self._after_length()
        text = self._final.text
        self._final.output, wrong = self._plan.output.read(text)
        return self._remind(wrong, self._plan.output.complain(text)) if wrong else Stop.ANSWER

    def _close(self, cap: Stop, outcome: Outcome) -> Stop:
        """Take the last answer of a run at a cap: the model's words, or else ours."""
        self._final.texts.append(outcome.text)
        text = self._final.text
        if outcome.calls or outcome.rejected or not outcome.text.strip():
            # Words beside a call lead up to it ("Let me look …"), and answer nothing.
            self._final.no_answer = tell_stop(cap, self._plan.limits, ended=self._results.ended)
            self._add_sentence(text)
            return cap
        self._final.output, wrong = self._plan.output.read(text)
        self._final.no_answer = self._plan.output.complain(text) if wrong else ""
        return cap

    def _after_length(self) -> Stop | None:
        if not self._plan.continue_text:
            return Stop.LENGTH
        self._messages.append(Message(Role.USER, (Text(_GO_ON),)))
        return None

    def _add_sentence(self, text: str) -> None:
        """Put the run's own sentence after what the model said, in a separate paragraph."""
        seam = ("\n" if text.endswith("\n") else "\n\n") if text.strip() else ""
        self._final.texts.append(f"{seam}{self._final.no_answer}")
        self._emit(Text(self._final.texts[-1]))

    def _remind(self, words: str, failure: str) -> Stop | None:
        """Remind the model that its answer will not do; raise `RunFailed` after too many times."""
        if self._reminders >= MOST_TIMES_ASKED:
            raise RunFailed(failure, ran=self._executor.ran, text=self._final.text)
        self._reminders += 1
        self._final.texts.clear()
        self._messages.append(Message(Role.USER, (Text(words),)))
        return None


def _relaxed(choice: Choice) -> Choice:
    return replace(choice, mode=Mode.AUTO) if choice.mode is Mode.REQUIRED else choice

"""Take the guards out, one at a time, and see that the tests notice.

    .venv/bin/python fuzz/mutants.py
    .venv/bin/python fuzz/mutants.py provenance codes: gate_mode

Each mutant is made in a copy of the package; the tests of the core are run against it and
must fail. A mutant that survives is printed, and the exit code is 1. With words, only mutants
whose name, file or tests hold one of them are made.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Mutant:
    """One guard that is taken out."""

    name: str
    file: str
    guard: str
    without: str
    tests: str


MUTANTS = [
    Mutant(
        "the decision: a run waits on although a person has just decided",
        "journal/sqlite_journal.py",
        "if status is RunStatus.WAITING and database.execute(_WAS_DECIDED, (id,)).fetchone():",
        "if not status:",
        "tests/journal/test_journal_stores.py",
    ),
    Mutant(
        "the right to approve: a key decides about calls without it",
        "proxy/routes/run_routes.py",
        "if not caller.key.may_approve:",
        "if not caller:",
        "tests/proxy/routes/test_run_routes.py",
    ),
    Mutant(
        "reload: requests are read by the limits of the start",
        "proxy/app.py",
        "        self._planner.limits = config.limits\n",
        "",
        "tests/proxy/test_app_reload.py",
    ),
    Mutant(
        "pipelining: one request too many cuts the answers before it",
        "proxy/http/uvicorn_protocol.py",
        "        if self._is_full:\n            return  # those",
        "        if False:\n            return  # those",
        "tests/proxy/http/test_uvicorn_protocol_pipelined.py",
    ),
    Mutant(
        "slow readers: all that came of an answer is copied for them",
        "upstreams/http_connection.py",
        "        if len(data) > TAKEN_BYTES:",
        "        if False:",
        "tests/upstreams/test_http_connection.py",
    ),
    Mutant(
        "a body beyond the stack is our own error",
        "protocols/registry.py",
        "    except UNREADABLE:\n        return {}",
        "    except UnknownProtocol:\n        return {}",
        "tests/protocols/test_registry_detect.py",
    ),
    Mutant(
        "large conversations are read in the event loop",
        "agent/turn.py",
        "    if len(parts) + len(request.tools) > MANY_PARTS:\n        return True\n",
        "",
        "tests/agent/test_turn.py",
    ),
    Mutant(
        "a model that may call no tool any more writes the next call into its reply",
        "dialects/emulation/emulate.py",
        "(None if emulated.offer else WORDS)",
        "None",
        "tests/dialects/emulation/test_emulate.py",
    ),
    Mutant(
        "the intent: a tool begins before its intent is on disk",
        "agent/call_runner.py",
        "await journal.begin(self._call, number, wait=not self._tool.repeatable)",
        "journal.check()",
        "tests/journal/test_durable_runs.py",
    ),
    Mutant(
        "the fence: a worker that lost its run writes on",
        "journal/sqlite_journal.py",
        "if row is None or row[0] != epoch:",
        "if row is None:",
        "tests/journal/test_journal_stores.py tests/journal/test_sqlite_journal.py",
    ),
    Mutant(
        "the end: its row and the status are two changes",
        "journal/sqlite_journal.py",
        "            _insert(database, id, rows=rows, epoch=epoch, now=now)\n            if status",
        "            self._submit(lambda d: _insert(d, id, rows=rows, epoch=epoch, now=now))\n"
        "            if status",
        "tests/journal/test_journal_stores.py tests/journal/test_sqlite_journal.py",
    ),
    Mutant(
        "the result: it is fenced although its tool had begun",
        "journal/sqlite_journal.py",
        "if not _wrote_intent(database, id, call_id=call_id, epoch=epoch):",
        "if epoch:",
        "tests/journal/test_journal_stores.py tests/journal/test_sqlite_journal.py",
    ),
    Mutant(
        "the handle: the second of two equal requests gets a run of its own",
        "journal/sqlite_journal.py",
        "taken = _find_taken(database, run.id, handles=handles)",
        "taken = _find_taken(database, run.id, handles=())",
        "tests/journal/test_journal_stores.py tests/journal/test_sqlite_journal.py",
    ),
    Mutant(
        "the dict check: a list becomes arguments",
        "arguments/argument_reader.py",
        "if not isinstance(parsed.value, dict):",
        "if parsed.value is None:",
        "tests/arguments/test_argument_reader.py",
    ),
    Mutant(
        "the `{}` guard: a call cut before its first byte runs",
        "assembly/verdict.py",
        "if unsealed or not (ending is Ending.GOOD or _is_proven_empty(draft, ending)):",
        "if unsealed or ending is None:",
        "tests/assembly/test_verdict.py tests/assembly/test_assembler.py "
        "tests/assembly/test_assembler_ends.py",
    ),
    Mutant(
        "the seal: a call that its protocol never sealed runs empty",
        "assembly/verdict.py",
        "unsealed = draft.boundary.seals and Evidence.SEALED not in draft.evidence",
        "unsealed = False",
        "tests/assembly/test_verdict.py tests/assembly/test_assembler_routes.py",
    ),
    Mutant(
        "the object rule: what a partial parser made runs at the output limit",
        "assembly/verdict.py",
        "if ending is Ending.LENGTH and draft.relations.is_last and arguments.parsed is None:",
        "if ending is None:",
        "tests/assembly/test_verdict.py",
    ),
    Mutant(
        "the rival: a piece of an open call runs as a call",
        "assembly/call_builder.py",
        "return rival is not None and rival.arguments.is_open",
        "return False",
        "tests/assembly/test_assembler_routes.py",
    ),
    Mutant(
        "the placeholder rule: `{}` counts as closed",
        "assembly/call_builder.py",
        "elif parsed.value:",
        "elif True:",
        "tests/assembly/test_call_builder.py tests/assembly/test_assembler.py "
        "tests/assembly/test_assembler_ends.py",
    ),
    Mutant(
        "the settled state: a released call is released again",
        "assembly/call_builder.py",
        "UNSETTLED = frozenset({State.BUILDING, State.SEALED})",
        "UNSETTLED = frozenset(State) - {State.REJECTED}",
        "tests/assembly/test_assembler.py tests/assembly/test_assembler_ends.py tests/properties",
    ),
    Mutant(
        "the id rule: a new id on a used index is the same call",
        "assembly/routing.py",
        "if other_id and name:",
        "if other_id and not name:",
        "tests/assembly/test_assembler_routes.py tests/assembly/test_routing.py",
    ),
    Mutant(
        "the tail rule: a second, different object is overlooked",
        "assembly/verdict.py",
        "    if tail.differs:\n        return _AMBIGUOUS",
        "    if False:\n        return _AMBIGUOUS",
        "tests/assembly/test_verdict.py tests/assembly/test_assembler_routes.py",
    ),
    Mutant(
        "the terminator: a dropped stream ends well",
        "assembly/verdict.py",
        "return Ending.DROPPED",
        "return Ending.GOOD",
        "tests/assembly/test_verdict_turn_end.py tests/assembly/test_assembler.py "
        "tests/assembly/test_assembler_ends.py",
    ),
    Mutant(
        "the filter: calls run after a content filter",
        "assembly/verdict.py",
        "if ending in _NOTHING_RUNS:",
        "if ending in _NOTHING_RUNS and ending is not Ending.FILTERED:",
        "tests/assembly/test_verdict.py",
    ),
    Mutant(
        "the policy: every tool may start early",
        "assembly/verdict.py",
        "if spec is None or spec.start is Start.CONFIRMED:",
        "if spec is None:",
        "tests/assembly/test_verdict.py tests/assembly/test_assembler.py "
        "tests/assembly/test_assembler_ends.py",
    ),
    Mutant(
        "repair of a text that is not known to be whole",
        "arguments/argument_reader.py",
        "if whole and parsed.reason is Reason.BAD_JSON:",
        "if parsed.reason is Reason.BAD_JSON:",
        "tests/arguments/test_argument_reader.py",
    ),
    Mutant(
        "an escape that is split over two pieces",
        "assembly/json_scanner.py",
        'self._escaped = self._in_string = text[end] == "\\\\"',
        'self._in_string = text[end] == "\\\\"',
        "tests/assembly/test_json_scanner.py",
    ),
    Mutant(
        "the failed turn: an early start after the stream has failed",
        "assembly/assembler.py",
        "return self._turn.is_sound and self._judge.may_start(draft)",
        "return self._judge.may_start(draft)",
        "tests/assembly/test_assembler.py tests/protocols/test_reader.py",
    ),
    Mutant(
        "the probe: a text that only looks like the one meant is taken for it",
        "protocols/fast_path.py",
        "== _with_text(delta, _PROBE):",
        "is not None:",
        "tests/protocols/test_fast_path.py",
    ),
    Mutant(
        "the pure piece: a stencil is cut from a chunk that its decoder remembers",
        "protocols/fast_path.py",
        "or self._read_piece(payload) != delta",
        "or delta is None",
        "tests/protocols/test_fast_path.py",
    ),
    Mutant(
        "the end of a stencil: a piece for a block that is over is taken",
        "protocols/fast_path.py",
        "            self._type = None\n            if len(found) == 1",
        "            if len(found) == 1",
        "tests/protocols/test_fast_path.py",
    ),
    Mutant(
        "snapshots: pieces are read as one while each may repeat the one before",
        "assembly/call_builder.py",
        "self.is_growing and not self.arguments.may_repeat",
        "self.is_growing",
        "tests/assembly/test_call_builder.py tests/protocols/test_fast_path_coalesced.py",
    ),
    Mutant(
        "at most once: a call that is known is run again",
        "agent/executor.py",
        "        if call.id in self._known:\n            return\n",
        "",
        "tests/agent/test_executor.py",
    ),
    Mutant(
        "the wrapper: it repeats what may not be repeated",
        "agent/tool_middleware.py",
        "        if begun:\n",
        "        if False:\n",
        "tests/agent/test_tool_middleware.py",
    ),
    Mutant(
        "the rule of an approval: what is neither yes nor no lets a call pass",
        "agent/approvals.py",
        "return needs is not False",
        "return needs is True",
        "tests/agent/test_approvals.py",
    ),
    Mutant(
        "what a tool asks the user: a form that does not fit is accepted",
        "agent/approvals.py",
        "return CANCELLED if form.problems else Elicited",
        "return Elicited",
        "tests/tools/mcp/test_session_elicitation.py",
    ),
    Mutant(
        "what a tool asks the user: with several calls under way, one of them is guessed",
        "tools/mcp/session.py",
        "if len(self._callers) != 1:",
        "if not self._callers:",
        "tests/tools/mcp/test_session_elicitation.py",
    ),
    Mutant(
        "the answer of an approval: what is not exactly a yes lets a call pass",
        "agent/approvals.py",
        "Approval(given.approved is True, given.why)",
        "Approval(bool(given.approved), given.why)",
        "tests/agent/test_approvals.py",
    ),
    Mutant(
        "what was approved is what runs: the call itself is shown",
        "agent/call_runner.py",
        "self.shown = copy_call(call)",
        "self.shown = call",
        "tests/agent/test_loop.py",
    ),
    Mutant(
        "asked again although a call had begun",
        "agent/answer_retry.py",
        "if began or self._retries",
        "if self._retries",
        "tests/agent/test_answer_retry.py",
    ),
    Mutant(
        "a tool begins after the run was stopped",
        "agent/executor.py",
        "        self._cancelled = True\n",
        "",
        "tests/agent/test_executor_stopped.py",
    ),
    Mutant(
        "threads that hang pile up",
        "agent/call_runner.py",
        "return self._settings.threads.lost >= self._limits.lost_threads",
        "return False",
        "tests/agent/test_call_runner_timeouts.py",
    ),
    Mutant(
        "the same call again and again",
        "agent/budget.py",
        "if self._identical[key] < limits.stop_identical:",
        "if self._identical[key]:",
        "tests/agent/test_budget.py",
    ),
    Mutant(
        "a parameter that lost its opening tag becomes a part of another one",
        "dialects/grammars/tag_calls.py",
        "if self._raw.holds_close and self._may_lack(name):",
        "if self._raw.holds_close and not name:",
        "tests/dialects/grammars/test_tag_values.py",
    ),
    Mutant(
        "a brace that is missing in the arguments moves what stands behind it",
        "dialects/grammars/json_calls.py",
        "return not self._may_lack_brace(found)",
        "return True",
        "tests/dialects/grammars/test_json_calls.py",
    ),
    Mutant(
        "a mark in a string with quotes that were not escaped ends a call",
        "dialects/grammars/json_values.py",
        "if _IN_ORDER.match(self._source.since(self._begin)):",
        "if True:",
        "tests/dialects/grammars/test_headed_calls.py",
    ),
    Mutant(
        "a second object behind the arguments is let go",
        "dialects/grammars/json_values.py",
        "or source.since(place) != text:",
        "or False:",
        "tests/dialects/grammars/test_headed_calls.py",
    ),
    Mutant(
        "a key of Gemma's is whatever stands before a colon",
        "dialects/grammars/literal_calls.py",
        "if not end or not (quoted or key in properties or _is_word(key)):",
        "if not end:",
        "tests/dialects/grammars/test_literal_calls.py",
    ),
    Mutant(
        "a call of Gemini's runs again in each chunk that repeats it",
        "protocols/gemini/stream.py",
        "return frozenset(places[:again])",
        "return frozenset()",
        "tests/protocols/gemini/test_stream_snapshots.py",
    ),
    Mutant(
        "the budget of the gate: a model is asked without end",
        "proxy/handlers/gate_mode.py",
        "if left <= 0:",
        "if left < 0:",
        "tests/proxy/handlers/test_gate_mode.py",
    ),
    Mutant(
        "the room of the gate: a cut call gets no more of it",
        "proxy/handlers/gate_mode.py",
        "            if more and not last and not outcome.calls and not outcome.provider_blocks:",
        "            if False:",
        "tests/proxy/handlers/test_gate_mode.py",
    ),
    Mutant(
        "the room of an answer grows beyond the model's limit",
        "agent/answer_retry.py",
        "room = min(had * 2, most)",
        "room = had * 2",
        "tests/agent/test_answer_retry.py tests/proxy/handlers/test_gate_mode.py",
    ),
    Mutant(
        "the end of the gate: a cut call ends as an empty answer",
        "proxy/handlers/gate_mode.py",
        "if not calls and not shown and _is_void(outcome):",
        "if not calls and not shown and not was_cut(outcome) and _is_void(outcome):",
        "tests/proxy/handlers/test_gate_mode.py",
    ),
    Mutant(
        "what can stand: words that broke off are followed by others",
        "proxy/handlers/gate_mode.py",
        "not outcome.provider_blocks and (begun or silent)",
        "not outcome.provider_blocks",
        "tests/proxy/handlers/test_gate_mode.py",
    ),
    Mutant(
        "the right calls beside a wrong one are lost when the model is asked again",
        "proxy/handlers/gate_mode.py",
        "calls = [*self._kept]",
        "calls = list[Call]()",
        "tests/proxy/handlers/test_gate_mode.py",
    ),
    Mutant(
        "a right call that the model sends again is handed over twice",
        "proxy/handlers/gate_mode.py",
        "again = any(_is_same(call, kept) for kept in self._kept)",
        "again = False",
        "tests/proxy/handlers/test_gate_mode.py",
    ),
    Mutant(
        "words that were sent are sent again",
        "proxy/handlers/gate_mode.py",
        "_Stage.SAME if self._before else self._first",
        "self._first",
        "tests/proxy/handlers/test_gate_mode.py",
    ),
    Mutant(
        "the one call that is allowed gets a second one beside it",
        "proxy/handlers/gate_mode.py",
        "if outcome.calls and not request.choice.parallel:",
        "if outcome.calls and request.choice.parallel is None:",
        "tests/proxy/handlers/test_gate_mode.py",
    ),
    Mutant(
        "the guard of the gate: a call is handed over for the fifth time",
        "proxy/handlers/gate_mode.py",
        "if self._is_stuck(outcome):",
        "if self._is_stuck(outcome) and self._kept:",
        "tests/proxy/handlers/test_gate_mode.py",
    ),
    Mutant(
        "the guard of the gate: calls for an earlier question count",
        "proxy/handlers/gate_mode.py",
        "if messages[at].role is Role.USER and messages[at - 1].role is not Role.TOOL:",
        "if messages[at].role is Role.SYSTEM:",
        "tests/proxy/handlers/test_gate_mode.py",
    ),
    Mutant(
        "SDKs resend what a model got wrong",
        "proxy/handlers/response_writer.py",
        "error.status is None and error.code == BAD_CALL",
        "error.status is not None and error.code == BAD_CALL",
        "tests/proxy/handlers/test_response_writer_errors.py",
    ),
    Mutant(
        "the handle of a request: a resend runs in another process what has begun in one",
        "proxy/handlers/idempotency.py",
        "claim = await self._wait(self.store.open_run(run, [sent.handle], bare=sent.bare))",
        "claim = await self._wait(self.store.open_run(run))",
        "tests/e2e/test_proxy_processes.py",
    ),
    Mutant(
        "a call that a broken string tells of runs",
        "dialects/grammars/json_calls.py",
        "(self._begins)):\n            yield from self._source.flow(self._closers, ignore)",
        "(self._begins)):\n            yield from self._source.flow(self._begins, ignore)",
        "tests/dialects/grammars/test_json_calls.py",
    ),
    Mutant(
        "a call that a value in tags tells of runs",
        "dialects/grammars/tag_calls.py",
        "self._source.flow(self._ends if self._inside else self._edges, ignore)",
        "self._source.flow(self._edges, ignore)",
        "tests/dialects/grammars/test_tag_calls.py tests/dialects/grammars/test_tag_values.py",
    ),
    Mutant(
        "a call that a string of Gemma's tells of runs",
        "dialects/grammars/literal_calls.py",
        "if self._tells:",
        "if False:",
        "tests/dialects/grammars/test_literal_calls.py",
    ),
    Mutant(
        "tags where a schema says nothing are read as an object",
        "dialects/grammars/nested_tag_calls.py",
        "if not may_nest(schema) or depth >= _DEEPEST:",
        "if depth >= _DEEPEST:",
        "tests/dialects/grammars/test_nested_tag_calls_values.py",
    ),
    Mutant(
        "an example that is set off by blanks runs",
        "dialects/engine.py",
        "elif self._is_indented():",
        "elif False:",
        "tests/dialects/test_engine.py",
    ),
    Mutant(
        "a value that was cut at the wrong quoting mark runs",
        "arguments/argument_reader.py",
        "if holds_half(value):",
        "if False:",
        "tests/arguments/test_argument_reader_quotation_marks.py",
    ),
    Mutant(
        "a parameter without a name is dropped",
        "arguments/argument_reader.py",
        "return _NAMELESS if nameless else None",
        "return None",
        "tests/arguments/test_argument_reader.py",
    ),
    Mutant(
        "a parameter behind a brace too many is taken for another call",
        "dialects/grammars/json_calls.py",
        "if key in self._machine.properties(found.name):",
        "if False:",
        "tests/dialects/grammars/test_json_calls.py",
    ),
    Mutant(
        "the proxy's password goes through the tunnel to the upstream",
        "upstreams/connection_pool.py",
        "is_forwarded = self._proxy is not None and not self._has_tunnel",
        "is_forwarded = self._proxy is not None",
        "tests/upstreams/test_connection_pool.py",
    ),
    Mutant(
        "a proxy that refuses is taken for a tunnel",
        "upstreams/connection_pool.py",
        "if status not in GOOD:",
        "if False:",
        "tests/upstreams/test_connection_pool.py",
    ),
    Mutant(
        "what a proxy says in front of a tunnel is dropped",
        "upstreams/connection_pool.py",
        "        if self._heard:\n",
        "        if False:\n",
        "tests/upstreams/test_connection_pool.py",
    ),
    Mutant(
        "a proxy's head without end is collected",
        "upstreams/connection_pool.py",
        "if len(self._heard) > MOST_HEAD_BYTES:",
        "if False:",
        "tests/upstreams/test_connection_pool.py",
    ),
    Mutant(
        "a cancelled handshake leaves its tunnel open",
        "upstreams/connection_pool.py",
        "        except BaseException:\n            tunnel.abort()\n",
        "        except BaseException:\n",
        "tests/upstreams/test_connection_pool.py",
    ),
    Mutant(
        "a call that would be skipped again is asked for again",
        "arguments/feedback.py",
        "hint=_SKIP_HINTS[reason],",
        "hint=_SKIP_HINTS[SkipReason.STOPPED],",
        "tests/arguments/test_feedback.py",
    ),
    Mutant(
        "a withdrawn tool is reported as unknown",
        "agent/loop.py",
        "if barred is not None:",
        "if False:",
        "tests/agent/test_loop_budget.py",
    ),
    Mutant(
        "a call in the last answer of a stopped run counts as the answer",
        "agent/loop.py",
        "if outcome.calls or outcome.rejected or not outcome.text.strip():",
        "if not outcome.text.strip():",
        "tests/agent/test_loop_stopped.py",
    ),
    Mutant(
        "the last answer of a stopped run may be empty",
        "agent/loop.py",
        "if outcome.calls or outcome.rejected or not outcome.text.strip():",
        "if outcome.calls or outcome.rejected:",
        "tests/agent/test_loop_stopped.py",
    ),
    Mutant(
        "the markup of a call is shown as the last answer",
        "agent/loop.py",
        "self._plan.sender(request, silent=self._is_silent())",
        "self._plan.sender(request)",
        "tests/agent/test_loop_stopped.py",
    ),
    Mutant(
        "the last answer of a stopped run is not held to a reply",
        "dialects/emulation/emulate.py",
        "barred = read_offer(request.tools) if silent and not offer else {}",
        "barred = read_offer(()) if silent and not offer else {}",
        "tests/agent/test_loop_stopped.py",
    ),
    Mutant(
        "ask returns a run without an answer",
        "agent/api.py",
        "if result.no_answer:",
        "if False:",
        "tests/agent/test_loop_stopped.py",
    ),
    Mutant(
        "a stopped run has a finish reason as if it were finished",
        "proxy/handlers/response_writer.py",
        "reason = _STOPPED if result.no_answer else ended.finish_reason",
        "reason = ended.finish_reason",
        "tests/proxy/handlers/test_run_mode.py",
    ),
    Mutant(
        "a tool times out because a sibling blocked the event loop",
        "agent/call_runner.py",
        "if late < HELD_UP or extensions == MOST_EXTENSIONS:",
        "if True:",
        "tests/agent/test_call_runner.py tests/agent/test_executor_late_results.py",
    ),
    Mutant(
        "a loop that is held up all the time gives time without end",
        "agent/call_runner.py",
        "MOST_EXTENSIONS = 8",
        "MOST_EXTENSIONS = 10_000",
        "tests/agent/test_call_runner.py",
    ),
    Mutant(
        "an interrupt that a tool raises ends the server",
        "agent/call_runner.py",
        "except (Exception, SystemExit, KeyboardInterrupt) as error:",
        "except (Exception, SystemExit) as error:",
        "tests/agent/test_executor_late_results.py",
    ),
    Mutant(
        "the late result of a thread is lost",
        "agent/call_runner.py",
        "self.on_late(outcome)",
        "pass",
        "tests/agent/test_executor_late_results.py",
    ),
    Mutant(
        "the late result of a task is lost",
        "agent/call_runner.py",
        "task.add_done_callback(self._take_late)",
        "pass",
        "tests/agent/test_call_runner.py",
    ),
    Mutant(
        "a late result is told with every request",
        "agent/loop.py",
        "news, self._told = self.late[self._told :], len(self.late)",
        "news = self.late",
        "tests/agent/test_executor_late_results.py",
    ),
    Mutant(
        "a tool that blocks the event loop is not named",
        "agent/call_runner.py",
        "if seconds >= HELD_UP:",
        "if False:",
        "tests/agent/test_executor_late_results.py",
    ),
    Mutant(
        "what a tool prints gets into the log as it is",
        "agent/tool_middleware.py",
        "(CURRENT.get() or self._others).write(text)",
        "self._stream.write(text)",
        "tests/agent/test_tool_middleware_output.py",
    ),
    Mutant(
        "Ctrl-C counts as the failure of a tool",
        "agent/run.py",
        "signal.signal(signal.SIGINT, stop)",
        "pass",
        "tests/agent/test_executor_late_results.py",
    ),
    Mutant(
        "a call with side effects is to be repeated after its server failed",
        "agent/call_runner.py",
        "hint = _HARMLESS if repeatable else _MAYBE_DONE",
        "hint = _HARMLESS",
        "tests/agent/test_call_runner_tool_errors.py",
    ),
    Mutant(
        "an internal error of an MCP server says what its tool did",
        "tools/mcp/session.py",
        "if error.code in _UNKNOWN:",
        "if error.code in _UNANSWERED:",
        "tests/tools/mcp/test_session_connection.py",
    ),
    Mutant(
        "an empty `custom` hides the function beside it",
        "protocols/openai_chat/stream.py",
        "if piece.name or piece.input or entry.function is None:",
        "if True:",
        "tests/protocols/openai_chat/test_stream_custom_calls.py",
    ),
    Mutant(
        "two calls under one call_id become one",
        "protocols/openai_responses/stream.py",
        "if call is None or call.is_apart(address):",
        "if call is None:",
        "tests/protocols/openai_responses/test_stream_items.py",
    ),
    Mutant(
        "a guess runs at the output limit",
        "assembly/verdict.py",
        "if draft.boundary.guessed and ending is Ending.LENGTH:",
        "if False:",
        "tests/assembly/test_verdict.py",
    ),
    Mutant(
        "a guess starts a tool before the turn has ended",
        "assembly/verdict.py",
        "if draft.is_contested or draft.boundary.guessed:",
        "if draft.is_contested:",
        "tests/assembly/test_verdict.py tests/assembly/test_assembler_ends.py",
    ),
    Mutant(
        "`{}` of a call that was last runs at the output limit",
        "assembly/verdict.py",
        "sealed_inside = draft.boundary.seals and not draft.relations.is_last",
        "sealed_inside = draft.boundary.seals",
        "tests/assembly/test_verdict.py",
    ),
    Mutant(
        "a call in tags without its end is no guess",
        "dialects/grammars/tag_calls.py",
        'self._output.grow("}", guessed=self._rested)',
        'self._output.grow("}")',
        "tests/dialects/emulation/test_emulated_answer.py "
        "tests/dialects/test_parser_context_output_limit.py",
    ),
    Mutant(
        "a plan that the output limit cut runs",
        "dialects/parser_context.py",
        "self._given += map(_as_guess, self._held or ())",
        "self._given += self._held or ()",
        "tests/dialects/emulation/test_emulated_answer.py",
    ),
    Mutant(
        "a call at the end of reasoning that was cut runs",
        "dialects/rescue.py",
        'calls.append(msgspec.structs.replace(_apart(each, "thought"), guessed=True))',
        'calls.append(_apart(each, "thought"))',
        "tests/dialects/test_parser_context_output_limit.py",
    ),
    Mutant(
        "as many output tokens as the request allowed do not mean that the answer was cut",
        "assembly/verdict.py",
        "return ending_of(worse(self.hint, Hint.LENGTH) if self.limited else self.hint)",
        "return ending_of(self.hint)",
        "tests/assembly/test_verdict_turn_end.py",
    ),
    Mutant(
        "a replayed answer does not know the limit of its request",
        "inspector/captured_answer.py",
        "max_tokens=case.max_tokens,",
        "max_tokens=None,",
        "tests/inspector/test_captured_answer_chunks.py",
    ),
    Mutant(
        "the count of all choices is taken for that of one",
        "protocols/reader.py",
        "if self._others or usage is None or",
        "if usage is None or",
        "tests/protocols/test_reader_limit.py",
    ),
    Mutant(
        "words before a call are taken for words after it",
        "assembly/assembler.py",
        "        self._followed = False\n        previous, known",
        "        previous, known",
        "tests/assembly/test_assembler_ends.py",
    ),
    Mutant(
        "the same call sent again proves the first one whole",
        "assembly/assembler.py",
        "return draft is last or (again and draft.arguments.value == last.arguments.value)",
        "return draft is last",
        "tests/assembly/test_assembler_ends.py",
    ),
    Mutant(
        "the run does not know the limit of its request",
        "agent/turn.py",
        "limit = limit_of(answer.protocol, request)",
        "limit = None",
        "tests/agent/test_turn.py",
    ),
    Mutant(
        "the limit of an emulated request is not known",
        "dialects/emulation/emulate.py",
        "max_tokens=limit_of(protocol, self.request),",
        "max_tokens=None,",
        "tests/agent/test_turn.py",
    ),
    Mutant(
        "provenance: a call that stands in the conversation runs",
        "dialects/rescue.py",
        "if self._provenance.quotes(each.call, calls_in(calls)):",
        "if False:",
        "tests/dialects/test_rescue.py",
    ),
    Mutant(
        "provenance: a call that was divided between two texts runs",
        "dialects/provenance.py",
        "return low >= _PIECE <= len(text) - low and text[low:] in after",
        "return False",
        "tests/dialects/test_provenance.py",
    ),
    Mutant(
        "provenance: a call that a page writes in capital letters runs",
        "dialects/normalized_text.py",
        "text.casefold()",
        "text",
        "tests/test_provenance.py",
    ),
    Mutant(
        "provenance: what a result asks for in words runs",
        "dialects/provenance.py",
        "any(each.tell(call) for each in self._read_results)",
        "False",
        "tests/dialects/test_provenance.py",
    ),
    Mutant(
        "provenance: the words of a result are read one result at a time",
        "dialects/provenance.py",
        'thin("".join(each.plain for each in said))',
        'thin(next((each.plain for each in said), ""))',
        "tests/dialects/test_provenance.py",
    ),
    Mutant(
        "provenance: a sentence that is written backwards hides a call",
        "dialects/provenance.py",
        "_TURNS = (str, reverse, rotate)",
        "_TURNS = (str,)",
        "tests/dialects/test_provenance.py",
    ),
    Mutant(
        "provenance: a call that the model made itself is one that a result asks for",
        "dialects/provenance.py",
        "not in self._own_calls",
        "is not None",
        "tests/dialects/test_provenance.py",
    ),
    Mutant(
        "provenance: a table or a list hides a call",
        "dialects/provenance.py",
        "[=:|→–]",
        "[=:]",
        "tests/dialects/test_provenance.py",
    ),
    Mutant(
        "provenance: the options of a command hide a call",
        "dialects/provenance.py",
        r"--?{plain}\s|",
        "",
        "tests/dialects/test_provenance.py",
    ),
    Mutant(
        "provenance: a code hides a call",
        "dialects/provenance.py",
        "told += zip(self._texts, map(decode, self._texts), strict=True)",
        "told += ()",
        "tests/dialects/test_provenance.py",
    ),
    Mutant(
        "provenance: a code hides the words of a result",
        "dialects/provenance.py",
        "told = [results] if decoded == results else [results, decoded]",
        "told = [results]",
        "tests/dialects/test_provenance.py",
    ),
    Mutant(
        "codes: base64 stays as it is",
        "dialects/normalized_text.py",
        "_read_hex, _read_base32, _read_base64)",
        "_read_hex, _read_base32)",
        "tests/dialects/test_normalized_text.py",
    ),
    Mutant(
        "codes: numbers stay as they are",
        "dialects/normalized_text.py",
        "_NUMBERS.sub(_read_numbers, ",
        "str(",
        "tests/dialects/test_normalized_text.py",
    ),
    Mutant(
        "codes: selectors that nobody sees hide a call",
        "dialects/normalized_text.py",
        "_SELECTORS.sub(_read_selectors, plain)",
        "plain",
        "tests/dialects/test_normalized_text.py",
    ),
    Mutant(
        "provenance: a field that no part of a message holds hides a call",
        "dialects/provenance.py",
        "if text not in read]",
        "if False]",
        "tests/dialects/test_provenance.py",
    ),
    Mutant(
        "provenance: the text in the arguments of a past call may be repeated as a call",
        "dialects/provenance.py",
        "            yield value",
        "            yield from ()",
        "tests/dialects/test_provenance.py",
    ),
    Mutant(
        "provenance: a large number hides a call in another format",
        "dialects/provenance.py",
        'frozenset(map(squeeze, (str(leaf), f"{leaf:,}", *exponent)))',
        "frozenset(exponent)",
        "tests/dialects/test_provenance.py",
    ),
    Mutant(
        "provenance: an emoji that JSON escapes hides a call",
        "dialects/normalized_text.py",
        "text = join_halves(text)  #",
        "pass  #",
        "tests/dialects/test_provenance.py",
    ),
    Mutant(
        "provenance: a call without arguments runs in another format",
        "dialects/provenance.py",
        "return call.is_whole and _as_call(name).search(self.plain) is not None",
        "return False",
        "tests/dialects/test_provenance.py",
    ),
    Mutant(
        "provenance: a value that says nothing hides the others",
        "dialects/provenance.py",
        "telling = [(key, ways) for key, ways in parts if ways] or parts",
        "telling = list(parts)",
        "tests/dialects/test_provenance.py",
    ),
    Mutant(
        "provenance: a notice in the middle of a text hides a call",
        "dialects/provenance.py",
        "in (*pairwise(texts), *zip(texts, texts, strict=True))",
        "in pairwise(texts)",
        "tests/dialects/test_provenance.py",
    ),
    Mutant(
        "provenance: arguments that are encoded twice are none",
        "dialects/provenance.py",
        "return again if isinstance(again, dict) else value",
        "return value",
        "tests/dialects/test_provenance.py",
    ),
    Mutant(
        "position: a call runs although words follow it",
        "dialects/rescue.py",
        "prose, self._held = self._held, []",
        "prose = []",
        "tests/dialects/test_rescue.py",
    ),
    Mutant(
        "position: after native calls, a call runs at the end of a long text",
        "dialects/rescue.py",
        "if self._provenance.native and not self._lead.is_short:",
        "if False:",
        "tests/dialects/test_rescue.py",
    ),
    Mutant(
        "rescue: a call in a text runs although rescue is off",
        "agent/turn.py",
        "request.choice.mode is not Mode.NONE and self._rule.rescue is not Rescue.OFF",
        "request.choice.mode is not Mode.NONE",
        "tests/agent/test_loop_quotations.py tests/agent/test_turn.py",
    ),
    Mutant(
        "side effects: the default starts a tool that is not read-only",
        "agent/turn.py",
        "(tool is not None and tool.read_only)",
        "tool is not None",
        "tests/agent/test_turn.py",
    ),
    Mutant(
        "side effects: a call in a text starts a tool that the setting forbids",
        "dialects/rescue.py",
        "self._gate.refuse(opened.number, WRITTEN)",
        "pass",
        "tests/dialects/test_rescue_native_answers.py",
    ),
    Mutant(
        "quotation: a call in quotation marks runs",
        "dialects/quotation.py",
        "if fence or state.closer or state.marks:",
        "if False:",
        "tests/dialects/test_quotation.py tests/dialects/test_engine.py",
    ),
    Mutant(
        "quotation: a call in a comment runs",
        "dialects/quotation.py",
        "or _COMMENT.match(state.head) is not None",
        "or False",
        "tests/dialects/test_quotation.py",
    ),
    Mutant(
        "quotation: a call between quotation marks on lines of their own runs",
        "dialects/quotation.py",
        'if line in _QUOTE_LINES and fence in ("", line):',
        "if False:",
        "tests/dialects/test_quotation.py",
    ),
    Mutant(
        "quotation: a call runs although words stand before it on its line",
        "dialects/engine.py",
        "self._position_of(mark) not in _APART",
        "True",
        "tests/dialects/test_rescue.py",
    ),
    Mutant(
        "a call in a message of the model to itself runs",
        "dialects/engine.py",
        "opener in self._words.private",
        "False",
        "tests/dialects/grammars/test_tag_calls.py",
    ),
    Mutant(
        "a call in a message to the user runs",
        "dialects/grammars/tag_calls.py",
        "not end or text.strip() in _PEOPLE",
        "not end",
        "tests/dialects/grammars/test_tag_calls.py",
    ),
    Mutant(
        "an announced dialect: a call of another format runs in the midst of a sentence",
        "dialects/engine.py",
        "self._reading is CallPosition.AGREED and mark in self._words.foreign",
        "False",
        "tests/dialects/emulation/test_emulated_answer.py",
    ),
    Mutant(
        "an announced dialect: a call that stands in the conversation runs",
        "dialects/emulation/emulated_answer.py",
        "and said.quotes(found.call, calls, by_arguments=False)",
        "and False",
        "tests/dialects/emulation/test_emulated_answer.py",
    ),
    Mutant(
        "an announced dialect: a call runs although words follow on its line",
        "dialects/engine.py",
        "self._output.spoil_since(before, IN_A_SENTENCE)",
        "pass",
        "tests/dialects/emulation/test_emulated_answer.py",
    ),
    Mutant(
        "an announced dialect: a tool starts before the rest of the call's line is known",
        "dialects/emulation/emulated_answer.py",
        "if isinstance(each, CallDelta | CallSealed):\n                self._held.append(each)",
        "if False:\n                pass",
        "tests/dialects/emulation/test_emulated_answer.py",
    ),
    Mutant(
        "a request after a crash, without a count, runs the tools again",
        "proxy/handlers/idempotency.py",
        "        if begun:\n            told",
        "        if not restored:\n            told",
        "tests/proxy/routes/test_client_route.py",
    ),
    Mutant(
        "an Idempotency-Key with another body gets the answer of the first",
        "proxy/handlers/idempotency.py",
        "if before.digest != digest:",
        "if not digest:",
        "tests/proxy/routes/test_client_route.py",
    ),
    Mutant(
        "a frame that another worker wrote is written again, or lost",
        "proxy/handlers/response_writer.py",
        'if b"".join(written) != resumed.sent:',
        "if not written:",
        "tests/proxy/handlers/test_background.py",
    ),
    Mutant(
        "a run that is over is opened again by the worker that had it",
        "journal/sqlite_journal.py",
        "    if RunStatus(row[1]) in OVER:",
        "    if row[1] is None:",
        "tests/journal/test_journal_stores.py",
    ),
    Mutant(
        "a coerced call leaves with the text that does not fit",
        "protocols/history.py",
        "if call.repairs or call.coercions or call.dropped:",
        "if False:",
        "tests/protocols/test_response_encoder_delivery.py",
    ),
    Mutant(
        "a field is dropped on the way to another protocol, and nobody hears of it",
        "protocols/registry.py",
        "return (*chain(*unsaid), *others)",
        "return tuple(others)",
        "tests/protocols/test_registry_model_options.py",
    ),
    Mutant(
        "the prompt of a client that marks its own cache is marked again",
        "protocols/anthropic/request.py",
        "return request.marks_cache and not ours",
        "return request.marks_cache",
        "tests/protocols/test_registry_model_options.py",
    ),
    Mutant(
        "an item that only its provider can read is dropped on the way to another one",
        "proxy/handlers/request_plan.py",
        "if kind in client.held_items:",
        "if False:",
        "tests/e2e/test_proxy_compaction.py",
    ),
    Mutant(
        "a file that the upstream cannot read is replaced by words in the user's mouth",
        "proxy/handlers/request_plan.py",
        "    return omit_foreign(request, protocol), (",
        "    return request, (",
        "tests/e2e/test_proxy_foreign_content.py",
    ),
    Mutant(
        "a reference finds the items of another key",
        "proxy/handlers/response_store.py",
        "    held = store.find(key_id, response_id)\n    output",
        "    held = store.find(key_id, response_id) or store._look_up(response_id)\n    output",
        "tests/proxy/handlers/test_response_store.py",
    ),
    Mutant(
        "a summary that was cut off replaces a conversation",
        "proxy/routes/responses.py",
        'for part in parts) if self.status == "completed" else ""',
        "for part in parts)",
        "tests/e2e/test_proxy_compaction.py",
    ),
    Mutant(
        "a wrapper in a wrapper is opened",
        "assembly/verdict.py",
        "return draft.relations.wrapper is None and is_wrapper(",
        "return is_wrapper(",
        "tests/assembly/test_assembler_wrappers.py",
    ),
    Mutant(
        "a tool that has the wrapper's name is taken for it",
        "assembly/verdict.py",
        "return offered_name(name, offered) not in offered and offered_name(",
        "return offered_name(",
        "tests/assembly/test_assembler_wrappers.py",
    ),
    Mutant(
        "an element of a wrapper with two names is one of them",
        "assembly/verdict.py",
        "if len(names) != 1 or",
        "if not names or",
        "tests/assembly/test_assembler_wrappers.py",
    ),
    Mutant(
        "what stands beside the arguments in a wrapper is let go",
        "assembly/verdict.py",
        "or others or not isinstance(names[0], str):",
        "or not isinstance(names[0], str):",
        "tests/assembly/test_assembler_wrappers.py",
    ),
    Mutant(
        "an element of a wrapper that is no call is let go in silence",
        "assembly/verdict.py",
        'yield _read_use(element) or ("", element)',
        "yield from filter(None, [_read_use(element)])",
        "tests/assembly/test_assembler_wrappers.py",
    ),
    Mutant(
        "a repair of a wrapper is not told of",
        "assembly/verdict.py",
        "read.repairs if wrapper is None else wrapper.repairs + read.repairs",
        "read.repairs",
        "tests/assembly/test_assembler_wrappers.py",
    ),
    Mutant(
        "a wrapper that is sent again runs again",
        "assembly/assembler.py",
        "uses = () if original else ",
        "uses = ",
        "tests/assembly/test_assembler_wrappers.py",
    ),
    Mutant(
        "the ids of the calls in a wrapper are one",
        "assembly/routing.py",
        'f"{id}_{place}" if id and place > 1 else id',
        "id",
        "tests/assembly/test_assembler_wrappers.py",
    ),
    Mutant(
        "a planned call in a text runs",
        "dialects/rescue.py",
        "                events += self._retract()\n",
        "",
        "tests/dialects/test_parser_context_wrappers.py",
    ),
    Mutant(
        "a planned call of an emulated answer runs",
        "dialects/emulation/emulated_answer.py",
        "                events += self._refuse(PLANNED)\n",
        "                pass\n",
        "tests/dialects/test_parser_context_wrappers.py",
    ),
    Mutant(
        "a call in the text runs beside a native one",
        "dialects/emulation/emulated_answer.py",
        "if self._text_refusal else []",
        "if False else []",
        "tests/dialects/test_parser_context_wrappers.py",
    ),
    Mutant(
        "a quoted call runs in a wrapper",
        "dialects/provenance.py",
        "for each in (call, *_wrapped_in(call))]",
        "for each in (call,)]",
        "tests/dialects/test_parser_context_wrappers.py",
    ),
    Mutant(
        "the word `parallel` in prose is a call",
        "dialects/parser_context.py",
        "and (_WRAPS in name or not self.rescues):",
        "and True:",
        "tests/dialects/test_parser_context_wrappers.py",
    ),
]


def survives(mutant: Mutant, folder: Path) -> bool:
    """Whether the tests pass although the guard is gone."""
    package = folder / "src" / "wholecall"
    shutil.rmtree(package, ignore_errors=True)
    shutil.copytree(ROOT / "src" / "wholecall", package)
    path = package / mutant.file
    source = path.read_text(encoding="utf-8")
    assert source.count(mutant.guard) == 1, f"{mutant.file} no longer says {mutant.guard!r} once"
    path.write_text(source.replace(mutant.guard, mutant.without), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, *mutant.tests.split()],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "CI": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode == 0


def holding(words: Sequence[str]) -> list[Mutant]:
    """Return the mutants whose name, file or tests hold one of these words; all without words."""
    return [
        mutant
        for mutant in MUTANTS
        if not words or any(word in f"{mutant.name} {mutant.file} {mutant.tests}" for word in words)
    ]


def main(words: Sequence[str]) -> int:
    """Try the mutants that hold one of the words; exit with 1 if one survives."""
    mutants = holding(words)
    assert mutants, f"no mutant holds {' or '.join(words)}"
    surviving = 0
    with tempfile.TemporaryDirectory() as folder:
        for mutant in mutants:
            alive = survives(mutant, Path(folder))
            surviving += alive
            print(f"{'SURVIVED' if alive else 'caught':9} {mutant.name}", flush=True)
    print(f"{len(mutants) - surviving} of {len(mutants)} caught")
    return 1 if surviving else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

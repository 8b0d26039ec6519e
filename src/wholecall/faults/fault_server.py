"""The upstream that fails: what a request asks for, what is sent, and a server for tests."""

from __future__ import annotations

import ast
import asyncio
import hashlib
import json
import re
import threading
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import groupby
from typing import Any

from wholecall.errors import UnknownModel, UnreadableRequest
from wholecall.events import JSON
from wholecall.faults import anthropic_wire, openai_wire
from wholecall.faults.anthropic_wire import AnthropicFaultWriter
from wholecall.faults.http_server import Handle, HttpExchange, HttpServer
from wholecall.faults.openai_wire import ChatFaultWriter, ResponsesFaultWriter
from wholecall.faults.scenarios import PREFIX, SCENARIOS, find_scenario
from wholecall.faults.script import (
    CREATED,
    Act,
    Drop,
    FaultWriter,
    Form,
    Hang,
    Pause,
    Reset,
    Say,
    Scenario,
    ScriptAnswer,
    ToolRun,
    calls,
    fold,
    is_same,
)

_FORCES = frozenset({"required", "any", "tool", "function"})
_KEYS = ("authorization", "x-api-key")
"""The headers that tell two runs apart: give each run an API key of its own."""
_FIELDS = ("model", "user", "metadata", "previous_response_id")
_ASSISTANT_ITEMS = frozenset({"function_call", "custom_tool_call", "reasoning"})
_TOOL_ITEM = "additional_tools"
"""An item of the input that holds tools: the newest Codex sends no others."""
_PREVIOUS = "resp_"
_NOT_RUN = re.compile(r"[^\n]{0,200}\bwas not run\b")
"""The beginning of the result of a call that was refused. Further on, it may be data."""
# smolagents forces a call in every turn and takes its answer as the argument of a tool. In its
# history calls and results are text; of a call that it refuses only a note to the model is left.
_ANSWER_TOOL = "final_answer"
_WRITTEN_CALLS = "Calling tools:\n"
_STEP_NOTE = re.compile(r"^(?:Observation:|Now let's retry:)", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioRequest:
    """One request, as far as the script needs to know it."""

    form: Form
    model: str
    turn: int
    offers_tools: bool
    forces_call: bool
    conversation: str
    """Equal for requests with the same history, model, user and API key."""
    body: Mapping[str, Any]
    answers_by_call: bool = False
    """True if the tool `final_answer` is offered."""
    calls: tuple[ToolRun, ...] = ()
    """The calls in the history."""


def read_question(protocol: str, text: bytes, *, headers: Mapping[str, str]) -> ScenarioRequest:
    """Read the body of a request; what is wrong with it is an `UnreadableRequest`."""
    body = _read_body(text)
    model = body.get("model")
    if not isinstance(model, str):
        raise UnreadableRequest("`model` must be the name of a scenario", param="model")
    history = _read_history(protocol, body)
    return ScenarioRequest(
        form=Form(protocol, bool(body.get("stream"))),
        model=model,
        turn=_base_turn(body) + _count_turns(_IS_ASSISTANT[protocol], history),
        offers_tools=_has_tools(body, history) and _read_choice(body) != "none",
        forces_call=_read_choice(body) in _FORCES,
        answers_by_call=_ANSWER_TOOL in json.dumps(body.get("tools")),
        conversation=_identify(body, history, headers=headers),
        body=body,
        calls=tuple(_read_calls(protocol, history)),
    )


def _read_body(text: bytes) -> Mapping[str, Any]:
    try:
        body = json.loads(text)
    except ValueError:
        raise UnreadableRequest("the request is not JSON", param="body") from None
    if not isinstance(body, Mapping):
        raise UnreadableRequest("the request is not a JSON object", param="body")
    return body


def _read_history(protocol: str, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    field = "input" if protocol == "openai-responses" else "messages"
    history = body.get(field)
    if isinstance(history, str) and field == "input":
        return [{"role": "user", "content": history}]
    if not isinstance(history, list) or not all(isinstance(each, Mapping) for each in history):
        raise UnreadableRequest(f"`{field}` must be a list of objects", param=field)
    return history


def _read_choice(body: Mapping[str, Any]) -> str:
    choice = body.get("tool_choice")
    return str(choice.get("type") if isinstance(choice, Mapping) else choice)


# ── Turns ───────────────────────────────────────────────────────────────────────────


def _is_assistant_message(message: Mapping[str, Any]) -> bool:
    return message.get("role") == "assistant"


def _is_assistant_item(item: Mapping[str, Any]) -> bool:
    return item.get("role") == "assistant" or str(item.get("type")) in _ASSISTANT_ITEMS


def _has_tools(body: Mapping[str, Any], history: Iterable[Mapping[str, Any]]) -> bool:
    return bool(body.get("tools")) or any(item.get("type") == _TOOL_ITEM for item in history)


_IS_ASSISTANT: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "openai-chat": _is_assistant_message,
    "openai-responses": _is_assistant_item,
    "anthropic": _is_assistant_message,
}


def _count_turns(
    is_assistant: Callable[[Mapping[str, Any]], bool], history: Iterable[Mapping[str, Any]]
) -> int:
    """Count how often the assistant spoke, or the steps that the user's messages tell of."""
    history = list(history)
    spoken = sum(spoke for spoke, _ in groupby(history, key=is_assistant))
    users = (_read_text(message) for message in history if message.get("role") == "user")
    return max(spoken, sum(len(_STEP_NOTE.findall(text)) for text in users))


def _read_calls(protocol: str, history: list[Mapping[str, Any]]) -> Iterator[ToolRun]:
    """Read the calls that were made. One whose result says that it was not run was not."""
    entries = list(_list_entries(history))
    not_run = {_read_result_id(entry) for entry in entries if _is_refusal(entry)}
    for message in history:
        for call in _FIND_CALLS[protocol](message):
            function = call.get("function", call)
            arguments = function.get("input", function.get("arguments"))
            if call.get("call_id", call.get("id")) not in not_run:
                yield ToolRun(str(function.get("name")), _read_arguments(arguments))


def _list_entries(history: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """List the messages or items, and the blocks in them."""
    for message in history:
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        yield from [message, *(block for block in blocks if isinstance(block, Mapping))]


def _is_refusal(result: Mapping[str, Any]) -> bool:
    """Return True if the result of a call begins by saying that the call was not run."""
    said = result.get("output", result.get("content"))
    texts = said if isinstance(said, list) else [said]
    first = texts[0] if texts else ""
    return (
        _NOT_RUN.match(str(first.get("text") if isinstance(first, Mapping) else first)) is not None
    )


def _read_text(message: Mapping[str, Any]) -> str:
    blocks = (str(block.get("text", "")) for block in _list_entries([message]))
    return "\n".join((str(message.get("content")), *blocks))


def _read_result_id(entry: Mapping[str, Any]) -> Any:
    of_item = entry.get("call_id") if entry.get("type") == "function_call_output" else ""
    return entry.get("tool_call_id") or entry.get("tool_use_id") or of_item or ""


def _read_arguments(arguments: Any) -> Any:
    """Read the text of arguments. What an agent sends back of a broken call may be anything."""
    try:
        return json.loads(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return arguments


def _find_chat_calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls = message.get("tool_calls") or []
    return calls if calls or not _is_assistant_message(message) else _read_written_calls(message)


def _read_written_calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    written = _read_text(message).rpartition(_WRITTEN_CALLS)
    try:
        calls = ast.literal_eval(written[2].strip()) if written[1] else []
    except (ValueError, SyntaxError):
        return []
    return calls if isinstance(calls, list) else []


def _find_items(item: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [item] if item.get("type") == "function_call" else []


def _find_blocks(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if block.get("type") == "tool_use"]


_FIND_CALLS: dict[str, Callable[[Mapping[str, Any]], list[Mapping[str, Any]]]] = {
    "openai-chat": _find_chat_calls,
    "openai-responses": _find_items,
    "anthropic": _find_blocks,
}


def _base_turn(body: Mapping[str, Any]) -> int:
    """Return the turns before `previous_response_id`: our response ids hold their number."""
    previous = body.get("previous_response_id")
    number = previous.removeprefix(_PREVIOUS) if isinstance(previous, str) else ""
    return int(number) + 1 if number.isdecimal() else 0


# ── Conversations ───────────────────────────────────────────────────────────────────


def _identify(
    body: Mapping[str, Any], history: list[Mapping[str, Any]], *, headers: Mapping[str, str]
) -> str:
    keys = [headers.get(name) for name in _KEYS]
    fields = [body.get(name) for name in _FIELDS]
    named = json.dumps([keys, fields, history], sort_keys=True)
    return hashlib.sha256(named.encode()).hexdigest()


# The server's memory: how often the same was asked, and what happened.


_CONVERSATIONS = 4096
"""Histories whose attempts are counted; the least recently used one is forgotten."""
_EVENTS = 2048
"""Requests, and reports of tools, that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedRequest:
    """One request that the server got, and which answer of the script it gave."""

    scenario: str
    form: Form
    turn: int
    attempt: int
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reported:
    """A tool that an agent says it ran."""

    label: str
    """The run of an agent: the label in the address that it reported to."""
    run: ToolRun


@dataclass(slots=True)
class Memory:
    """All of it; `forget` empties it."""

    received: deque[ReceivedRequest] = field(default_factory=lambda: deque(maxlen=_EVENTS))
    reported: deque[Reported] = field(default_factory=lambda: deque(maxlen=_EVENTS))
    _attempts: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def receive(self, question: ScenarioRequest, scenario: str) -> int:
        """Note a request; return how often the same was asked before."""
        attempt = self._count(question.conversation)
        self.note(question, scenario, attempt=attempt)
        return attempt

    def note(self, question: ScenarioRequest, scenario: str, *, attempt: int = 0) -> None:
        """Keep a request; one that is refused is not an attempt."""
        received = ReceivedRequest(
            scenario=scenario,
            form=question.form,
            turn=question.turn,
            attempt=attempt,
            body=question.body,
        )
        self.received.append(received)

    def forget(self) -> None:
        """Begin anew."""
        self.received.clear()
        self.reported.clear()
        self._attempts.clear()

    def _count(self, conversation: str) -> int:
        attempt = self._attempts.pop(conversation, 0)
        self._attempts[conversation] = attempt + 1
        if len(self._attempts) > _CONVERSATIONS:
            self._attempts.popitem(last=False)
        return attempt


# Puts an answer on the wire, faults of the connection included.


_ACTS = (Drop, Hang, Reset)
_STREAM_HEADERS = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}
_JSON_HEADERS = {"content-type": "application/json"}
_PAGE_HEADERS = {"content-type": "text/html; charset=utf-8"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptReply:
    """An answer of the script, and in which form it is wanted."""

    answer: ScriptAnswer
    writer: FaultWriter
    streamed: bool


class AnswerSender:
    """Sends answers; hangs at most so long, and not beyond the server's end."""

    def __init__(self, hang_seconds: float) -> None:
        self._hang_seconds = hang_seconds
        self._closing = asyncio.Event()

    def close(self) -> None:
        """Let go whatever hangs."""
        self._closing.set()

    async def send(self, exchange: HttpExchange, reply: ScriptReply) -> None:
        """Send one answer of the script."""
        if reply.answer.body is not None:
            await exchange.send(reply.answer.body.encode(), headers=_PAGE_HEADERS)
        elif isinstance(reply.answer.steps[0], _ACTS):
            await self._act(reply.answer.steps[0], exchange)
            await exchange.send(b"")
        elif reply.streamed:
            await self._stream(exchange, reply)
        else:
            await self._send_whole(exchange, reply)

    async def _stream(self, exchange: HttpExchange, reply: ScriptReply) -> None:
        answer, writer = reply.answer, reply.writer
        await exchange.begin(_STREAM_HEADERS)
        await exchange.write(writer.open().replace("\n", answer.newline).encode())
        for step in answer.steps:
            if isinstance(step, _ACTS):
                await self._act(step, exchange)
                break
            if isinstance(step, Pause):
                await asyncio.sleep(step.seconds)
                continue
            for piece in _cut(writer.write(step), answer):
                await exchange.write(piece)
        await exchange.finish()

    async def _send_whole(self, exchange: HttpExchange, reply: ScriptReply) -> None:
        steps = reply.answer.steps
        body = json.dumps(reply.writer.encode(fold(steps)), ensure_ascii=False).encode()
        act = next((step for step in steps if isinstance(step, _ACTS)), None)
        half = body[: len(body) // 2]
        if act is None or isinstance(act, Drop):
            await exchange.send(body if act is None else half, headers=_JSON_HEADERS)
            return
        await exchange.begin(_JSON_HEADERS, length=len(body))
        await exchange.write(half)
        await self._act(act, exchange)

    # ── Acts ────────────────────────────────────────────────────────────────────────

    async def _act(self, act: Act, exchange: HttpExchange) -> None:
        await _ACT[type(act)](self, exchange)

    async def _drop(self, _: HttpExchange) -> None:
        """Say nothing more: HTTP ends the answer well."""

    async def _hang(self, exchange: HttpExchange) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), self._hang_seconds)
        exchange.reset()

    async def _reset(self, exchange: HttpExchange) -> None:
        exchange.reset()


def _cut(text: str, answer: ScriptAnswer) -> Iterator[bytes]:
    content = text.replace("\n", answer.newline).encode()
    size = answer.cut or max(1, len(content))
    return (content[begin : begin + size] for begin in range(0, len(content), size))


_ACT: dict[type[Act], Callable[[AnswerSender, HttpExchange], Awaitable[None]]] = {
    Drop: AnswerSender._drop,
    Hang: AnswerSender._hang,
    Reset: AnswerSender._reset,
}


# The writers by protocol.


WRITERS: dict[str, Callable[[str, int], FaultWriter]] = {
    "openai-chat": ChatFaultWriter,
    "openai-responses": ResponsesFaultWriter,
    "anthropic": AnthropicFaultWriter,
}
"""From the model's name and the number of the turn to a writer of one answer."""
REFUSALS: dict[str, Callable[[int, str], dict[str, Any]]] = {
    "openai-chat": openai_wire.refuse,
    "openai-responses": openai_wire.refuse,
    "anthropic": anthropic_wire.refuse,
}
"""From a status and a message to the body of an HTTP error."""


# The upstream that fails: three protocols, and a scenario for each model's name.
#
#     POST /v1/chat/completions, /v1/responses, /v1/messages     the answers
#     GET  /v1/models                                            the scenarios
#     GET  /faults/log        the requests that came, and which answer each of them got
#     POST /faults/ran        an agent says which tool it ran: {"tool": …, "arguments": …}
#     POST /faults/forget     begin anew: no request has come, no attempt has been counted
#
# It remembers only how often it was asked with the same history, model, user and API key: that is
# how the second attempt gets another answer than the first. Who runs a scenario twice gives each
# run an API key of its own.


PATHS = {
    "/v1/chat/completions": "openai-chat",
    "/v1/responses": "openai-responses",
    "/v1/messages": "anthropic",
}
_BAD_REQUEST = 400
_NOT_FOUND = 404
_NOT_ALLOWED = 405
_OK = 200


class ScriptedUpstream:
    """Answers requests as the scenarios say."""

    def __init__(
        self, memory: Memory, sender: AnswerSender, *, scenarios: Mapping[str, Scenario] = SCENARIOS
    ) -> None:
        self._memory = memory
        self._sender = sender
        self._scenarios = scenarios
        self._routes: dict[tuple[str, str], Handle] = {
            ("GET", "/v1/models"): _list_models,
            ("GET", "/faults/log"): self._show_log,
            ("POST", "/faults/ran"): self._take_report,
            ("POST", "/faults/forget"): self._forget,
        }
        for path, protocol in PATHS.items():
            self._routes["POST", path] = partial(self._answer, protocol)

    async def handle(self, exchange: HttpExchange) -> None:
        """Answer a request by its method and path."""
        handle = self._routes.get((exchange.method, exchange.path))
        if handle is not None:
            await handle(exchange)
            return
        allowed = [method for method, path in self._routes if path == exchange.path]
        await exchange.send(
            b"405: Method Not Allowed" if allowed else b"404: Not Found",
            status=_NOT_ALLOWED if allowed else _NOT_FOUND,
            headers={"content-type": "text/plain"} | ({"allow": allowed[0]} if allowed else {}),
        )

    async def _answer(self, protocol: str, exchange: HttpExchange) -> None:
        refuse = partial(_refuse, exchange, protocol=protocol)
        try:
            question = read_question(protocol, exchange.body, headers=exchange.headers)
            scenario = find_scenario(question.model, self._scenarios)
        except UnreadableRequest as error:
            return await refuse(_BAD_REQUEST, message=str(error))
        except UnknownModel as error:
            return await refuse(_NOT_FOUND, message=str(error))
        refusal = _find_refusal(scenario, question)
        if refusal:
            self._memory.note(question, scenario.name)
            return await refuse(_BAD_REQUEST, message=refusal)
        attempt = self._memory.receive(question, scenario.name)
        turn = _find_turn(scenario, question)
        answer = scenario.answer(turn, attempt, offers_tools=question.offers_tools)
        if question.answers_by_call and Say(scenario.text) in answer.steps:
            answer = calls(ToolRun(_ANSWER_TOOL, {"answer": scenario.text}))
        if answer.status != _OK:
            message = answer.body or scenario.sentence
            return await refuse(answer.status, message=message, headers=answer.headers)
        writer = WRITERS[protocol](question.model, question.turn)
        reply = ScriptReply(answer=answer, writer=writer, streamed=question.form.streamed)
        return await self._sender.send(exchange, reply)

    # ── What happened ───────────────────────────────────────────────────────────────

    async def _show_log(self, exchange: HttpExchange) -> None:
        wanted = exchange.query.get("scenario")
        await exchange.send_json(
            [
                _describe(received)
                for received in self._memory.received
                if wanted in (None, received.scenario)
            ]
        )

    async def _take_report(self, exchange: HttpExchange) -> None:
        try:
            report = json.loads(exchange.body)
            run = ToolRun(report["tool"], report["arguments"])
        except (ValueError, TypeError, KeyError):
            message = 'a report is {"tool": "get_weather", "arguments": {"city": "Oslo"}}'
            await exchange.send_json({"error": message}, status=_BAD_REQUEST)
            return
        self._memory.reported.append(Reported(exchange.query.get("run", ""), run))
        await exchange.send_json({"ok": True})

    async def _forget(self, exchange: HttpExchange) -> None:
        self._memory.forget()
        await exchange.send_json({"ok": True})


def _find_turn(scenario: Scenario, question: ScenarioRequest) -> int:
    """Return the turn of the script. Once all calls that may run were made, it is the last."""
    expected = scenario.expect(question.form)
    left = list(question.calls)
    for run in expected.runs:
        allowed = (run, *expected.instead)
        place = next((at for at, made in enumerate(left) if _is_one_of(made, allowed)), None)
        if place is None:
            return question.turn
        del left[place]
    return max(question.turn, len(scenario.turns) - 1) if expected.runs else question.turn


def _is_one_of(made: ToolRun, runs: Iterable[ToolRun]) -> bool:
    return any(is_same(made, run) for run in runs)


def _find_refusal(scenario: Scenario, question: ScenarioRequest) -> str:
    """Return the reason why a request is not served, if there is one."""
    if question.form not in scenario.forms:
        streamed = "streamed" if question.form.streamed else "whole"
        return f"scenario {scenario.name!r} has no {streamed} answer in {question.form.protocol}"
    if scenario.refuses_choice and question.forces_call:
        return "tool_choice: this model does not support forced tool calls, only 'auto' and 'none'"
    return ""


async def _refuse(
    exchange: HttpExchange,
    status: int,
    *,
    protocol: str,
    message: str,
    headers: Mapping[str, str] | None = None,
) -> None:
    body = REFUSALS[protocol](status, message)
    await exchange.send_json(body, status=status, headers=headers)


def _describe(received: ReceivedRequest) -> dict[str, JSON]:
    return {
        "scenario": received.scenario,
        "protocol": received.form.protocol,
        "streamed": received.form.streamed,
        "turn": received.turn,
        "attempt": received.attempt,
        "body": received.body,
    }


async def _list_models(exchange: HttpExchange) -> None:
    models: list[dict[str, Any]] = [
        {"id": PREFIX + name, "object": "model", "created": CREATED, "owned_by": "faults"}
        for name in SCENARIOS
    ]
    await exchange.send_json({"object": "list", "data": models})


# Start the upstream that fails, inside of your own program or test.


_HOST = "127.0.0.1"
_CLOSING_SECONDS = 1.0
"""For answers that are under way when the server ends; what hangs is let go at once."""


class FaultServer:
    """The upstream on loopback: `async with FaultServer() as server: … server.base_url`.

    `hang_seconds` is how long a scenario that hangs does so; then the connection is reset.
    `scenarios` are what it plays, by the name of the model.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        hang_seconds: float = 60.0,
        scenarios: Mapping[str, Scenario] = SCENARIOS,
    ) -> None:
        self._port = port
        self._scenarios = scenarios
        self._hang_seconds = hang_seconds
        self._memory = Memory()
        self._sender: AnswerSender | None = None
        self._server: HttpServer | None = None

    async def __aenter__(self) -> FaultServer:
        self._sender = AnswerSender(self._hang_seconds)
        self._server = HttpServer(
            ScriptedUpstream(self._memory, self._sender, scenarios=self._scenarios).handle
        )
        self._port = await self._server.start(_HOST, self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sender is not None and self._server is not None:
            self._sender.close()
            await self._server.close(_CLOSING_SECONDS)

    @property
    def address(self) -> str:
        """The listening address: the base URL for Anthropic's clients."""
        return f"http://{_HOST}:{self._port}"

    @property
    def base_url(self) -> str:
        """The base URL for OpenAI's clients."""
        return f"{self.address}/v1"

    @property
    def received(self) -> tuple[ReceivedRequest, ...]:
        """The requests that came, oldest first."""
        return tuple(self._memory.received)

    @property
    def reported(self) -> tuple[Reported, ...]:
        """The tools that agents say they ran, oldest first."""
        return tuple(self._memory.reported)

    def forget(self) -> None:
        """Begin anew: no request has come, no attempt has been counted."""
        self._memory.forget()


@contextmanager
def start_in_thread(
    *, port: int = 0, hang_seconds: float = 60.0, scenarios: Mapping[str, Scenario] = SCENARIOS
) -> Iterator[FaultServer]:
    """The same for programs that are not asynchronous: the server has a thread of its own."""
    server = FaultServer(port=port, hang_seconds=hang_seconds, scenarios=scenarios)
    with _loop_in_thread() as loop:
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result()
        try:
            yield server
        finally:
            asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result()


@contextmanager
def _loop_in_thread() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="wholecall-faults", daemon=True)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()

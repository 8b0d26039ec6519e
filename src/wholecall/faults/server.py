"""The upstream that fails: three protocols, and a scenario for each model's name.

    POST /v1/chat/completions, /v1/responses, /v1/messages     the answers
    GET  /v1/models                                            the scenarios
    GET  /faults/log        the requests that came, and which answer each of them got
    POST /faults/ran        an agent says which tool it ran: {"tool": …, "arguments": …}
    POST /faults/forget     begin anew: no request has come, no attempt has been counted

It remembers only how often it was asked with the same history, model, user and API key: that
is how the second attempt gets another answer than the first. Who runs a scenario twice gives
each run an API key of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from wholecall.core.values import JSON
from wholecall.errors import UnknownModel, UnreadableRequest
from wholecall.faults.http_server import Handle, HttpExchange
from wholecall.faults.judging import is_same
from wholecall.faults.memory import Memory, Received, Reported
from wholecall.faults.question import Question, read_question
from wholecall.faults.scenarios import PREFIX, SCENARIOS, find_scenario
from wholecall.faults.script import Scenario, ToolRun
from wholecall.faults.sending import AnswerSender, Reply
from wholecall.faults.wire.registry import REFUSALS, WRITERS
from wholecall.faults.wire.writer import CREATED

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

    def __init__(self, memory: Memory, sender: AnswerSender) -> None:
        self._memory = memory
        self._sender = sender
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
            scenario = find_scenario(question.model)
        except UnreadableRequest as error:
            return await refuse(_BAD_REQUEST, message=str(error))
        except UnknownModel as error:
            return await refuse(_NOT_FOUND, message=str(error))
        refusal = _find_refusal(scenario, question)
        if refusal:
            return await refuse(_BAD_REQUEST, message=refusal)
        attempt = self._memory.receive(question, scenario.name)
        turn = _find_turn(scenario, question)
        answer = scenario.answer(turn, attempt, offers_tools=question.offers_tools)
        if answer.status != _OK:
            return await refuse(answer.status, message=scenario.sentence, headers=answer.headers)
        writer = WRITERS[protocol](question.model, question.turn)
        reply = Reply(answer=answer, writer=writer, streamed=question.form.streamed)
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


def _find_turn(scenario: Scenario, question: Question) -> int:
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


def _find_refusal(scenario: Scenario, question: Question) -> str:
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


def _describe(received: Received) -> dict[str, JSON]:
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

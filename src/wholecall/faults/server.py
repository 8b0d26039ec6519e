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

from collections.abc import Mapping
from functools import partial
from typing import Any

from aiohttp import web

from wholecall.core.values import JSON
from wholecall.errors import UnknownModel, UnreadableRequest
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
_LARGEST_REQUEST = 64 * 1024 * 1024
_BAD_REQUEST = 400
_NOT_FOUND = 404
_OK = 200


class ScriptedUpstream:
    """Answers requests as the scenarios say."""

    def __init__(self, memory: Memory, sender: AnswerSender) -> None:
        self._memory = memory
        self._sender = sender

    def make_app(self) -> web.Application:
        """The routes."""
        app = web.Application(client_max_size=_LARGEST_REQUEST)
        for path, protocol in PATHS.items():
            app.router.add_post(path, partial(self._answer, protocol))
        app.router.add_get("/v1/models", _list_models)
        app.router.add_get("/faults/log", self._show_log)
        app.router.add_post("/faults/ran", self._take_report)
        app.router.add_post("/faults/forget", self._forget)
        return app

    async def _answer(self, protocol: str, request: web.Request) -> web.StreamResponse:
        refuse = partial(_refuse, protocol)
        try:
            question = read_question(protocol, await request.read(), headers=request.headers)
            scenario = find_scenario(question.model)
        except UnreadableRequest as error:
            return refuse(_BAD_REQUEST, message=str(error))
        except UnknownModel as error:
            return refuse(_NOT_FOUND, message=str(error))
        refusal = _find_refusal(scenario, question)
        if refusal:
            return refuse(_BAD_REQUEST, message=refusal)
        attempt = self._memory.receive(question, scenario.name)
        answer = scenario.answer(question.turn, attempt, offers_tools=question.offers_tools)
        if answer.status != _OK:
            return refuse(answer.status, message=scenario.sentence, headers=answer.headers)
        writer = WRITERS[protocol](question.model, question.turn)
        reply = Reply(answer=answer, writer=writer, streamed=question.form.streamed)
        return await self._sender.send(request, reply)

    # ── What happened ───────────────────────────────────────────────────────────────

    async def _show_log(self, request: web.Request) -> web.Response:
        wanted = request.query.get("scenario")
        return web.json_response(
            [
                _describe(received)
                for received in self._memory.received
                if wanted in (None, received.scenario)
            ]
        )

    async def _take_report(self, request: web.Request) -> web.Response:
        try:
            report = await request.json()
            run = ToolRun(report["tool"], report["arguments"])
        except (ValueError, TypeError, KeyError):
            message = 'a report is {"tool": "get_weather", "arguments": {"city": "Oslo"}}'
            return web.json_response({"error": message}, status=_BAD_REQUEST)
        self._memory.reported.append(Reported(request.query.get("run", ""), run))
        return web.json_response({"ok": True})

    async def _forget(self, _: web.Request) -> web.Response:
        self._memory.forget()
        return web.json_response({"ok": True})


def _find_refusal(scenario: Scenario, question: Question) -> str:
    """Why a request is not served, if it is not."""
    if question.form not in scenario.forms:
        streamed = "streamed" if question.form.streamed else "whole"
        return f"scenario {scenario.name!r} has no {streamed} answer in {question.form.protocol}"
    if scenario.refuses_choice and question.forces_call:
        return "tool_choice: this model does not support forced tool calls, only 'auto' and 'none'"
    return ""


def _refuse(
    protocol: str, status: int, *, message: str, headers: Mapping[str, str] | None = None
) -> web.Response:
    return web.json_response(REFUSALS[protocol](status, message), status=status, headers=headers)


def _describe(received: Received) -> dict[str, JSON]:
    return {
        "scenario": received.scenario,
        "protocol": received.form.protocol,
        "streamed": received.form.streamed,
        "turn": received.turn,
        "attempt": received.attempt,
        "body": received.body,
    }


async def _list_models(_: web.Request) -> web.Response:
    models: list[dict[str, Any]] = [
        {"id": PREFIX + name, "object": "model", "created": CREATED, "owned_by": "faults"}
        for name in SCENARIOS
    ]
    return web.json_response({"object": "list", "data": models})

"""The upstream over a real socket: every scenario, in every form that it has."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import aiohttp
import anthropic
import openai
import pytest
from _pytest.mark.structures import ParameterSet

from wholecall import Outcome, assemble, assemble_response
from wholecall.faults.fault_server import PATHS, FaultServer, start_in_thread
from wholecall.faults.scenarios import SCENARIOS
from wholecall.faults.script import FINAL_TEXT, PROTOCOLS, TOOLS, Form, ToolRun, definitions
from wholecall.messages import ToolSpec

PATH_OF = {protocol: path for path, protocol in PATHS.items()}
BROKEN = (aiohttp.ClientError, ConnectionError)


def cells(names: Iterable[str]) -> list[ParameterSet]:
    return [
        pytest.param(name, form, id=f"{name} {form.protocol} {form.streamed}")
        for name in names
        for form in sorted(SCENARIOS[name].forms)
    ]


CELLS = cells(SCENARIOS)
ENDING_CELLS = cells(
    name
    for name, scenario in SCENARIOS.items()
    if scenario.final_text is not None and scenario.closing is None
)


class Fetched(NamedTuple):
    """What came of an answer until it was over, in whatever way."""

    status: int | None
    body: bytes
    broken: bool
    headers: dict[str, str]


@pytest.fixture(scope="module")
def server() -> Iterator[FaultServer]:
    with start_in_thread(hang_seconds=0.05) as running:
        yield running


def make_body(model: str, form: Form, **fields: object) -> dict[str, Any]:
    history = [{"role": "user", "content": "Do it."}]
    field = "input" if form.protocol == "openai-responses" else "messages"
    tools = definitions(form.protocol)
    return {"model": model, field: history, "stream": form.streamed, "tools": tools, **fields}


async def fetch(server: FaultServer, path: str, *, body: object, key: str = "") -> Fetched:
    status, came, headers = None, bytearray(), {}
    timeout = aiohttp.ClientTimeout(total=30)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.post(
                server.address + path, json=body, headers={"authorization": key}
            ) as response,
        ):
            status, headers = (
                response.status,
                {name.lower(): value for name, value in response.headers.items()},
            )
            async for piece in response.content.iter_any():
                came += piece
    except BROKEN:
        return Fetched(status, bytes(came), True, headers)
    return Fetched(status, bytes(came), False, headers)


CALL_IN_ERROR = b"</tool_call>"


def ask(server: FaultServer, model: str, *, form: Form, key: str, **fields: object) -> Fetched:
    body = make_body(model, form, **fields)
    return asyncio.run(fetch(server, PATH_OF[form.protocol], body=body, key=key))


def read(form: Form, fetched: Fetched, *, tools: tuple[ToolSpec, ...] = TOOLS) -> Outcome:
    if form.streamed:
        return assemble(form.protocol, [fetched.body], tools=tools)
    return assemble_response(form.protocol, fetched.body, tools=tools)


def calls_of(outcome: Outcome) -> tuple[ToolRun, ...]:
    return tuple(ToolRun(call.name, call.arguments) for call in outcome.calls)


@pytest.mark.parametrize(("name", "form"), CELLS)
def test_of_the_first_answer_exactly_what_is_expected_may_run(
    *, server: FaultServer, name: str, form: Form
) -> None:
    scenario = SCENARIOS[name]
    fetched = ask(server, f"faults/{name}", form=form, key=f"{name}{form}")
    if fetched.status == 200:
        assert calls_of(read(form, fetched)) == scenario.first_runs(form)
    else:
        quoted = CALL_IN_ERROR in fetched.body
        assert scenario.first_runs(form) == (scenario.expect(form).runs if quoted else ())
        assert fetched.status in (None, scenario.turns[0][0].status)


@pytest.mark.parametrize(("name", "form"), ENDING_CELLS)
def test_the_last_answer_of_the_script_is_final(
    *, server: FaultServer, name: str, form: Form
) -> None:
    """It is what a run comes to: text that ends well, and no call."""
    scenario = SCENARIOS[name]
    said = {"role": "assistant", "content": "."}
    history = [{"role": "user", "content": "?"}, *([said, {"role": "user", "content": "?"}] * 8)]
    field = "input" if form.protocol == "openai-responses" else "messages"
    key = f"last {name}{form}"
    fetched = [
        ask(server, name, form=form, key=key, **{field: history}) for _ in scenario.turns[-1]
    ]
    outcome = read(form, fetched[-1])
    assert (outcome.text, outcome.calls, outcome.error) == (scenario.final_text, (), None)


FORMS = [Form(protocol, streamed) for protocol in PROTOCOLS for streamed in (True, False)]


@pytest.mark.parametrize("form", FORMS)
def test_the_second_attempt_gets_another_answer(server: FaultServer, form: Form) -> None:
    asked = [ask(server, "server-error", form=form, key=f"second {form}") for _ in range(3)]
    assert [fetched.status for fetched in asked] == [500, 200, 200]
    other = ask(server, "server-error", form=form, key=f"another {form}")
    assert other.status == 500


MADE: dict[str, Any] = {"name": "send_email", "id": "c", "call_id": "c"}


@pytest.mark.parametrize(
    ("body", "text"), [("Dinner is at eight.", FINAL_TEXT), ("Dinner is at ten.", "")]
)
def test_whoever_made_the_right_calls_hears_the_answer(
    server: FaultServer, body: str, *, text: str
) -> None:
    """A gateway asked for the call again, and its client saw one answer instead of two."""
    function = {**MADE, "arguments": json.dumps({"to": "ada@example.org", "body": body})}
    history = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": function}]},
        {"role": "tool", "tool_call_id": "c", "content": "done"},
    ]
    form = Form("openai-chat", True)
    fetched = ask(server, "missing-parameter", form=form, key=f"made {body}", messages=history)
    assert read(form, fetched).text == text


@pytest.mark.parametrize("form", FORMS)
def test_an_agent_with_a_tool_for_its_answer_gets_the_answer_by_it(
    server: FaultServer, form: Form
) -> None:
    offered = [{"name": "final_answer", "function": {"name": "final_answer"}}]
    asked = ask(server, "answer-only", form=form, key="", tools=offered)
    tools = (ToolSpec("final_answer", {"type": "object"}),)
    outcome = read(form, asked, tools=tools)
    assert calls_of(outcome) == (ToolRun("final_answer", {"answer": FINAL_TEXT}),)


@pytest.mark.parametrize("form", FORMS)
def test_without_tools_an_endless_model_comes_to_an_end(server: FaultServer, form: Form) -> None:
    asked = ask(server, "identical-calls", form=form, key="", tools=[])
    outcome = read(form, asked)
    assert (outcome.text, outcome.calls) == (FINAL_TEXT, ())


@pytest.mark.parametrize("form", FORMS)
def test_a_forced_choice_is_refused(server: FaultServer, form: Form) -> None:
    choice = {"type": "any"} if form.protocol == "anthropic" else "required"
    refused = ask(server, "forced-choice-refused", form=form, key="", tool_choice=choice)
    assert refused.status == 400
    assert "tool_choice" in json.loads(refused.body)["error"]["message"]


@pytest.mark.parametrize("form", FORMS)
def test_an_unknown_model_is_refused_in_the_protocols_form(server: FaultServer, form: Form) -> None:
    refused = ask(server, "gpt-5", form=form, key="")
    body = json.loads(refused.body)
    assert refused.status == 404
    assert "'gpt-5' is not a scenario" in body["error"]["message"]
    assert ("request_id" in body) == (form.protocol == "anthropic")


def test_a_scenario_is_refused_in_a_form_that_it_has_not(server: FaultServer) -> None:
    refused = ask(server, "crlf", form=Form("anthropic", False), key="")
    assert refused.status == 400
    message = json.loads(refused.body)["error"]["message"]
    assert message == "scenario 'crlf' has no whole answer in anthropic"
    streamed = ask(server, "name-split", form=Form("anthropic", True), key="")
    assert b"has no streamed answer" in streamed.body


def test_an_unreadable_request_is_refused(server: FaultServer) -> None:
    refused = asyncio.run(fetch(server, "/v1/messages", body=[]))
    assert (refused.status, json.loads(refused.body)["type"]) == (400, "error")


@pytest.mark.parametrize(
    ("name", "retry_after"), [("rate-limited", "1"), ("rate-limited-for-an-hour", "3600")]
)
def test_a_refusal_says_when_to_come_again(
    *, server: FaultServer, name: str, retry_after: str
) -> None:
    refused = ask(server, name, form=FORMS[0], key=f"retry {name}")
    assert (refused.status, refused.headers["retry-after"]) == (429, retry_after)


@pytest.mark.parametrize(
    "name", ["reset-before-headers", "reset-in-call", "hang-before-headers", "hang-in-call"]
)
@pytest.mark.parametrize("form", FORMS)
def test_a_broken_connection_breaks(*, server: FaultServer, name: str, form: Form) -> None:
    fetched = ask(server, name, form=form, key=f"broken {name}{form}")
    assert fetched.broken
    assert (fetched.status is None) == name.endswith("before-headers")


@pytest.mark.parametrize("form", FORMS)
def test_a_dropped_answer_looks_complete_to_http(server: FaultServer, form: Form) -> None:
    fetched = ask(server, "dropped-always", form=form, key="")
    assert (fetched.status, fetched.broken) == (200, False)
    assert read(form, fetched).error is not None


def test_lines_end_as_the_scenario_says(server: FaultServer) -> None:
    fetched = ask(server, "crlf", form=FORMS[0], key="crlf")
    assert fetched.body.count(b"\n") == fetched.body.count(b"\r\n") > 0


# ── What happened ───────────────────────────────────────────────────────────────────


async def exchange(server: FaultServer) -> dict[str, Any]:
    """Ask something, report something, and look at the log before and after forgetting."""
    form = Form("openai-chat", True)
    async with aiohttp.ClientSession(server.address) as session:
        for model in ("good", "good", "answer-only"):
            body = make_body(model, form)
            async with session.post("/v1/chat/completions", json=body) as answer:
                await answer.read()
        async with session.get("/faults/log", params={"scenario": "good"}) as answer:
            of_good = await answer.json()
        async with session.get("/faults/log") as answer:
            log = await answer.json()
        ran = {"tool": "list_items", "arguments": {}}
        async with session.post("/faults/ran", params={"run": "a"}, json=ran) as answer:
            accepted = answer.status
        wrong: list[int] = []
        reports: list[Any] = [[], {"tool": "x"}]
        for report in reports:
            async with session.post("/faults/ran", json=report) as answer:
                wrong.append(answer.status)
        async with session.get("/v1/models") as answer:
            models = await answer.json()
        reported = server.reported
        async with session.post("/faults/forget") as answer:
            await answer.read()
    return {
        "of_good": of_good,
        "log": log,
        "accepted": accepted,
        "wrong": wrong,
        "models": [model["id"] for model in models["data"]],
        "reported": reported,
        "after": (server.received, server.reported),
    }


def test_what_happened_is_told() -> None:
    told = asyncio.run(_exchange_with_own_server())
    assert [(each["turn"], each["attempt"]) for each in told["of_good"]] == [(0, 0), (0, 1)]
    assert [each["scenario"] for each in told["log"]] == ["good", "good", "answer-only"]
    first = told["log"][0]
    assert (first["protocol"], first["streamed"]) == ("openai-chat", True)
    assert first["body"]["messages"] == [{"role": "user", "content": "Do it."}]
    assert told["accepted"] == 200
    assert told["wrong"] == [400, 400]
    assert told["models"] == [f"faults/{name}" for name in SCENARIOS]
    [report] = told["reported"]
    assert (report.label, report.run) == ("a", ToolRun("list_items", {}))
    assert told["after"] == ((), ())


async def _exchange_with_own_server() -> dict[str, Any]:
    async with FaultServer() as own:
        return await exchange(own)


# ── The official clients ────────────────────────────────────────────────────────────

SOUND = ["good", "parallel-calls", "reasoning-and-call", "huge-arguments"]
ASKED: list[Any] = [{"role": "user", "content": "Do it."}]


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("streamed", [True, False])
def test_openais_client_reads_chat_completions(
    *, server: FaultServer, name: str, streamed: bool
) -> None:
    tools: Any = definitions("openai-chat")
    with openai.OpenAI(base_url=server.base_url, api_key="k", max_retries=0) as client:
        if streamed:
            with client.chat.completions.stream(model=name, messages=ASKED, tools=tools) as stream:
                completion: Any = stream.get_final_completion()
        else:
            completion = client.chat.completions.create(model=name, messages=ASKED, tools=tools)
    calls = [call.function for call in completion.choices[0].message.tool_calls]
    ran = tuple(ToolRun(call.name, json.loads(call.arguments)) for call in calls)
    assert ran == SCENARIOS[name].expected_runs


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("streamed", [True, False])
def test_openais_client_reads_responses(*, server: FaultServer, name: str, streamed: bool) -> None:
    tools: Any = definitions("openai-responses")
    with openai.OpenAI(base_url=server.base_url, api_key="k", max_retries=0) as client:
        if streamed:
            with client.responses.stream(model=name, input="Do it.", tools=tools) as stream:
                stream.until_done()
                response: Any = stream.get_final_response()
        else:
            response = client.responses.create(model=name, input="Do it.", tools=tools)
    calls = [item for item in response.output if item.type == "function_call"]
    ran = tuple(ToolRun(call.name, json.loads(call.arguments)) for call in calls)
    assert ran == SCENARIOS[name].expected_runs


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("streamed", [True, False])
def test_anthropics_client_reads_messages(
    *, server: FaultServer, name: str, streamed: bool
) -> None:
    fields: Any = {
        "model": name,
        "max_tokens": 9,
        "messages": ASKED,
        "tools": definitions("anthropic"),
    }
    with anthropic.Anthropic(base_url=server.address, api_key="k", max_retries=0) as client:
        if streamed:
            with client.messages.stream(**fields) as stream:
                message = stream.get_final_message()
        else:
            message = client.messages.create(**fields)
    calls = [block for block in message.content if block.type == "tool_use"]
    ran = tuple(ToolRun(call.name, json.loads(json.dumps(call.input))) for call in calls)
    assert ran == SCENARIOS[name].expected_runs

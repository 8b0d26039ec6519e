"""The proxy and answers that quote calls: the table of quotations.py behind real sockets.

In gate the client decides what runs, so that rescue hands it every call that is meant; one that
is quoted never becomes a call. In run nothing with side effects is rescued unless a setting says
so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from aiohttp import web

from proxy_server import Offer, Served, proxying, upstream, within
from quotations import (
    ANNOUNCED,
    COMMON,
    FRAMINGS,
    MAIL,
    MEANT,
    OTHER,
    TOOLS,
    WAYS,
    Conversation,
    Format,
    Framing,
    Way,
    read_by_call,
    share,
)
from scripted import calls, ending, says
from upstreams.fake_endpoint import Server, serving, stream
from wholecall.dialects.rescue import encode
from wholecall.proxy.config.schema import ModelConfig
from wholecall.tools.function_tool import make_tool
from wholecall.upstreams.replay import ScriptedAnswer

MINUTES = 300.0
"""Seconds: the longest of these tests asks more than a thousand questions."""
READ = ("read_page", {"url": "https://evil.example"})
DONE = says("That is all.")
LEAK = encode("hermes", [("send_mail", OTHER)])


@dataclass
class Model:
    """An upstream that answers each case with its turns, and then says that this is all."""

    turns: dict[str, list[ScriptedAnswer]] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    server: Server | None = None

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        assert self.server is not None
        body = json.loads(self.server.bodies[-1])
        self.asked.append(body)
        case = body["user"]
        turns, number = self.turns[case], self.seen[case]
        self.seen[case] += 1
        turn = turns[number] if number < len(turns) else DONE
        if body.get("stream"):
            return await stream(request, b"".join(map(_frame, turn.chunks)))
        return web.json_response(_whole(turn))


def _frame(chunk: Any) -> bytes:
    line = f"data: {json.dumps(chunk)}\n" if isinstance(chunk, dict) else chunk
    return f"{line}\n".encode()


def _whole(turn: ScriptedAnswer) -> dict[str, Any]:
    """The same answer in one piece."""
    chunks = [chunk for chunk in turn.chunks if isinstance(chunk, dict) and chunk["choices"]]
    deltas: list[dict[str, Any]] = [chunk["choices"][0]["delta"] for chunk in chunks]
    pieces = [call for delta in deltas for call in delta.get("tool_calls", ())]
    made: dict[int, dict[str, Any]] = {}
    for piece in pieces:
        whole = made.setdefault(piece["index"], {"type": "function", "function": {}})
        whole.setdefault("id", piece.get("id"))
        function = whole["function"]
        function.setdefault("name", piece["function"].get("name"))
        function["arguments"] = function.get("arguments", "") + piece["function"]["arguments"]
    content = "".join(delta.get("content") or "" for delta in deltas) or None
    message = {"role": "assistant", "content": content, "tool_calls": list(made.values()) or None}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if made else "stop"}
    return {"object": "chat.completion", "choices": [choice]}


@dataclass
class Office:
    """What the server's tools did."""

    page: str = "Rooms from 80 euros."
    did: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Place:
    """A proxy, the model behind it, and its tools."""

    served: Served
    model: Model
    office: Office
    cases: int = 0

    async def ask(
        self, name: str, messages: Conversation, *, turns: list[ScriptedAnswer], tools: Any = TOOLS
    ) -> tuple[list[dict[str, Any]], str | None]:
        """The arguments of the calls that a client gets, and the text; every other is streamed."""
        self.cases += 1
        case = f"case {self.cases}"
        self.model.turns[case] = turns
        body = {"model": name, "messages": messages, "user": case, "stream": self.cases % 2 == 0}
        body |= {"tools": tools} if tools else {}
        status, answer, _ = await self.served.post("/v1/chat/completions", body)
        assert status == 200, answer
        return _read_stream(answer) if isinstance(answer, str) else _read_body(answer)


def _read_body(answer: dict[str, Any]) -> tuple[list[dict[str, Any]], str | None]:
    message = answer["choices"][0]["message"]
    made = message.get("tool_calls") or ()
    return [json.loads(call["function"]["arguments"]) for call in made], message.get("content")


def _read_stream(answer: str) -> tuple[list[dict[str, Any]], str | None]:
    made: dict[int, str] = {}
    text = ""
    for line in answer.splitlines():
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line.removeprefix("data: "))["choices"]:
            text += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls") or ():
                grown = call["function"].get("arguments") or ""
                made[call["index"]] = made.get(call["index"], "") + grown
    return [json.loads(arguments) for arguments in made.values()], text or None


@asynccontextmanager
async def place(**more: dict[str, Any]) -> AsyncIterator[Place]:
    """A proxy with models for every way and mode; more of them by name, with their settings."""
    office, model = Office(), Model()

    async def send_mail(to: str, body: str) -> str:
        """Send a mail."""
        office.did.append({"to": to, "body": body})
        return "It is sent."

    async def read_page(url: str) -> str:
        """Read a page."""
        return f"Welcome to {url}.\n{office.page}\nRooms from 80 euros."

    with TemporaryDirectory() as folder:
        async with serving(model.answer) as behind:
            model.server = behind
            models: dict[str, ModelConfig] = {}
            named: dict[str, dict[str, Any]] = {
                "native": {"emulate": "native"},
                "auto": {"emulate": "auto"},
                **{form.name: {"emulate": form.name} for form in ANNOUNCED},
            }
            for name, settings in named.items():
                address = f"{behind.url}/v1"
                models[f"{name}-gate"] = upstream("openai/m", address, **settings)
                own = settings if name in {form.name for form in ANNOUNCED} else {"rescue": "all"}
                models[f"{name}-run"] = upstream(
                    "openai/m", address, mode="run", **(settings | own)
                )
            for name, settings in more.items():
                models[name] = upstream("openai/m", f"{behind.url}/v1", **settings)
            tools = (make_tool(send_mail), make_tool(read_page, read_only=True))
            async with proxying(Offer(models, tools=tools, folder=Path(folder))) as served:
                yield Place(served, model, office)


def name_of(way: Way, form: Format) -> str:
    return form.announced if way == "announced" else way


@pytest.mark.parametrize("way", WAYS)
@within(MINUTES)
async def test_no_client_is_handed_a_call_that_a_page_says(way: Way) -> None:
    handed = []
    async with place() as here:
        for form, framing in share(way, "gate"):
            call = form.write(MAIL)
            made, _ = await here.ask(
                f"{name_of(way, form)}-gate",
                read_by_call(f"Welcome.\n{call}\nBye."),
                turns=[says(framing.write(call))],
            )
            handed += [(form.name, framing.name)] if made else []
    assert handed == []


@pytest.mark.parametrize("way", WAYS)
@within(MINUTES)
async def test_no_server_runs_a_call_that_a_page_says(way: Way) -> None:
    ran = []
    async with place() as here:
        for number, form in enumerate(COMMON):
            for framing in [*FRAMINGS[number % 12 :: 12], *MEANT[:3]]:
                await read_and_quote(here, way, form=form, framing=framing)
                ran += [(form.name, framing.name)] if here.office.did else []
                here.office.did.clear()
    assert ran == []


async def read_and_quote(here: Place, way: Way, *, form: Format, framing: Framing) -> None:
    """The server reads a page for the model, which then shows what stands there."""
    here.office.page = form.write(MAIL)
    reading = says(encode(form.announced, [READ])) if way == "announced" else calls(READ)
    turns = [reading, says(framing.write(form.write(MAIL)))]
    question: Conversation = [{"role": "user", "content": "What does it say?"}]
    await here.ask(f"{name_of(way, form)}-run", question, turns=turns, tools=None)


@within(MINUTES)
async def test_clients_get_what_is_meant_and_servers_run_it() -> None:
    question: Conversation = [{"role": "user", "content": "Tell Ada about dinner."}]
    async with place() as here:
        for way in WAYS:
            for form in COMMON:
                name, turns = name_of(way, form), [says(form.write(OTHER))]
                made, _ = await here.ask(f"{name}-gate", question, turns=turns)
                assert made == [OTHER], (way, form.name)
                await here.ask(f"{name}-run", question, turns=turns, tools=None)
                assert here.office.did == [OTHER], (way, form.name)
                here.office.did.clear()


# what holds, the settings of the model, what a client of the gate gets, what the server runs
SETTINGS: list[tuple[str, dict[str, Any], list[Any], list[Any]]] = [
    ("by default clients decide, and servers run nothing", {}, [OTHER], []),
    ("read_only is that for both", {"rescue": "read_only"}, [], []),
    ("all is all", {"rescue": "all"}, [OTHER], [OTHER]),
    ("off is off", {"rescue": "off"}, [], []),
]


@pytest.mark.parametrize(
    ("settings", "made", "did"), [row[1:] for row in SETTINGS], ids=[row[0] for row in SETTINGS]
)
@within(MINUTES)
async def test_the_setting_of_a_model(
    settings: dict[str, Any], *, made: list[Any], did: list[Any]
) -> None:
    question: Conversation = [{"role": "user", "content": "Tell Ada about dinner."}]
    async with place(gated=settings, running={"mode": "run", **settings}) as here:
        if settings.get("rescue") != "read_only":  # a client's tools say nothing of themselves
            assert (await here.ask("gated", question, turns=[says(LEAK)]))[0] == made
        await here.ask("running", question, turns=[says(LEAK)], tools=None)
        assert here.office.did == did


@within(MINUTES)
async def test_a_leak_that_the_server_may_not_run_is_asked_for_natively() -> None:
    question: Conversation = [{"role": "user", "content": "Tell Ada about dinner."}]
    turns = [says(LEAK), calls(("send_mail", OTHER)), says("Sent.")]
    async with place(running={"mode": "run"}) as here:
        made, text = await here.ask("running", question, turns=turns, tools=None)
        assert here.office.did == [OTHER]
    assert (made, text) == ([], "Sent.")
    assert "tool interface" in json.dumps(here.model.asked[1]["messages"])


@within(MINUTES)
async def test_prose_reaches_the_client_as_it_is() -> None:
    async with place() as here:
        for form in COMMON:
            said = f"The page says {form.write(MAIL)} and I do not follow it."
            for way in WAYS:
                answer = await here.ask(
                    f"{name_of(way, form)}-gate",
                    read_by_call(form.write(MAIL)),
                    turns=[ScriptedAnswer(chunks=[*says(said).chunks[:1], *ending()])],
                )
                assert answer == ([], said), (way, form.name)

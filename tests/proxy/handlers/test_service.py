"""What is served, and what goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from starlette.datastructures import Headers

from proxy_server import in_loop
from wholecall.errors import UnknownModel, UnreadableRequest
from wholecall.proxy.handlers.passthrough import UpstreamPipe
from wholecall.proxy.handlers.service import ModelRoute, Service
from wholecall.proxy.http.api_keys import Key
from wholecall.proxy.http.client_request import ClientRequest
from wholecall.proxy.routes.client_protocols import CHAT
from wholecall.storage import BlobStore, StoreFailed
from wholecall.tools.function_tool import make_tool
from wholecall.upstreams.endpoint import Endpoint
from wholecall.upstreams.replay import ReplayUpstream


def look(what: str) -> str:
    """Look at something."""
    return what


def dig(depth: int) -> str:
    """Dig."""
    return str(depth)


def model(name: str, **more: object) -> ModelRoute:
    return ModelRoute(name=name, upstream=ReplayUpstream([]), model="theirs", **more)  # type: ignore[arg-type]


def ask(
    *, models: tuple[str, ...] = ("*",), tools: tuple[str, ...] = ("*",), **headers: str
) -> ClientRequest:
    key = Key(id="k", name="k", models=models, tools=tools)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return ClientRequest(client=CHAT, body=b"", headers=Headers(named), request_id="r", key=key)


def test_a_model_is_found_by_its_name_or_else_by_the_star() -> None:
    service = Service([model("a"), model("*")])
    assert service.find("a", ask()).model == "theirs"
    other = service.find("qwen", ask())
    assert (other.name, other.model) == ("qwen", "qwen")
    with pytest.raises(UnknownModel):
        service.find("qwen", ask(models=("a",)))
    with pytest.raises(UnknownModel):
        Service([model("a")]).find("b", ask())


def test_tools_are_offered_if_model_and_key_allow_them() -> None:
    service = Service(tools=lambda: [make_tool(look), make_tool(dig)])
    assert [t.name for t in service.tools_for(ask(), model("a"))] == ["look", "dig"]
    assert [t.name for t in service.tools_for(ask(tools=("d*",)), model("a"))] == ["dig"]
    assert [t.name for t in service.tools_for(ask(), model("a", tools=("look",)))] == ["look"]
    assert len(Service().tools_for(ask(), model("a"))) == 0


@pytest.mark.parametrize(
    ("wanted", "names"), [("dig", ["dig"]), (" dig , look,dig", ["dig", "look"]), ("", [])]
)
def test_a_client_may_want_some_of_the_tools(wanted: str, names: list[str]) -> None:
    service = Service(tools=lambda: [make_tool(look), make_tool(dig)])
    tools = service.tools_for(ask(x_wholecall_tools=wanted), model("a"))
    assert [tool.name for tool in tools] == names


def test_a_client_cannot_want_what_is_not_offered_to_it() -> None:
    service = Service(tools=lambda: [make_tool(look), make_tool(dig)])
    for asked in (ask(x_wholecall_tools="fly"), ask(tools=("d*",), x_wholecall_tools="look")):
        with pytest.raises(UnreadableRequest, match="is not offered"):
            service.tools_for(asked, model("a"))


@in_loop
async def test_models_can_be_changed_and_closed() -> None:
    pipe = UpstreamPipe(Endpoint("openai-chat", "http://127.0.0.1:9"))
    service = Service([model("a", pipe=pipe)])
    [before] = service.serve([model("b")])
    assert (before.name, list(service.models)) == ("a", ["b"])
    await before.close()
    await service.close()


class Stuck(ReplayUpstream):
    """Cannot be closed."""

    async def close(self) -> None:
        raise OSError("it is stuck")


@in_loop
async def test_what_cannot_be_closed_keeps_nothing_else_open() -> None:
    pipe, shelf, closed = (
        UpstreamPipe(Endpoint("openai-chat", "http://127.0.0.1:9")),
        BlobStore(),
        list[str](),
    )

    async def retire() -> None:
        closed.append("retired")

    stuck = replace(model("a", pipe=pipe), upstream=Stuck([]))
    service = Service([stuck, replace(stuck, name="b")], shelf=shelf)
    service.retirement.begin("somebody")
    service.retirement.retire(retire)
    with pytest.raises(OSError, match="it is stuck"):
        await service.close()
    assert closed == ["retired"]
    with pytest.raises(StoreFailed):
        shelf.find(["any"])


@in_loop
async def test_what_is_broken_off_has_ended_before_anything_is_closed() -> None:
    service, began, ended = Service(), asyncio.Event(), list[str]()

    async def work() -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            for _ in range(3):  # it says good-bye
                await asyncio.sleep(0)
            ended.append("over")

    service.hold(asyncio.create_task(work()))
    await began.wait()
    await service.settle(0.0)
    assert ended == ["over"]


@in_loop
async def test_what_goes_on_is_waited_for_and_then_broken_off() -> None:
    service = Service()
    await service.settle(0.0)

    async def fail() -> None:
        raise ValueError("nobody asks")

    short, long = asyncio.create_task(fail()), asyncio.create_task(asyncio.Event().wait())
    service.hold(short)
    service.hold(long)
    await service.settle(0.01)
    await asyncio.wait([long])
    assert long.cancelled()
    await service.settle(0.0)
    await service.close()

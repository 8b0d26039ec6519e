"""The routes of models, and the tools that they offer."""

from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from proxy_server import in_loop
from wholecall.errors import UnknownModel, UnreadableRequest
from wholecall.proxy.config.schema import ModelConfig
from wholecall.proxy.handlers.passthrough import UpstreamPipe
from wholecall.proxy.handlers.request_plan import ModelRoute, ModelRoutes
from wholecall.proxy.http.api_keys import Key
from wholecall.proxy.http.client_request import ClientRequest
from wholecall.proxy.routes.client_route import CHAT_CLIENT
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
    return ClientRequest(
        client=CHAT_CLIENT, body=b"", headers=Headers(named), request_id="r", key=key
    )


def test_a_model_is_found_by_its_name_or_else_by_the_star() -> None:
    routes = ModelRoutes([model("a"), model("*")])
    assert routes.find("a", ask().key).model == "theirs"
    other = routes.find("qwen", ask().key)
    assert (other.name, other.model) == ("qwen", "qwen")
    with pytest.raises(UnknownModel):
        routes.find("qwen", ask(models=("a",)).key)
    with pytest.raises(UnknownModel):
        ModelRoutes([model("a")]).find("b", ask().key)


def test_tools_are_offered_if_model_and_key_allow_them() -> None:
    routes = ModelRoutes(tools=lambda: [make_tool(look), make_tool(dig)])
    assert [t.name for t in routes.tools_for(ask(), model("a"))] == ["look", "dig"]
    assert [t.name for t in routes.tools_for(ask(tools=("d*",)), model("a"))] == ["dig"]
    assert [
        t.name
        for t in routes.tools_for(
            ask(), model("a", settings=ModelConfig(upstream="", tools=("look",)))
        )
    ] == ["look"]
    assert len(ModelRoutes().tools_for(ask(), model("a"))) == 0


@pytest.mark.parametrize(
    ("wanted", "names"), [("dig", ["dig"]), (" dig , look,dig", ["dig", "look"]), ("", [])]
)
def test_a_client_may_want_some_of_the_tools(wanted: str, names: list[str]) -> None:
    routes = ModelRoutes(tools=lambda: [make_tool(look), make_tool(dig)])
    tools = routes.tools_for(ask(x_wholecall_tools=wanted), model("a"))
    assert [tool.name for tool in tools] == names


def test_a_client_cannot_want_what_is_not_offered_to_it() -> None:
    routes = ModelRoutes(tools=lambda: [make_tool(look), make_tool(dig)])
    for asked in (ask(x_wholecall_tools="fly"), ask(tools=("d*",), x_wholecall_tools="look")):
        with pytest.raises(UnreadableRequest, match="is not offered"):
            routes.tools_for(asked, model("a"))


@in_loop
async def test_models_can_be_changed_and_closed() -> None:
    pipe = UpstreamPipe(Endpoint("openai-chat", "http://127.0.0.1:9"))
    routes = ModelRoutes([model("a", pipe=pipe)])
    [before] = routes.replace({"b": model("b")})
    assert (before.name, list(routes.by_name)) == ("a", ["b"])
    await before.close()
    await routes.close()

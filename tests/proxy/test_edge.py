"""The outermost layer, around a real application and on a real socket."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Message, Receive, Scope, Send

from asgi_calls import ask, call, make_scope
from wholecall.proxy.config.problems import ConfigError
from wholecall.proxy.config.settings import Config, KeysConfig, ListenConfig, ServerLimits
from wholecall.proxy.edge import CALLER, Caller, Edge
from wholecall.proxy.keys import ANONYMOUS, STRANGER, Key, KeyStore
from wholecall.proxy.quotas import Quotas
from wholecall.proxy.refusing import Refused
from wholecall.proxy.reply import Refusal


async def answer(request: Request) -> Response:
    """Reads the body and says who asked for what."""
    try:
        body = await request.body()
    except ClientDisconnect:
        return Response("nobody hears this")
    caller: Caller = request.scope[CALLER]
    return JSONResponse({"bytes": len(body), "key": caller.key.name, "id": caller.request_id})


ROUTES = [
    Route("/health", answer),
    Route("/ready", answer),
    Route("/metrics", answer),
    Mount("/inspector", routes=[Route("/", answer), Route("/events", answer)]),
    Route("/v1/models", answer),
    Route("/v1/tools", answer),
    Route("/v1/chat/completions", answer, methods=["POST"]),
    Route("/v1/responses", answer, methods=["POST"]),
    Route("/v1/responses/{id}", answer, methods=["GET", "DELETE"]),
    Route("/v1/messages", answer, methods=["POST"]),
    Route("/v1/messages/count_tokens", answer, methods=["POST"]),
]
LOCKED = Config(keys=KeysConfig(required=True))


def walk(routes: list[Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Every method and path of a route table."""
    for route in routes:
        if isinstance(route, Mount):
            yield from walk(route.routes, prefix + route.path)
        else:
            for method in sorted(route.methods):
                yield method, prefix + route.path.replace("{id}", "resp_1")


EVERYTHING = list(walk(ROUTES))
GUARDED = [
    # What does not exist is guarded, too: nobody can find out which paths there are.
    *((method, path) for method, path in EVERYTHING if path != "/health"),
    ("GET", "/nowhere"),
    ("POST", "/health/x"),
    ("GET", "/health/"),
    ("GET", "//health"),
    ("OPTIONS", "/v1/models"),
    ("DELETE", "/v1/chat/completions"),
]


@pytest.fixture
def keys(tmp_path: Path) -> Iterator[KeyStore]:
    with closing(KeyStore(tmp_path / "keys.sqlite")) as store:
        yield store


def make_edge(
    config: Config, *, keys: KeyStore | None = None, quotas: Quotas | None = None
) -> Edge:
    return Edge(Starlette(routes=ROUTES), config, keys=keys, quotas=quotas)


def make_key(keys: KeyStore, **rights: Any) -> dict[str, str]:
    text, _ = keys.create(Key(id="", name="ops", **rights))
    return {"authorization": f"Bearer {text}"}


# ── Every route ─────────────────────────────────────────────────────────────────────


def test_the_table_has_routes_of_all_kinds() -> None:
    assert len(EVERYTHING) > 15
    assert len(GUARDED) > len(EVERYTHING)


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_without_a_key_nothing_is_reached(method: str, path: str, *, keys: KeyStore) -> None:
    answered = ask(make_edge(LOCKED, keys=keys), path, method=method)
    assert answered.status == 401
    assert answered.headers["www-authenticate"] == "Bearer"
    assert CALLER not in answered.scope


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_a_foreign_host_reaches_nothing(method: str, path: str) -> None:
    answered = ask(make_edge(Config()), path, method=method, headers={"host": "evil.example"})
    assert answered.status == 421
    assert CALLER not in answered.scope


@pytest.mark.parametrize(("method", "path"), GUARDED)
def test_a_foreign_website_reaches_nothing(method: str, path: str) -> None:
    headers = {"origin": "https://evil.example", "access-control-request-method": "POST"}
    answered = ask(make_edge(Config()), path, method=method, headers=headers)
    assert answered.status == 403
    assert CALLER not in answered.scope


@pytest.mark.parametrize(("method", "path"), [*EVERYTHING, *GUARDED])
def test_headers_and_bodies_that_are_too_large_reach_nothing(method: str, path: str) -> None:
    edge = make_edge(Config())
    for headers, status in [
        ({"x-large": "x" * 40_000}, 431),
        ({f"x-{number}": "" for number in range(101)}, 431),
        ({"content-length": "99999999999"}, 413),
    ]:
        answered = ask(edge, path, method=method, headers=headers)
        assert answered.status == status
        assert CALLER not in answered.scope


@pytest.mark.parametrize(("method", "path"), EVERYTHING)
@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
def test_with_a_key_everything_is_reached(
    method: str, path: str, *, header: str, keys: KeyStore
) -> None:
    value = make_key(keys)["authorization"]
    value = value if header == "authorization" else value.removeprefix("Bearer ")
    answered = ask(make_edge(LOCKED, keys=keys), path, method=method, headers={header: value})
    assert answered.status == 200
    assert CALLER in answered.scope


def test_health_is_open_to_whoever_asks(keys: KeyStore) -> None:
    headers = {"host": "10.1.2.3", "origin": "https://evil.example"}
    answered = ask(make_edge(LOCKED, keys=keys), "/health", headers=headers)
    assert answered.status == 200
    assert answered.scope[CALLER].key is STRANGER


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/metrics", 200),
        ("/inspector/", 200),
        ("/inspector/events", 200),
        ("/ready", 401),
        ("/metricsx", 401),
        ("/v1/models", 401),
    ],
)
def test_pages_are_open_as_configured(path: str, status: int, *, keys: KeyStore) -> None:
    config = Config(keys=KeysConfig(required=True, open=("/metrics", "/inspector")))
    edge = make_edge(config, keys=keys)
    assert ask(edge, path).status == status
    assert ask(edge, path, headers={"host": "evil.example"}).status == 421
    # Whoever may look may not change anything.
    assert ask(edge, path, method="POST").status == 401


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/inspector", 200),
        ("/inspector/page/app.js", 200),
        ("/inspector/", 401),
        ("/inspector/pages", 401),
        ("/inspector/page/../api/runs", 401),
        ("/inspector/api/runs", 401),
        ("/inspector/api/live", 401),
    ],
)
def test_the_inspectors_page_is_open_and_what_it_shows_is_not(
    path: str, status: int, *, keys: KeyStore
) -> None:
    async def answer_anything(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - ASGI
        await JSONResponse({})(scope, receive, send)

    edge = Edge(answer_anything, LOCKED, keys=keys)
    assert ask(edge, path).status == status


# ── Keys ────────────────────────────────────────────────────────────────────────────


def test_where_no_key_is_needed_any_is_ignored_that_is_not_ours(keys: KeyStore) -> None:
    for edge in (make_edge(Config()), make_edge(Config(), keys=keys)):
        for headers in ({}, {"authorization": "Bearer dummy"}, {"x-api-key": "sk-x"}):
            answered = ask(edge, "/v1/models", headers=headers)
            assert answered.scope[CALLER].key is ANONYMOUS


def test_a_key_of_ours_counts_even_where_none_is_needed(keys: KeyStore) -> None:
    good = make_key(keys)
    edge = make_edge(Config(), keys=keys)
    assert ask(edge, "/v1/models", headers=good).json["key"] == "ops"
    [entry] = keys.list()
    keys.revoke(entry.key.id)
    assert ask(edge, "/v1/models", headers=good).status == 401
    assert ask(make_edge(Config()), "/v1/models", headers=good).status == 200


def test_without_a_store_every_key_is_refused_where_one_is_needed() -> None:
    headers = {"authorization": "Bearer wc_abc"}
    assert ask(make_edge(LOCKED), "/v1/models", headers=headers).status == 401


def test_a_refusal_does_not_repeat_the_key(keys: KeyStore) -> None:
    headers = {"authorization": "Bearer wc_wrong"}
    answered = ask(make_edge(LOCKED, keys=keys), "/v1/models", headers=headers)
    assert b"wc_wrong" not in answered.body
    assert answered.json["error"]["code"] == "invalid_api_key"


def test_a_store_that_fails_closes_the_door(keys: KeyStore) -> None:
    headers = make_key(keys)
    edge = make_edge(LOCKED, keys=keys)
    keys.close()
    scope = make_scope("GET", "/v1/models", headers=headers)
    with pytest.raises(Exception, match="the keys cannot be read"):
        asyncio.run(call(edge, scope))
    assert CALLER not in scope


# ── Answers ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "header"),
    [("/v1/chat/completions", "x-request-id"), ("/v1/messages", "request-id")],
)
def test_answers_and_refusals_have_the_id_of_their_request(
    path: str, header: str, *, keys: KeyStore
) -> None:
    edge = make_edge(Config())
    given = ask(edge, path, method="POST", headers={"x-request-id": "mine-1"})
    assert (given.headers[header], given.json["id"]) == ("mine-1", "mine-1")
    refused = ask(make_edge(LOCKED, keys=keys), path, method="POST")
    assert refused.headers[header] == refused.json["request_id"]
    assert refused.headers[header].startswith("req_")


def test_refusals_have_the_shape_of_the_clients_protocol(keys: KeyStore) -> None:
    edge = make_edge(LOCKED, keys=keys)
    assert "type" in ask(edge, "/v1/chat/completions", method="POST").json["error"]
    anthropic = ask(edge, "/v1/messages", method="POST").json
    assert (anthropic["type"], anthropic["error"]["type"]) == ("error", "authentication_error")


def test_an_admitted_website_may_ask_and_call_and_read(keys: KeyStore) -> None:
    listen = ListenConfig(origins=("https://chat.example",))
    edge = make_edge(replace(LOCKED, listen=listen), keys=keys)
    asks = {
        "origin": "https://chat.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization",
    }
    asked = ask(edge, "/v1/models", method="OPTIONS", headers=asks)
    assert asked.status == 204
    assert asked.headers["access-control-allow-headers"] == "authorization"
    assert CALLER not in asked.scope
    for headers, status in [({}, 401), (make_key(keys), 200)]:
        called = ask(edge, "/v1/models", headers={"origin": "https://chat.example", **headers})
        assert called.status == status
        assert called.headers["access-control-allow-origin"] == "https://chat.example"


# ── Quotas ──────────────────────────────────────────────────────────────────────────


def test_who_asks_too_often_has_to_wait(keys: KeyStore) -> None:
    headers = make_key(keys, rpm=2)
    edge = make_edge(LOCKED, keys=keys, quotas=Quotas(clock=lambda: 0.0))
    statuses = [ask(edge, "/v1/models", headers=headers).status for _ in range(2)]
    assert statuses == [200, 200]
    refused = ask(edge, "/v1/models", headers=headers)
    assert (refused.status, refused.headers["retry-after"]) == (429, "30")
    assert refused.json["error"]["type"] == "rate_limit_error"
    assert ask(edge, "/v1/models", headers=make_key(keys)).status == 200


class Held:
    """An application that answers when it is let."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.let = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: PLR0917 - the form of ASGI
        self.asked.set()
        await self.let.wait()
        await Response("done")(scope, receive, send)


@pytest.mark.parametrize(
    ("limit", "rights", "status"), [(1000, {"concurrent": 1}, 429), (1, {}, 503)]
)
def test_places_are_taken_while_requests_to_models_last(
    limit: int, rights: dict[str, int], *, status: int, keys: KeyStore
) -> None:
    headers = make_key(keys, **rights)

    async def run() -> list[int]:
        app = Held()
        config = replace(LOCKED, limits=ServerLimits(concurrent=limit))
        edge = Edge(app, config, keys=keys)

        async def post(path: str) -> int:
            answered = await call(edge, make_scope("POST", path, headers=headers))
            return answered.status

        first = asyncio.create_task(post("/v1/messages"))
        await app.asked.wait()
        refused = await post("/v1/chat/completions")
        app.let.set()
        other = await post("/v1/messages/count_tokens")
        return [await first, refused, other, await post("/v1/responses")]

    assert asyncio.run(run()) == [200, status, 200, 200]


LOOKS: dict[str, tuple[str, str, bytes, bool]] = {
    "a stream": ("GET", "/v1/responses/r", b"stream=true&starting_after=7", True),
    "the last word counts": ("GET", "/v1/responses/r", b"stream=false&stream=true", True),
    "a stream without its body": ("HEAD", "/v1/responses/r", b"stream=true", True),
    "the response": ("GET", "/v1/responses/r", b"", False),
    "the response, expressly": ("GET", "/v1/responses/r", b"stream=true&stream=false", False),
    "an end": ("POST", "/v1/responses/r/cancel", b"stream=true", False),
    "something else": ("GET", "/v1/models", b"stream=true", False),
}


@pytest.mark.parametrize(("method", "path", "query", "held"), LOOKS.values(), ids=LOOKS)
def test_a_place_is_taken_while_the_stream_of_a_response_is_read(
    method: str, path: str, *, query: bytes, held: bool
) -> None:
    quotas, running = Quotas(), list[int]()

    async def look(*_: object) -> None:
        running.append(quotas.running)
        raise Refused(404, "nothing is held", code="response_not_found")

    scope = {**make_scope(method, path), "query_string": query}
    asyncio.run(call(Edge(look, Config(), quotas=quotas), scope))
    assert running == [int(held)]
    assert quotas.running == 0


def test_a_request_that_fails_gives_its_place_back(keys: KeyStore) -> None:
    async def fail(*_: object) -> None:
        raise ZeroDivisionError

    quotas = Quotas()
    edge = Edge(fail, Config(), keys=keys, quotas=quotas)
    with pytest.raises(ZeroDivisionError):
        ask(edge, "/v1/messages", method="POST")
    assert quotas.running == 0


# ── What is told of refusals ────────────────────────────────────────────────────────


def test_every_refusal_is_told_of_with_whose_it_was(keys: KeyStore) -> None:
    told: list[Refusal] = []
    config = replace(LOCKED, limits=ServerLimits(body_bytes=5))
    edge = make_edge(config, keys=keys, quotas=Quotas(clock=lambda: 0.0))
    edge.on_refusal = told.append
    headers = {**make_key(keys, rpm=2), "x-request-id": "mine"}
    [entry] = keys.list()
    ask(edge, "/v1/models")
    ask(edge, "/v1/models", headers={"host": "evil.example"})
    ask(edge, "/v1/messages", method="POST", headers=headers, pieces=[b"four", b"more"])
    ask(edge, "/nowhere", headers=headers)
    ask(edge, "/v1/models", headers=headers)
    assert [(each.status, each.code, each.key_id) for each in told] == [
        (401, "invalid_api_key", ""),
        (421, "invalid_host", ""),
        (413, "request_too_large", entry.key.id),
        (429, "rate_limit_exceeded", entry.key.id),
    ]
    assert [each.path for each in told] == [
        "/v1/models",
        "/v1/models",
        "/v1/messages",
        "/v1/models",
    ]
    assert told[-1].request_id == "mine"


# ── The application ─────────────────────────────────────────────────────────────────


def test_a_bug_is_told_to_the_client_without_its_words_and_raised_for_the_log() -> None:
    sent: list[Message] = []

    async def fail(*_: object) -> None:
        raise ZeroDivisionError("the password is 1234")

    async def run() -> None:
        async def receive() -> Message:
            raise AssertionError

        async def send(message: Message) -> None:
            sent.append(message)

        await Edge(fail, Config())(make_scope("POST", "/v1/messages"), receive, send)

    with pytest.raises(ZeroDivisionError):
        asyncio.run(run())
    assert sent[0]["status"] == 500
    body = json.loads(sent[1]["body"])
    assert body["error"]["type"] == "api_error"
    assert "1234" not in str(body)


def test_other_settings_hold_from_the_next_request_on(keys: KeyStore) -> None:
    edge = make_edge(Config(), keys=keys)
    assert ask(edge, "/v1/models").status == 200
    edge.reload(LOCKED)
    assert ask(edge, "/v1/models").status == 401


def test_keys_that_become_needed_come_with_their_store(keys: KeyStore) -> None:
    edge = make_edge(Config())
    edge.reload(LOCKED, keys=keys)
    assert ask(edge, "/v1/models", headers=make_key(keys)).status == 200


def test_settings_that_would_open_the_door_are_not_taken_over(keys: KeyStore) -> None:
    edge = make_edge(replace(LOCKED, listen=ListenConfig(host="10.0.0.1", hosts=("*",))), keys=keys)
    with pytest.raises(ConfigError, match=r"keys\.required"):
        edge.reload(Config())
    assert ask(edge, "/v1/models").status == 401


def test_the_lifespan_reaches_the_application() -> None:
    reached = []

    async def app(scope: Scope, *_: object) -> None:
        reached.append(scope["type"])

    asyncio.run(call(Edge(app, LOCKED), {"type": "lifespan"}))
    assert reached == ["lifespan"]


def test_a_websocket_is_closed() -> None:
    answered = asyncio.run(call(make_edge(Config()), {"type": "websocket"}))
    assert answered.messages == [{"type": "websocket.close", "code": 1008}]
